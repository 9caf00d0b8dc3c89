"""Processes as ``/proc`` shows them. Standard library only: the keepers load this.

The fields are those of proc(5), ``/proc/PID/stat``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One process. ``start`` is in clock ticks since boot, ``own`` and ``reaped`` are CPU ticks.

    ``own`` counts all its threads, ended ones too; ``reaped`` its ended and
    waited-for children, and theirs.
    """

    pid: int
    state: str
    parent: int
    group: int
    start: int
    threads: int
    own: int
    reaped: int

    @property
    def alive(self) -> bool:
        """Tell whether anything of it can still run: a dead main thread may leave others."""
        return self.state not in "ZXx" or self.threads > 1

    @property
    def stopped(self) -> bool:
        """Tell whether it was stopped by a signal."""
        return self.state == "T"


Table = Mapping[int, Process]


def parse_stat(text: bytes) -> Process:
    """Read one line of ``/proc/PID/stat``. The name may hold spaces and brackets.

    Raises
    ------
    ValueError
        It is not such a line.

    """
    head, bracket, tail = text.rpartition(b")")
    fields = tail.split()
    if not bracket or len(fields) < 20:  # noqa: PLR2004 - up to field 22, starttime
        msg = f"not a line of /proc/PID/stat: {text[:80]!r}"
        raise ValueError(msg)
    return Process(
        int(head[: head.index(b" ")]),
        fields[0].decode("ascii"),
        int(fields[1]),
        int(fields[2]),
        int(fields[19]),
        int(fields[17]),
        int(fields[11]) + int(fields[12]),
        int(fields[13]) + int(fields[14]),
    )


def read(pid: int) -> Process | None:
    """Look at one process; None if there is none of that number."""
    try:
        # Each process of the machine in each cycle: without a buffer and without Path objects.
        with open(f"{PROC}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            return parse_stat(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_all() -> dict[int, Process]:
    """Look at every process, in one pass.

    Raises
    ------
    OSError
        ``/proc`` can't be listed.

    """
    table = {}
    for name in os.listdir(PROC):  # noqa: PTH208 - thousands of names; Path objects cost as much as the reads
        if name.isdigit() and (process := read(int(name))) is not None:
            table[process.pid] = process
    return table


def real_uid(pid: int) -> int | None:
    """Tell the real user of a process; None if it is gone."""
    try:
        return parse_uid((PROC / str(pid) / "status").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return None


def parse_uid(status: bytes) -> int:
    """Read the real user out of ``/proc/PID/status``.

    The kernel escapes only newlines in a process's name, so only they end lines: what
    Python counts as the end of a line beside them may be part of a name.
    """
    return int(status.partition(b"\nUid:")[2].split(maxsplit=1)[0])


def boot_id() -> str:
    """Tell which life of the kernel this is."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def families(
    table: Table, leaders: Mapping[int, int], known: Mapping[int, tuple[int, int]], apart: Iterable[int] = ()
) -> dict[int, set[int]]:
    """Sort processes into jobs: group members, and descendants that left the group.

    Parameters
    ----------
    table
        All processes.
    leaders
        The start of each job's group leader, by group.
    known
        What was a member before: start and group by pid. It finds the
        descendants whose parents are gone.
    apart
        Processes that belong to no job, nor do their descendants: slaqd itself.

    Returns
    -------
    dict
        The pids of each group, zombies included; a job without any has an empty set.

    """
    valid = {group for group, start in leaders.items() if _is_the_group(table, group, start)}
    before = {
        pid: group
        for pid, (start, group) in known.items()
        if group in leaders and pid in table and table[pid].start == start
    }
    belongs: dict[int, int | None] = dict.fromkeys(apart)
    result: dict[int, set[int]] = {group: set() for group in leaders}
    for pid in table:
        group = _belongs(pid, table, valid, before, belongs)
        if group is not None:
            result[group].add(pid)
    return result


def _is_the_group(table: Table, group: int, start: int) -> bool:
    # The kernel keeps a group's number from being used again while the group has
    # members, so a missing leader is an ended one, and another start another job.
    leader = table.get(group)
    return leader is None or leader.start == start


def _belongs(
    pid: int, table: Table, valid: set[int], before: Mapping[int, int], belongs: dict[int, int | None]
) -> int | None:
    walked: list[int] = []
    group: int | None = None
    while (process := table.get(pid)) is not None and pid not in belongs:
        walked.append(pid)
        # A loop can't be in the kernel, but a pass over /proc is many looks at it.
        belongs[pid] = None
        group = process.group if process.group in valid else before.get(pid)
        if group is not None:
            break
        pid = process.parent
    else:
        group = belongs.get(pid)
    belongs.update(dict.fromkeys(walked, group))
    return group


def is_stopped(pid: int) -> bool:
    """Tell whether a process is there and stopped by a signal."""
    process = read(pid)
    return process is not None and process.stopped
