"""Chooses by which means each job is held, and keeps the notes straight."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from slaqd.adapter import AsUser
from slaqd.types import JobKey
from slaqd_local.cgroup1 import Cgroup1
from slaqd_local.cgroup2 import Cgroup2
from slaqd_local.config import Config
from slaqd_local.keepers import Keepers
from slaqd_local.leftovers import left_behind
from slaqd_local.means import Cgroups, Means, Seen, period_us
from slaqd_local.notes import Hold, Notes
from slaqd_local.processes import Table
from slaqd_local.remote import Remote

_NOBODY = -1
_NOT_OURS = "slaqd isn't the owner of the jobs"


class Holder:
    """All means of this machine, best first. With an agent, that writes and slaqd only looks."""

    def __init__(self, config: Config, as_user: AsUser | None = None) -> None:
        self._as_user = as_user if as_user is not None and as_user.agent else None
        period, shared = period_us(config.unit_milli), self._as_user is not None
        cgroups: list[Cgroups] = [
            Cgroup2(config.cgroup, period, shared=shared),
            Cgroup1(config.cgroup, period, shared=shared),
        ]
        self._cgroups = {means.name: means for means in cgroups}
        self._keepers = None if shared else Keepers()
        self.order = [*self._cgroups, Keepers.name] if config.means == "auto" else [config.means]
        # What is not ours to write to isn't looked at: there another slaqd may hold others' jobs.
        self._swept = [
            name
            for name, each in self._cgroups.items()
            if (name in self.order if shared else each.why_not() is None)
        ]

    @property
    def agent(self) -> bool:
        """Tell whether an agent does the writing."""
        return self._as_user is not None

    def why_not(self, name: str) -> str | None:
        """Say why a means can't be used here; None if it can."""
        means = self._of(name, _NOBODY)
        return _NOT_OURS if means is None else means.why_not()

    @property
    def apart(self) -> frozenset[int]:
        """Processes of the means themselves."""
        return frozenset() if self._keepers is None else self._keepers.pids

    def look(self, key: JobKey, hold: Hold | None) -> Seen | None:
        """Read back how a job is held. OSError where that can't be read."""
        means = self._of(hold.means, _NOBODY) if hold is not None else None
        return None if means is None else means.look(key)

    def trouble(self, hold: Hold | None, pids: Collection[int]) -> str | None:
        """Say which part of a held job escapes its hold; None if none does."""
        means = self._of(hold.means, _NOBODY) if hold is not None else None
        return None if means is None else means.trouble(pids)

    def escapes(self, hold: Hold | None, outside: Collection[int]) -> str | None:
        """Say which of a held job's processes outside its hold stays there; None if none does."""
        means = self._of(hold.means, _NOBODY) if hold is not None and outside else None
        try:
            return None if means is None else means.escapes(outside)
        except OSError as error:
            return f"where its processes stand can't be read: {error}"

    def hold(self, key: JobKey, uid: int, notes: Notes, pids: Collection[int], milli: int) -> str | None:
        """Hold a user's job to ``milli`` thousandths of a core; say why if no means can."""
        hold = notes.hold
        known = self._of(hold.means, uid) if hold is not None else None
        if known is not None and known.name in self.order and known.look(key) is not None:
            return self._try(known, key, pids, milli)
        if known is not None and hold is not None:
            known.give_back(key, hold.origins)
        whys = []
        for name in self.order:
            why = self._begin(name, key, uid, notes, pids, milli)
            if why is None:
                return None
            whys.append(f"{name}: {why}")
        return "; ".join(whys)

    def gather(self, key: JobKey, uid: int, notes: Notes, pids: Collection[int], table: Table) -> bool:
        """Take processes that joined a held job into its hold; tell whether there were any."""
        hold = notes.hold
        means = self._of(hold.means, uid) if hold is not None else None
        if means is None:
            return False
        outside = means.outside(key, pids)
        if outside:
            notes.set_hold(means.name, means.origins(outside))
            means.gather(key, outside, table)
        return bool(outside)

    def lift(self, key: JobKey, uid: int, hold: Hold | None) -> None:
        """Let a job run free, and know it still."""
        means = self._of(hold.means, uid) if hold is not None else None
        if means is not None:
            means.lift(key)

    def give_back(self, key: JobKey, uid: int, hold: Hold) -> None:
        """Let a job run free where it came from."""
        means = self._of(hold.means, uid)
        if means is not None:
            means.give_back(key, hold.origins)

    def clear(self, key: JobKey, uid: int, hold: Hold | None) -> None:
        """Remove what is left of an ended job."""
        means = self._of(hold.means, uid) if hold is not None else None
        if means is not None:
            means.clear(key)

    def is_clear(self, key: JobKey, hold: Hold | None) -> bool:
        """Tell whether nothing is left of an ended job."""
        means = self._cgroups.get(hold.means) if hold is not None else None
        return means is None or not any(directory.exists() for _, directory in means.places(key))

    def sweep(self, is_known: Callable[[JobKey], bool]) -> None:
        """Remove the groups that ended jobs left, also those of a slaqd or an agent before this one."""
        for name in self._swept:
            means = self._cgroups[name]
            with suppress(
                OSError
            ):  # it isn't to be had here, or the agent says no: an empty group is no harm
                keys = left_behind(means, is_known)
                if keys and self._as_user is not None:
                    Remote(means, self._as_user, _NOBODY).sweep(keys)
                    continue
                for key in keys:
                    means.clear(key)

    def close(self) -> None:
        """Let go of handles."""
        for means in (*self._cgroups.values(), self._keepers):
            if means is not None:
                means.close()

    def _of(self, name: str, uid: int) -> Means | None:
        """Give a means as it acts for a user; None if it isn't offered here.

        A keeper of before there was an agent ended with its slaqd, and holds nothing.
        """
        if name == Keepers.name:
            return self._keepers
        means = self._cgroups[name]
        return means if self._as_user is None else Remote(means, self._as_user, uid)

    def _begin(
        self, name: str, key: JobKey, uid: int, notes: Notes, pids: Collection[int], milli: int
    ) -> str | None:
        means = self._of(name, uid)
        if means is None:
            return _NOT_OURS
        why = means.why_not() or means.bars(pids)
        if why is not None:
            return why
        try:
            notes.set_hold(means.name, means.origins(pids))
            hold = notes.hold
            why = self._try(means, key, pids, milli)
            if why is not None and hold is not None:
                means.give_back(key, hold.origins)
        except OSError as error:
            return str(error)
        return why

    @staticmethod
    def _try(means: Means, key: JobKey, pids: Collection[int], milli: int) -> str | None:
        try:
            means.hold(key, pids, milli)
        except OSError as error:
            return str(error)
        return None
