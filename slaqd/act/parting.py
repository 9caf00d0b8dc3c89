"""Lets jobs go when slaqd stops, and writes down what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from slaqd.act.journal import Journal
from slaqd.adapter import Adapter
from slaqd.clock import Clock
from slaqd.errors import AdapterError, StateError
from slaqd.types import Accepted, Job, Lever, Outcome, Restore, Unknown

log = structlog.get_logger("slaqd")


def let_go(
    adapter: Adapter, journal: Journal, clock: Clock, run: int, look: Callable[[], Sequence[Job]]
) -> None:
    """Lift what holds the jobs that ``look`` shows, and close the adapter.

    While the journal is in doubt nothing is touched, before an admin has said that it may be.
    The journal is told of those jobs alone that are let go: who follows a file keeps the last target.
    """
    lifts = not journal.unconfirmed
    jobs = look() if lifts else ()
    held = [job for job in jobs if job.target is not None and job.lever is not Lever.FILE]
    actions = [
        Restore(id=f"{run}.stop-{number}", key=job.key, incarnation="", why="slaqd stops: held to nothing")
        for number, job in enumerate(held)
    ]
    before, uids = {job.key: job.target for job in held}, {job.key: job.owner.uid for job in held}
    with suppress(StateError):  # lifting what holds jobs must not hang on a full disk
        journal.intend(actions, before, clock.wall(), uids)
    outcome = _close(adapter, lifts=lifts)
    with suppress(StateError):  # as above
        journal.record([(action.id, outcome) for action in actions], clock.wall())


def _close(adapter: Adapter, *, lifts: bool) -> Outcome:
    try:
        adapter.close(restore=lifts)
    except (AdapterError, StateError) as error:
        log.warning("jobs may be held still", error=str(error), do="slaqctl restore --all")
        return Unknown(f"slaqd stopped: {error}")
    return Accepted()
