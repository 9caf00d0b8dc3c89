"""What both versions of cgroups have in common: making, filling and emptying a job's group."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from slaqd_local.hierarchy import Hierarchy

_ROUNDS = 20


def write(path: Path, text: str) -> None:
    """Write one value to a control file in one write, as the kernel asks. OSError says what it refused."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode("ascii"))
    finally:
        os.close(handle)


def set_quota(quota: Path, value: str, burst: Path, burst_us: int) -> None:
    """Set a quota, and let what stays unused of a period be used later.

    A job that wanted its quota may have waited for a CPU; without a burst that time
    would be lost. Each write gives the group a fresh quota, so a burst that still
    serves is left as it is. The kernel refuses a burst above the quota; kernels older
    than 5.14 have none.
    """
    before = number(burst) if burst.exists() else None
    if before is not None and before > burst_us:
        write(burst, str(burst_us))
    write(quota, value)
    if before is not None and before < burst_us // 2:
        write(burst, str(burst_us))


def number(path: Path) -> int:
    """Read a control file that holds one number."""
    return int(path.read_text(encoding="ascii"))


def table(path: Path) -> dict[str, int]:
    """Read a control file of names and numbers, such as ``cpu.stat``."""
    pairs = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}  # noqa: PLR2004 - a name, a number


def members(directory: Path) -> list[int]:
    """List the processes of a group; none if it isn't there. A process of another namespace shows as 0."""
    try:
        return [
            pid for pid in map(int, (directory / "cgroup.procs").read_text(encoding="ascii").split()) if pid
        ]
    except FileNotFoundError:
        return []


def count(directory: Path) -> int:
    """Count the groups directly below: a directory has a link from each."""
    return max(0, directory.stat().st_nlink - 2)


def move(pids: Iterable[int], directory: Path) -> None:
    """Move processes with all their threads. Those that have ended are passed over."""
    for pid in pids:
        try:
            write(directory / "cgroup.procs", str(pid))
        except ProcessLookupError:
            continue


def origins(hierarchy: Hierarchy, pids: Collection[int]) -> dict[str, str]:
    """Tell the group of each process; those that have ended are left out."""
    found = {}
    for pid in pids:
        try:
            found[str(pid)] = hierarchy.group_of(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def empty(directory: Path, hierarchy: Hierarchy, came_from: Mapping[str, str]) -> None:
    """Send all processes of a group back, and remove it. New ones may be forked meanwhile: look again."""
    for _ in range(_ROUNDS):
        pids = members(directory)
        if not pids:
            break
        for pid in pids:
            group = came_from.get(str(pid), came_from.get("", hierarchy.own))
            _send_back(pid, hierarchy, group)
    remove(directory)


def _send_back(pid: int, hierarchy: Hierarchy, group: str) -> None:
    # The group it came from may be gone by now (systemd removes empty scopes):
    # then the nearest one above that takes processes.
    error: OSError | None = None
    for directory in reversed(hierarchy.chain(group)):
        try:
            move([pid], directory)
        except OSError as refused:
            error = refused
        else:
            return
    if error is not None:
        raise error


def remove(directory: Path) -> None:
    """Remove a group, and the one above if it was the last; what still has members stays."""
    for each in (directory, directory.parent):
        try:
            each.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return
