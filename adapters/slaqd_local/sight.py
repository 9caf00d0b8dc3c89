"""Looks at all jobs at once: registrations, notes, processes and holds joined."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slaqd.adapter import Registration, Store
from slaqd.types import JobKey, Lever, State
from slaqd_local import rows
from slaqd_local.census import NOBODY, Census, Family
from slaqd_local.holder import Holder
from slaqd_local.means import Seen
from slaqd_local.notes import Notes
from slaqd_local.processes import Table


class View(NamedTuple):
    """One job as seen in one pass. ``gap`` says what could not be seen of it."""

    registration: Registration
    notes: Notes
    family: Family
    seen: Seen | None = None
    gap: str | None = None

    @property
    def pids(self) -> frozenset[int]:
        """All its processes that can still run."""
        return self.family.pids | (self.seen.pids if self.seen is not None else frozenset())

    @property
    def under_quota(self) -> bool:
        """Whether its lever is a quota, be there one or not."""
        return rows.lever(self.registration)[0] is Lever.CPUS

    @property
    def state(self) -> State:
        """Where it is in its life. A job that can't be seen is not taken for ended."""
        if not self.pids and self.gap is None:
            return State.ENDED
        waits = self.registration.waits and not (self.notes.admitted or self.notes.restored)
        return State.WAITING if waits else State.RUNNING


Views = Mapping[JobKey, View]


class Sight:
    """Looks, and remembers what only earlier looks can tell."""

    def __init__(self, store: Store, holder: Holder) -> None:
        self._store = store
        self._holder = holder
        self._census = Census()

    @property
    def table(self) -> Table:
        """All processes, as last seen."""
        return self._census.table

    def look(self, registrations: Iterable[Registration], boot: str) -> dict[JobKey, View]:
        """Look at jobs. OSError if ``/proc`` can't be read."""
        known = self._store.all_notes()
        views = {each.key: self._first(each, known.get(each.key, {})) for each in registrations}
        Notes.settle(self._store, (view.notes for view in views.values() if not view.notes.ended), boot)
        now = {key: view for key, view in views.items() if view.notes.is_of(boot) and not view.notes.ended}
        now = self.again(now)
        if any(view.state is State.ENDED for view in now.values()):
            # A pass is not one moment: a process may fork behind its back and exit before it.
            now = self.again(now)
        return {**views, **now}

    def again(self, views: Views) -> dict[JobKey, View]:
        """Look afresh at the processes of all these jobs, with the notes and holds that were read."""
        grouped = {key: view.seen.pids for key, view in views.items() if view.seen is not None}
        families = self._census.take(views, grouped, {os.getpid(), *self._holder.apart})
        return {key: view._replace(family=families[key]) for key, view in views.items()}

    def _first(self, registration: Registration, noted: Mapping[str, str]) -> View:
        notes = Notes(self._store, registration.key, noted)
        if notes.ended:
            return View(registration, notes, NOBODY)
        try:
            seen = self._holder.look(registration.key, notes.hold)
        except OSError as error:
            return View(registration, notes, NOBODY, gap=f"its hold can't be read: {error}")
        return View(registration, notes, NOBODY, seen)
