"""What both versions of cgroups have in common: making, filling and emptying a job's group."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slaqd_local.hierarchy import Hierarchy

ROUNDS = 20
"""Looks at a group into which may be forked meanwhile."""

Move = Callable[[Iterable[int], Path, Hierarchy], None]
"""Moves processes into a group of a hierarchy. `move` moves whatever the kernel lets it."""


def write(path: Path, text: str) -> None:
    """Write one value to a control file in one write, as the kernel asks. OSError says what it refused."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode("ascii"))
    except OSError as error:
        error.filename = str(path)
        raise
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


def make(directory: Path) -> None:
    """Make a group that all may read and only its owner may write to, whatever the umask."""
    if directory.is_dir():
        return
    with _opened(directory.parent):
        directory.mkdir(exist_ok=True)
    directory.chmod(0o755)


@contextmanager
def _opened(directory: Path) -> Iterator[None]:
    # The root of a hierarchy has mode 0555. Root passes over that by a capability that
    # an agent doesn't have; but as the owner it may give itself the right, for as long.
    found = directory.stat()
    mode = stat.S_IMODE(found.st_mode)
    if os.access(directory, os.W_OK) or found.st_uid != os.geteuid() or mode & stat.S_IWUSR:
        yield
        return
    directory.chmod(mode | stat.S_IWUSR)
    try:
        yield
    finally:
        directory.chmod(mode)


def is_whole(burst: Path, burst_us: int) -> bool:
    """Tell whether `set_quota` came to its end: a kill may come before its last write, the burst."""
    return not burst.exists() or number(burst) >= burst_us // 2


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


def move(pids: Iterable[int], directory: Path, hierarchy: Hierarchy | None = None) -> None:
    """Move processes with all their threads. Those that have ended are passed over."""
    del hierarchy
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
            found[str(pid)] = plain(hierarchy.group_of(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def barred(hierarchy: Hierarchy, pids: Collection[int], bar: Callable[[str], str | None]) -> dict[int, str]:
    """Tell of processes that may not leave their groups, and why; ``bar`` says it of one group.

    One whose group can't be read stays where it is too. Those that have ended are left out.
    """
    found, bars = {}, dict[str, str | None]()
    for pid in pids:
        try:
            group = plain(hierarchy.group_of(pid))
            why = bars[group] if group in bars else bars.setdefault(group, bar(group))
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError as error:
            why = f"its group can't be read: {error.strerror}"
        if why is not None:
            found[pid] = why
    return found


def may_come(hierarchy: Hierarchy, pids: Collection[int], bar: Callable[[str], str | None]) -> list[int]:
    """Leave out those of `barred`."""
    stay = barred(hierarchy, pids, bar)
    return [pid for pid in pids if pid not in stay]


def escapes(hierarchy: Hierarchy, pids: Collection[int], bar: Callable[[str], str | None]) -> str | None:
    """Name the first of `barred` in words."""
    stay = sorted(barred(hierarchy, pids, bar).items())
    return next((f"process {pid} stays outside its quota: {why}" for pid, why in stay), None)


def plain(group: str) -> str:
    """Give the nearest group, itself or above, whose name is text, as only that can be written down.

    Users name groups below those that are delegated to them, with any bytes they like.
    """
    while any(0xDC80 <= ord(each) <= 0xDCFF for each in group):  # noqa: PLR2004 - surrogateescape, PEP 383
        group = group.rpartition("/")[0] or "/"
    return group


def empty(directory: Path, hierarchy: Hierarchy, came_from: Mapping[str, str], move: Move = move) -> None:
    """Send all processes of a group back, and remove it. New ones may be forked meanwhile: look again."""
    for _ in range(ROUNDS):
        pids = members(directory)
        if not pids:
            break
        for pid in pids:
            group = came_from.get(str(pid), came_from.get("", hierarchy.own))
            send_back(pid, hierarchy, group, move)
    remove(directory)


def send_back(pid: int, hierarchy: Hierarchy, group: str, move: Move = move) -> None:
    """Move a process to a group, or to the nearest above that takes it.

    The group it came from may be gone by now: systemd removes empty scopes.
    """
    error: OSError | None = None
    for directory in reversed(hierarchy.chain(group)):
        try:
            move([pid], directory, hierarchy)
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
            with _opened(each.parent):
                each.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return
