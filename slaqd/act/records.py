"""What the journal keeps for people and for the next start: changes of plans, and what was observed.

All of it is bounded by `slaqd.act.pruning.Limits`, however long the daemon runs and however much it does.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence

import msgspec

from slaqd.act.pruning import Limits, prune, prune_observations
from slaqd.types import Allocation, Job, JobKey, Plan, Snapshot, State, Struct


class Change(Struct, frozen=True):
    """One job's plan, as it became."""

    key: JobKey
    uid: int
    units: int
    reason: str
    fall: float | None = None


class Observation(Struct, frozen=True):
    """The last that was seen of one job's log, and the pace that was measured of it.

    ``named`` says which log that was, ``sums`` is `slaqd.predict.Pace.sums`.
    """

    key: JobKey
    uid: int
    named: str
    points: int = 0
    step: float | None = None
    loss: float | None = None
    sums: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)


class Plans:
    """Finds what is new in a plan: other units, or a reason in other words.

    Numbers in a reason (a gain, a count) change with every cycle and are no news.
    """

    def __init__(self, kept: Mapping[JobKey, tuple[int, str]]) -> None:
        self._kept = {key: (units, _words(reason)) for key, (units, reason) in kept.items()}

    def changes(self, plan: Plan, snapshot: Snapshot) -> list[Change]:
        """List the jobs whose plan is not the one that was kept last."""
        jobs = {job.key: job for job in snapshot.jobs if job.state is not State.ENDED}
        self._kept = {key: kept for key, kept in self._kept.items() if key in jobs}
        return [
            Change(one.key, jobs[one.key].owner.uid, one.units, one.reason, one.fall)
            for one in plan.allocations
            if one.key in jobs and self._is_new(one, jobs[one.key])
        ]

    def kept(self, changes: Sequence[Change]) -> None:
        """Note that these are on disk."""
        self._kept.update({one.key: (one.units, _words(one.reason)) for one in changes})

    def _is_new(self, one: Allocation, job: Job) -> bool:
        return self._kept.get(job.key) != (one.units, _words(one.reason))


_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?")


def _words(reason: str) -> str:
    return _NUMBER.sub("#", reason)


def add_plans(db: sqlite3.Connection, changes: Sequence[Change], now: float, limits: Limits) -> None:
    """Write changes of plans down, and drop what is too much, and some of what is too old."""
    db.executemany(
        "INSERT INTO plans (at, manager, job, start, uid, units, fall, reason)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(now, *columns(one.key), one.uid, one.units, one.fall, one.reason) for one in changes],
    )
    prune(db, "plans", "at", now, limits.plans, len(changes))


def last_plans(db: sqlite3.Connection) -> dict[JobKey, tuple[int, str]]:
    """Give the newest plan of each job that was kept."""
    rows = db.execute(
        "SELECT manager, job, start, units, reason, max(number) FROM plans GROUP BY manager, job, start"
    )
    return {JobKey(*row[:3]): (row[3], row[4]) for row in rows}


def add_observations(
    db: sqlite3.Connection, observations: Sequence[Observation], now: float, limits: Limits
) -> None:
    """Write down what was observed last of each job, in place of what was observed before."""
    db.executemany(
        "INSERT OR REPLACE INTO observations (manager, job, start, uid, at, value) VALUES (?, ?, ?, ?, ?, ?)",
        [(*columns(one.key), one.uid, now, msgspec.json.encode(one).decode()) for one in observations],
    )
    prune_observations(db, now, limits.observations, len(observations))


def all_observations(db: sqlite3.Connection) -> list[Observation]:
    """Give what was observed last of each job; a row of another form is left out."""
    found = []
    for (value,) in db.execute("SELECT value FROM observations"):
        try:
            found.append(msgspec.json.decode(value, type=Observation))
        except msgspec.MsgspecError:
            continue  # it only saves measuring anew
    return found


def add_event(
    db: sqlite3.Connection,
    what: str,
    why: str,
    now: float,
    limits: Limits,
    *,
    job: str | None,
    uid: int | None,
) -> None:
    """Write down what happened to the daemon, or was asked of it."""
    db.execute(
        "INSERT INTO events (at, job, uid, what, why) VALUES (?, ?, ?, ?, ?)", (now, job, uid, what, why)
    )
    prune(db, "events", "at", now, limits.events, 1)


def add_notes(db: sqlite3.Connection, notes: Sequence[tuple[JobKey, str, str]]) -> None:
    """Write adapters' notes down, each in place of one of the same name."""
    db.executemany(
        "INSERT OR REPLACE INTO notes (manager, job, start, name, value) VALUES (?, ?, ?, ?, ?)",
        [(*columns(key), name, value) for key, name, value in notes],
    )


def all_notes(db: sqlite3.Connection) -> dict[JobKey, dict[str, str]]:
    """Give the notes of all jobs."""
    found: dict[JobKey, dict[str, str]] = {}
    for manager, job, start, name, value in db.execute("SELECT manager, job, start, name, value FROM notes"):
        found.setdefault(JobKey(manager, job, start), {})[name] = value
    return found


def forget_notes(db: sqlite3.Connection, keys: Collection[JobKey]) -> None:
    """Drop all notes of jobs."""
    db.executemany(
        "DELETE FROM notes WHERE manager = ? AND job = ? AND start = ?", [columns(key) for key in keys]
    )


def forget_observations(db: sqlite3.Connection, keys: Collection[JobKey]) -> None:
    """Drop what was observed of jobs."""
    db.executemany(
        "DELETE FROM observations WHERE manager = ? AND job = ? AND start = ?", [columns(key) for key in keys]
    )


def columns(key: JobKey) -> tuple[str, str, int]:
    """Spread a key over the columns that hold it."""
    return key.manager, key.id, key.start
