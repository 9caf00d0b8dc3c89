"""Chooses by which means each job is held, and keeps the notes straight."""

from __future__ import annotations

from collections.abc import Collection

from slaqd.types import JobKey
from slaqd_local.cgroup1 import Cgroup1
from slaqd_local.cgroup2 import Cgroup2
from slaqd_local.config import Config
from slaqd_local.keepers import Keepers
from slaqd_local.means import Means, Seen, period_us
from slaqd_local.notes import Hold, Notes
from slaqd_local.processes import Table


class Holder:
    """All means of this machine, best first."""

    def __init__(self, config: Config) -> None:
        period = period_us(config.unit_milli)
        everything: list[Means] = [
            Cgroup2(config.cgroup, period),
            Cgroup1(config.cgroup, period),
            Keepers(),
        ]
        self._all = {means.name: means for means in everything}
        self.order = list(self._all) if config.means == "auto" else [config.means]

    def why_not(self, name: str) -> str | None:
        """Say why a means can't be used here; None if it can."""
        return self._all[name].why_not()

    @property
    def apart(self) -> frozenset[int]:
        """Processes of the means themselves."""
        keepers = self._all[Keepers.name]
        return keepers.pids if isinstance(keepers, Keepers) else frozenset()

    def look(self, key: JobKey, hold: Hold | None) -> Seen | None:
        """Read back how a job is held. OSError where that can't be read."""
        return None if hold is None else self._all[hold.means].look(key)

    def trouble(self, hold: Hold | None, pids: Collection[int]) -> str | None:
        """Say which part of a held job escapes its hold; None if none does."""
        return self._all[hold.means].trouble(pids) if hold is not None else None

    def hold(self, key: JobKey, notes: Notes, pids: Collection[int], milli: int) -> str | None:
        """Hold a job to ``milli`` thousandths of a core; say why if no means can."""
        hold = notes.hold
        if hold is not None and hold.means in self.order and self._all[hold.means].look(key) is not None:
            return self._try(self._all[hold.means], key, pids, milli)
        if hold is not None:
            self._all[hold.means].give_back(key, hold.origins)
        whys = []
        for name in self.order:
            means = self._all[name]
            why = means.why_not() or means.bars(pids) or self._begin(means, key, notes, pids, milli)
            if why is None:
                return None
            whys.append(f"{name}: {why}")
        return "; ".join(whys)

    def gather(self, key: JobKey, notes: Notes, pids: Collection[int], table: Table) -> bool:
        """Take processes that joined a held job into its hold; tell whether there were any."""
        hold = notes.hold
        if hold is None:
            return False
        means = self._all[hold.means]
        outside = means.outside(key, pids)
        if outside:
            notes.set_hold(hold.means, means.origins(outside))
            means.gather(key, outside, table)
        return bool(outside)

    def lift(self, key: JobKey, hold: Hold) -> None:
        """Let a job run free, and know it still."""
        self._all[hold.means].lift(key)

    def give_back(self, key: JobKey, hold: Hold) -> None:
        """Let a job run free where it came from."""
        self._all[hold.means].give_back(key, hold.origins)

    def clear(self, key: JobKey, hold: Hold | None) -> None:
        """Remove what is left of an ended job."""
        if hold is not None:
            self._all[hold.means].clear(key)

    def close(self) -> None:
        """Let go of handles."""
        for means in self._all.values():
            means.close()

    def _begin(
        self, means: Means, key: JobKey, notes: Notes, pids: Collection[int], milli: int
    ) -> str | None:
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
