"""CPU quotas by cgroup version 2: ``cpu.max`` (Documentation/admin-guide/cgroup-v2)."""

from __future__ import annotations

import errno
from collections.abc import Collection
from pathlib import Path

from slaqd.types import JobKey
from slaqd_local import groups, hierarchy
from slaqd_local.groups import Move
from slaqd_local.hierarchy import UNIFIED, Hierarchy
from slaqd_local.means import Origins, Seen, job_directory, quota_us
from slaqd_local.processes import Table
from slaqd_local.weights import Weights

_LIMITS = ("cpu.max", "memory.max", "memory.high", "memory.swap.max", "io.max", "cpuset.cpus")
_CONTROLLERS = ("cpu", "pids")
_MAIN = "main"
_WEIGHT = 100
_LEAST_WEIGHT = 1
_MOST_WEIGHT = 10_000


class Cgroup2:
    """Holds jobs by groups in the unified hierarchy.

    The groups stand directly under the topmost group that we may divide: the root of
    the hierarchy for root, the delegated one for a user (cgroups(7), "Delegation").
    """

    name = "cgroup2"

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
        self._tree = hierarchy.find(UNIFIED, shared=shared)

    @staticmethod
    def weights() -> Weights:
        """Make what remembers the weights, to outlive this object where it is made anew for each request."""
        return Weights("cpu.weight", _WEIGHT, _LEAST_WEIGHT, _MOST_WEIGHT)

    def why_not(self) -> str | None:
        """See `Means.why_not`."""
        if self._tree is None:
            return "cgroup v2 is not mounted"
        top = self._tree.writable()
        if top is None:
            return f"no right to make groups in {self._tree.directory(self._tree.own)}"
        if "cpu" not in _words(top / "cgroup.controllers"):
            return f"the cpu controller is not among those of cgroup v2 in {top}"
        return None

    def bars(self, pids: Collection[int]) -> str | None:
        """See `Means.bars`: what limits a job already must not be escaped by leaving it."""
        return next(iter(groups.barred(self._need(), pids, self._bar).values()), None)

    def _bar(self, group: str) -> str | None:
        for directory in self._need().chain(group):
            if directory == self._home() or self._home() in directory.parents:
                continue
            limit = next((name for name in _LIMITS if _limits(directory / name)), None)
            if limit is not None:
                return f"it has a limit of its own, {directory / limit}"
        return None

    def origins(self, pids: Collection[int]) -> Origins:
        """See `Means.origins`."""
        return {UNIFIED: groups.origins(self._need(), pids)}

    def look(self, key: JobKey) -> Seen | None:
        """See `Means.look`."""
        directory = self._directory(key)
        try:
            quota, period = (directory / "cpu.max").read_text(encoding="ascii").split()
            stat = groups.table(directory / "cpu.stat")
            whole = quota != "max" and groups.is_whole(directory / "cpu.max.burst", int(quota))
        except FileNotFoundError:
            return None
        return Seen(
            milli=round(int(quota) * 1000 / int(period)) if whole else None,
            pids=frozenset(groups.members(directory)),
            cpu_seconds=stat["usage_usec"] / 1e6,
            periods=stat.get("nr_periods", 0),
            throttled=stat.get("nr_throttled", 0),
        )

    def hold(self, key: JobKey, pids: Collection[int], milli: int) -> None:
        """See `Means.hold`: the quota stands before the first process comes under it."""
        directory = self._directory(key)
        if not (directory / "cpu.max").exists():
            self._make(directory)
        if not _limits(directory / "cpu.max"):
            self._bound(directory, pids)
        quota = quota_us(milli, self._period_us)
        # The quota is what is read back as done, so all else comes before it.
        self._weights.set(directory, milli)
        _set_quota(directory, f"{quota} {self._period_us}", burst=quota)
        self._move(self.outside(key, pids), directory, self._need())

    def outside(self, key: JobKey, pids: Collection[int]) -> list[int]:
        """See `Means.outside`."""
        directory = self._directory(key)
        if not directory.is_dir():
            return []
        inside = set(groups.members(directory))
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
        self._move(pids, self._directory(key), self._need())

    def lift(self, key: JobKey) -> None:
        """See `Means.lift`."""
        try:
            directory = self._directory(key)
            _set_quota(directory, "max", burst=0)
            self._weights.set(directory, 1000)
        except FileNotFoundError:
            return

    def give_back(self, key: JobKey, origins: Origins) -> None:
        """See `Means.give_back`."""
        self.lift(key)
        came_from = {pid: self._stepped_down(group) for pid, group in origins.get(UNIFIED, {}).items()}
        groups.empty(self._directory(key), self._need(), came_from, self._move)
        self._weights.drop(self._directory(key))

    def clear(self, key: JobKey) -> None:
        """See `Means.clear`."""
        groups.remove(self._directory(key))
        self._weights.drop(self._directory(key))

    def close(self) -> None:
        """See `Means.close`: there are none."""

    def places(self, key: JobKey) -> list[tuple[Hierarchy, Path]]:
        """See `Cgroups.places`."""
        return [(self._need(), self._directory(key))]

    def _make(self, directory: Path) -> None:
        home = directory.parent
        groups.make(home)
        if (home.parent / "cgroup.type").exists():
            self._divide(home.parent)
        else:
            _enable(home.parent)
        _enable(home)
        groups.make(directory)

    def _divide(self, directory: Path) -> None:
        """Divide the CPU of a group below the root among groups.

        It may hold no process itself then: those in ours move down first, as systemd
        advises to whom it delegates (systemd.resource-control(5), Delegate=). Where one
        is forked meanwhile the kernel says EBUSY: look again.
        """
        for last in (False,) * groups.ROUNDS + (True,):
            self._step_down()
            try:
                _enable(directory)
            except OSError as error:
                if error.errno != errno.EBUSY or last:
                    raise
            else:
                return

    def _bound(self, directory: Path, pids: Collection[int]) -> None:
        """Let a job have no more processes than where it came from: systemd bounds each user (TasksMax)."""
        if not (directory / "pids.max").exists():
            return
        tree = self._need()
        groups_of = set(groups.origins(tree, pids).values())
        above = {each / "pids.max" for group in groups_of for each in tree.chain(group)}
        limits = [int(words[0]) for words in map(_words, above) if words and words[0] != "max"]
        if limits:
            groups.write(directory / "pids.max", str(min(limits)))

    def _step_down(self) -> None:
        leaf = self._leaf()
        pids = groups.members(leaf.parent)
        if pids:
            groups.make(leaf)
            self._move(pids, leaf, self._need())

    def _stepped_down(self, group: str) -> str:
        leaf = self._leaf()
        return (
            f"{group}/{leaf.name}"
            if self._need().directory(group) == leaf.parent and leaf.is_dir()
            else group
        )

    def _leaf(self) -> Path:
        return self._home().parent / f"{self._group}-{_MAIN}"

    def _need(self) -> Hierarchy:
        if self._tree is None:
            raise FileNotFoundError(self.why_not())
        return self._tree

    def _home(self) -> Path:
        tree = self._need()
        return (tree.writable() or tree.mount.point) / self._group

    def _directory(self, key: JobKey) -> Path:
        return self._home() / job_directory(key)


def _set_quota(directory: Path, quota: str, burst: int) -> None:
    groups.set_quota(directory / "cpu.max", quota, directory / "cpu.max.burst", burst)


def _enable(directory: Path) -> None:
    there, given = _words(directory / "cgroup.controllers"), _words(directory / "cgroup.subtree_control")
    missing = [f"+{each}" for each in _CONTROLLERS if each in there and each not in given]
    if missing:
        groups.write(directory / "cgroup.subtree_control", " ".join(missing))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []


def _limits(path: Path) -> bool:
    # Empty says no limit in io.max and cpuset.cpus; the latter limits nothing either where it
    # names all that the group above has (as container managers write it).
    words = _words(path)
    if path.name == "cpuset.cpus":
        return bool(words) and words != _words(path.parent.parent / "cpuset.cpus.effective")
    return bool(words) and words[0] != "max"
