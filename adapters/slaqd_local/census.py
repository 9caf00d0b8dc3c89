"""Which processes belong to which job, in one pass over ``/proc``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from slaqd.types import JobKey
from slaqd_local import processes
from slaqd_local.meter import Reading
from slaqd_local.processes import TICKS_PER_S, Process, Table


class Family(NamedTuple):
    """The processes of one job; ``pids`` are those that still can run."""

    pids: frozenset[int]
    all: tuple[Process, ...]

    def readings(self) -> dict[tuple[int, int], Reading]:
        """Give the CPU seconds of each, for the meter."""
        return {
            (each.pid, each.start): Reading(each.own / TICKS_PER_S, each.reaped / TICKS_PER_S)
            for each in self.all
        }

    def seconds(self) -> float:
        """Give the CPU seconds that all of them and their reaped children ever used."""
        return sum(each.own + each.reaped for each in self.all) / TICKS_PER_S


NOBODY = Family(frozenset(), ())


class Census:
    """Knows the members of jobs, and remembers those whose parents are gone."""

    def __init__(self) -> None:
        self.table: Table = {}
        self._known: dict[int, tuple[int, int]] = {}

    def take(
        self, keys: Iterable[JobKey], grouped: Mapping[JobKey, Collection[int]], apart: Collection[int]
    ) -> dict[JobKey, Family]:
        """Look at all processes and sort them into jobs.

        ``grouped`` are the members of the jobs' cgroups, ``apart`` processes that
        belong to no job. OSError if ``/proc`` can't be read.
        """
        keys = list(keys)
        self.table = processes.read_all()
        current = self._current(keys)
        for key, pids in grouped.items():
            self._known.update(
                {pid: (self.table[pid].start, int(key.id)) for pid in pids if pid in self.table}
            )
        leaders = {group: key.start for group, key in current.items()}
        found = processes.families(self.table, leaders, self._known, apart)
        self._known = {
            pid: (self.table[pid].start, group) for group, members in found.items() for pid in members
        }
        families = {current[group]: self._family(members) for group, members in found.items()}
        return {key: families.get(key, NOBODY) for key in keys}

    def _current(self, keys: list[JobKey]) -> dict[int, JobKey]:
        # Of several registrations of one group number only one can be of now.
        current: dict[int, JobKey] = {}
        for key in keys:
            group = int(key.id)
            leader = self.table.get(group)
            if leader is None or leader.start == key.start or group not in current:
                current[group] = key
        return current

    def _family(self, members: Collection[int]) -> Family:
        everyone = tuple(self.table[pid] for pid in sorted(members))
        return Family(frozenset(each.pid for each in everyone if each.alive), everyone)
