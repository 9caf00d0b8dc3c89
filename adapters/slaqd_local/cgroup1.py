"""CPU quotas by cgroup version 1: ``cpu.cfs_quota_us`` in every period.

The kernel's Documentation/scheduler/sched-bwc says how quotas work, and
Documentation/admin-guide/cgroup-v1/cpuacct how CPU time is counted. Where
``cpuacct`` is a hierarchy of its own, the job gets a group there too.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from slaqd.types import JobKey
from slaqd_local import groups, hierarchy
from slaqd_local.groups import Move
from slaqd_local.hierarchy import Hierarchy
from slaqd_local.means import Origins, Seen, job_directory, quota_us
from slaqd_local.processes import Table
from slaqd_local.weights import Weights

_SHARES = 1024
_LEAST_SHARES = 2
_MOST_SHARES = 262_144


class Cgroup1:
    """Holds jobs by groups in the ``cpu`` hierarchy of version 1."""

    name = "cgroup1"

    def __init__(
        self,
        group: str,
        period_us: int,
        move: Move = groups.move,
        weights: Weights | None = None,
        *,
        shared: bool = False,
    ) -> None:
        self._group = group
        self._period_us = period_us
        self._move = move
        self._weights = weights or self.weights()
        self._cpu = hierarchy.find("cpu", shared=shared)
        self._acct = hierarchy.find("cpuacct", shared=shared)
        if self._cpu and self._acct and self._acct.mount.point == self._cpu.mount.point:
            self._acct = self._cpu

    @staticmethod
    def weights() -> Weights:
        """Make what remembers the weights, to outlive this object where it is made anew for each request."""
        return Weights("cpu.shares", _SHARES, _LEAST_SHARES, _MOST_SHARES)

    def why_not(self) -> str | None:
        """See `Means.why_not`."""
        if self._cpu is None:
            return "the cpu controller of cgroup v1 is not mounted"
        if self._cpu.writable() is None:
            return f"no right to make groups in {self._cpu.directory(self._cpu.own)}"
        return None

    def bars(self, pids: Collection[int]) -> str | None:
        """See `Means.bars`: a quota that is there already must not be escaped."""
        return next(iter(groups.barred(self._need(), pids, self._bar).values()), None)

    def _bar(self, group: str) -> str | None:
        for directory in self._need().chain(group):
            if not self._is_ours(directory) and _quota(directory) is not None:
                return f"it has a CPU quota of its own in {directory}"
        return None

    def origins(self, pids: Collection[int]) -> Origins:
        """See `Means.origins`."""
        return {each.controller: self._from_outside(each, pids) for each in self._hierarchies()}

    def look(self, key: JobKey) -> Seen | None:
        """See `Means.look`."""
        directory = self._directory(self._need(), key)
        try:
            quota = _quota(directory)
            stat = groups.table(directory / "cpu.stat")
            whole = quota is None or self._is_whole(directory, quota)
        except FileNotFoundError:
            return None
        return Seen(
            milli=quota if whole else None,
            pids=frozenset(groups.members(directory)),
            cpu_seconds=self._cpu_seconds(key),
            periods=stat.get("nr_periods", 0),
            throttled=stat.get("nr_throttled", 0),
        )

    def hold(self, key: JobKey, pids: Collection[int], milli: int) -> None:
        """See `Means.hold`: the quota stands before the first process comes under it."""
        for each in self._hierarchies():
            groups.make(self._home(each))
            groups.make(self._directory(each, key))
        directory = self._directory(self._need(), key)
        if groups.number(directory / "cpu.cfs_period_us") != self._period_us:
            groups.write(directory / "cpu.cfs_period_us", str(self._period_us))
        quota = quota_us(milli, self._period_us)
        # The quota is what is read back as done, so all else comes before it.
        self._weights.set(directory, milli)
        _set_quota(directory, quota, burst=quota)
        self._take(key, self.outside(key, pids))

    def outside(self, key: JobKey, pids: Collection[int]) -> list[int]:
        """See `Means.outside`."""
        directories = [self._directory(each, key) for each in self._hierarchies()]
        if not directories[0].is_dir():
            return []
        inside = set.intersection(*(set(groups.members(directory)) for directory in directories))
        return groups.may_come(self._need(), [pid for pid in pids if pid not in inside], self._bar)

    def trouble(self, pids: Collection[int]) -> str | None:
        """See `Means.trouble`: a quota reaches all that is in the group."""
        del pids
        return None

    def escapes(self, pids: Collection[int]) -> str | None:
        """See `Means.escapes`."""
        return groups.escapes(self._need(), pids, self._bar)

    def gather(self, key: JobKey, pids: Collection[int], table: Table) -> None:
        """See `Means.gather`."""
        del table
        self._take(key, pids)

    def lift(self, key: JobKey) -> None:
        """See `Means.lift`."""
        try:
            directory = self._directory(self._need(), key)
            _set_quota(directory, -1, burst=0)
            self._weights.set(directory, 1000)
        except FileNotFoundError:
            return

    def give_back(self, key: JobKey, origins: Origins) -> None:
        """See `Means.give_back`."""
        self.lift(key)
        for each in self._hierarchies():
            groups.empty(self._directory(each, key), each, origins.get(each.controller, {}), self._move)
        self._weights.drop(self._directory(self._need(), key))

    def clear(self, key: JobKey) -> None:
        """See `Means.clear`."""
        for each in self._hierarchies():
            groups.remove(self._directory(each, key))
        self._weights.drop(self._directory(self._need(), key))

    def close(self) -> None:
        """See `Means.close`: there are none."""

    def places(self, key: JobKey) -> list[tuple[Hierarchy, Path]]:
        """See `Cgroups.places`."""
        return [(each, self._directory(each, key)) for each in self._hierarchies()]

    def _is_whole(self, directory: Path, milli: int) -> bool:
        return groups.is_whole(directory / "cpu.cfs_burst_us", quota_us(milli, self._period_us))

    def _from_outside(self, each: Hierarchy, pids: Collection[int]) -> dict[str, str]:
        # A process that a kill left moved in one hierarchy and not yet in the other came from
        # elsewhere all the same: sent back to our own group it would never leave.
        found, home = groups.origins(each, pids), self._home(each)
        return {pid: group for pid, group in found.items() if home not in each.directory(group).parents}

    def _take(self, key: JobKey, pids: Collection[int]) -> None:
        for each in self._hierarchies():
            directory = self._directory(each, key)
            here = set(groups.members(directory))
            self._move([pid for pid in pids if pid not in here], directory, each)

    def _cpu_seconds(self, key: JobKey) -> float | None:
        if self._acct is None or self._acct not in self._hierarchies():
            return None
        try:
            return groups.number(self._directory(self._acct, key) / "cpuacct.usage") / 1e9
        except FileNotFoundError:
            return None

    def _need(self) -> Hierarchy:
        if self._cpu is None:
            raise FileNotFoundError(self.why_not())
        return self._cpu

    def _hierarchies(self) -> list[Hierarchy]:
        cpu, acct = self._need(), self._acct
        return [cpu] if acct is None or acct is cpu or acct.writable() is None else [cpu, acct]

    def _home(self, each: Hierarchy) -> Path:
        return (each.writable() or each.mount.point) / self._group

    def _directory(self, each: Hierarchy, key: JobKey) -> Path:
        return self._home(each) / job_directory(key)

    def _is_ours(self, directory: Path) -> bool:
        home = self._home(self._need())
        return directory == home or home in directory.parents


def _set_quota(directory: Path, quota: int, burst: int) -> None:
    groups.set_quota(directory / "cpu.cfs_quota_us", str(quota), directory / "cpu.cfs_burst_us", burst)


def _quota(directory: Path) -> int | None:
    """Read a quota in thousandths of a core; None without a limit. A root group may have no such file."""
    try:
        quota = groups.number(directory / "cpu.cfs_quota_us")
        period = groups.number(directory / "cpu.cfs_period_us")
    except FileNotFoundError:
        if not directory.is_dir():
            raise
        return None
    return None if quota < 0 else round(quota * 1000 / period)
