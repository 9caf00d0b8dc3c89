"""The ways of holding a job to its units, behind one face."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from slaqd.types import JobKey
from slaqd_local.hierarchy import Hierarchy
from slaqd_local.processes import Table

LEAST_US = 1_000
"""The least quota that the kernel takes (sched-bwc, ``min_cfs_quota_period``)."""

SHORTEST_US, LONGEST_US = 50_000, 100_000
"""Bounds of the quotas' period; the longer one is the kernel's own default."""


class Seen(NamedTuple):
    """How a job is held now, read back from where it is in force.

    ``milli`` is its quota in thousandths of a core, None while it runs free.
    ``cpu_seconds`` is None where the means does not count; ``since_adoption`` tells
    whether they are of the whole time or only of this slaqd's. Of ``periods`` quota
    periods it was cut short in ``throttled``.
    """

    milli: int | None
    pids: frozenset[int] = frozenset()
    cpu_seconds: float | None = None
    since_adoption: bool = True
    periods: int = 0
    throttled: int = 0


Origins = Mapping[str, Mapping[str, str]]
"""Where processes came from: for each controller the group by pid; under "" that of all others."""


class Means(Protocol):
    """One way of holding jobs. Methods raise OSError where the kernel says no."""

    name: str

    def why_not(self) -> str | None:
        """Say why it can't be used here; None if it can."""
        ...

    def bars(self, pids: Collection[int]) -> str | None:
        """Say why these processes can't be held by it; None if they can."""
        ...

    def origins(self, pids: Collection[int]) -> Origins:
        """Tell where processes are now, to be given back to `give_back`."""
        ...

    def look(self, key: JobKey) -> Seen | None:
        """Read back how a job is held; None if it isn't by this means."""
        ...

    def hold(self, key: JobKey, pids: Collection[int], milli: int) -> None:
        """Hold processes to ``milli`` thousandths of a core together: absolute, repeats harmless."""
        ...

    def outside(self, key: JobKey, pids: Collection[int]) -> list[int]:
        """Pick those that a held job's hold does not reach yet and could; none if it isn't held."""
        ...

    def trouble(self, pids: Collection[int]) -> str | None:
        """Say which of a held job's processes escape the hold for good; None if none does."""
        ...

    def escapes(self, pids: Collection[int]) -> str | None:
        """Say which of these, all outside a held job's hold, can't be taken into it; None if all can."""
        ...

    def gather(self, key: JobKey, pids: Collection[int], table: Table) -> None:
        """Take processes that joined the job into the hold that is there."""
        ...

    def lift(self, key: JobKey) -> None:
        """Let a job run free, keeping what is known of it."""
        ...

    def give_back(self, key: JobKey, origins: Origins) -> None:
        """Let a job run free where it came from."""
        ...

    def clear(self, key: JobKey) -> None:
        """Remove what is left of an ended job."""
        ...

    def close(self) -> None:
        """Let go of handles."""
        ...


class Cgroups(Means, Protocol):
    """A means whose holds are groups of processes."""

    def places(self, key: JobKey) -> list[tuple[Hierarchy, Path]]:
        """List the directories of a job's groups, whether they are there or not, with their hierarchies."""
        ...


def job_directory(key: JobKey) -> str:
    """Name a job's group: numbers alone, never a word that a user chose."""
    return f"job-{int(key.id)}-{int(key.start)}"


def period_us(unit_milli: int) -> int:
    """Choose the shortest period in which one unit is a quota that the kernel takes.

    The kernel hands out a whole period's quota anew whenever a quota is written
    (``tg_set_cfs_bandwidth``, Linux 6.18): the shorter the period, the less a job gains
    by being resized. The longer, the more of what a job missed in waiting for a CPU it
    may make up for, since a burst is at most one quota.
    """
    return min(LONGEST_US, max(SHORTEST_US, LEAST_US * 1000 // unit_milli))


def quota_us(milli: int, period: int) -> int:
    """Turn thousandths of a core into microseconds a period."""
    return max(LEAST_US, milli * period // 1000)
