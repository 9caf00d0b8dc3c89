"""How much of this machine slaqd's jobs may hold together."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from slaqd_local import hierarchy
from slaqd_local.hierarchy import UNIFIED, Hierarchy
from slaqd_local.processes import PROC, TICKS_PER_S

WINDOW_S = 10.0
"""The use by other processes is averaged over this long."""

_SHORTEST_S = 1.0
_IDLE = slice(3, 5)  # idle and iowait, proc(5)
_TIMES = slice(0, 8)  # up to steal; guest time is in user already


class _Sample(NamedTuple):
    at: float
    busy: float
    jobs: float


class Others:
    """The cores that processes outside slaqd's jobs use, over the last `WINDOW_S` seconds."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        self._cores = 0.0

    @property
    def busy(self) -> float:
        """The cores that were busy between the last two looks, by whatever they ran."""
        if len(self._samples) < 2:  # noqa: PLR2004 - two ends of an interval
            return 0.0
        before, last = self._samples[-2], self._samples[-1]
        return (last.busy - before.busy) / (last.at - before.at) if last.at > before.at else 0.0

    def look(self, at: float, busy: float, jobs: float) -> float:
        """Take in a sample and give the cores that others use.

        ``busy`` and ``jobs`` are CPU seconds since some zero, ``at`` is monotonic.
        Until there is a second of history others are taken to use nothing.
        """
        self._samples.append(_Sample(at, busy, jobs))
        while len(self._samples) > 2 and at - self._samples[1].at >= WINDOW_S:  # noqa: PLR2004 - two ends of a window
            self._samples.popleft()
        first = self._samples[0]
        if at - first.at >= _SHORTEST_S:
            used = (busy - first.busy) - (jobs - first.jobs)
            self._cores = max(0.0, used / (at - first.at))
        return self._cores


def parse_busy(text: str, cpus: Collection[int]) -> float:
    """Add up the seconds for which these CPUs were busy, from ``/proc/stat``; stolen time counts as busy."""
    total = 0
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            times = [int(word) for word in rest.split()[_TIMES]]
            total += sum(times) - sum(times[_IDLE])
    return total / TICKS_PER_S


def busy_seconds() -> float:
    """Tell for how long the CPUs that we may run on were busy since boot, summed over them."""
    return parse_busy((PROC / "stat").read_text(encoding="ascii"), os.sched_getaffinity(0))


def quota_cores() -> float | None:
    """Tell the CPU quota that encloses us, in cores; None if there is none."""
    found = []
    for controller in (UNIFIED, "cpu"):
        where = hierarchy.find(controller)
        if where is not None:
            found += _quotas(where)
    return min(found, default=None)


def _quotas(where: Hierarchy) -> list[float]:
    limits = (_limit(directory) for directory in where.chain(where.own))
    return [limit for limit in limits if limit is not None]


def _limit(directory: Path) -> float | None:
    try:
        if (directory / "cpu.max").exists():
            quota, period = (directory / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (directory / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (directory / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if quota in {"max", "-1"} else int(quota) / int(period)


def units(cores: float, limits: Collection[float], others: float, reserve: float, unit: float) -> int:
    """Count the units that jobs may hold together; all arguments in cores.

    Others' use is taken from the machine, not from what a limit leaves of it; the
    reserve is kept free under each limit that the kernel enforces.
    """
    free = min([cores - others, *limits]) - reserve
    # 1.8 cores are 18 units of 0.1, whatever binary fractions say.
    return max(0, int(free / unit + 1e-9))
