"""The CPU seconds that each job has really consumed, and all jobs together."""

from __future__ import annotations

from slaqd.types import JobKey
from slaqd_local.census import Family
from slaqd_local.demand import Demand
from slaqd_local.means import Seen
from slaqd_local.meter import Meter
from slaqd_local.notes import Notes


class Account:
    """One job's consumption.

    The kernel counts for a cgroup. Where it doesn't, what the processes and their
    reaped children used since adoption is read from ``/proc``; a keeper looks more
    often than snapshots do, so its count reaches nearer to a job's end.
    """

    def __init__(self) -> None:
        self.demand = Demand()
        self._meter = Meter()
        self._counted = 0.0
        self._anchor: float | None = None
        self._last: float | None = None
        self._looked: float | None = None

    def consumed(self, notes: Notes, seen: Seen | None, family: Family) -> float | None:
        """Give the CPU seconds since adoption; None for a job that was never adopted."""
        if notes.ended or notes.restored or seen is None:
            return notes.cpu
        before = notes.cpu or 0.0
        if seen.cpu_seconds is not None and seen.since_adoption:
            return before + seen.cpu_seconds
        if notes.base is not None:
            self._counted = max(self._counted, family.seconds() - notes.base)
        if seen.cpu_seconds is not None:
            if self._anchor is None:
                self._anchor = self._counted - seen.cpu_seconds
            self._counted = max(self._counted, self._anchor + seen.cpu_seconds)
        return before + self._counted

    def spent(self, consumed: float | None, family: Family) -> float:
        """Give the CPU seconds used since the last look, adopted or not."""
        used = self._meter.look(family.readings())
        if consumed is not None and self._last is not None:
            used = max(0.0, consumed - self._last)
        self._last = consumed
        return used

    def rate(self, at: float, spent: float) -> float:
        """Give the cores it used since the last look, which was at another monotonic time; 0 at the first."""
        before, self._looked = self._looked, at
        return spent / (at - before) if before is not None and at > before else 0.0

    def restart(self) -> None:
        """Count from zero again: the job comes under another means."""
        self._counted, self._anchor = 0.0, None


class Accounts:
    """The accounts of all jobs."""

    def __init__(self) -> None:
        self.total = 0.0
        self._jobs: dict[JobKey, Account] = {}

    def of(self, key: JobKey) -> Account:
        """Find a job's account, or open one."""
        account = self._jobs.get(key)
        if account is None:
            account = self._jobs[key] = Account()
        return account

    def keep(self, keys: set[JobKey]) -> None:
        """Close the accounts of all other jobs."""
        self._jobs = {key: account for key, account in self._jobs.items() if key in keys}
