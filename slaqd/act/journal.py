"""The journal: what was promised, intended, done and seen, in SQLite (WAL, synchronous FULL).

It is also the `slaqd.adapter.Store` that adapters keep their notes in. A call that
returns is on disk; a call that can't get there raises `StateError`, and then
nothing of it is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from slaqd.act import pruning, records, schema
from slaqd.act.database import Database
from slaqd.act.past import Ask, read_past
from slaqd.act.pruning import Limits
from slaqd.act.records import Change, Observation, columns
from slaqd.adapter import Registration
from slaqd.types import Accepted, Action, JobKey, Outcome, Restore, Struct
from slaqd.wire import EventView

_UNCONFIRMED = "unconfirmed"

_registration = msgspec.json.Decoder(Registration).decode


class ActionRow(Struct, frozen=True):
    """One journalled action, as it is read back. Times are wall time."""

    id: str
    key: JobKey
    kind: str
    before: int | None
    units: int | None
    why: str
    intended: float
    outcome: str | None
    outcome_why: str | None
    answered: float | None


class EndedRow(Struct, frozen=True):
    """One job that is over: its registration and the last that was shown of it."""

    registration: Registration
    ended: float
    exit_status: int | None
    last: str | None


class Journal(Database):
    """One journal; see `Database` for how it behaves as a file.

    Parameters
    ----------
    path
        The file; made, readable by its owner alone, where it isn't there.
    limits
        How much it keeps.

    Raises
    ------
    StateError
        It can't be opened, or is of a newer slaqd, or is no journal, or no regular file.

    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._read: dict[str, Registration] = {}
        super().__init__(path)

    # facts: small values of the daemon itself

    def fact(self, name: str) -> str | None:
        """Give a fact, None if it was never kept."""
        with self._guarded() as db:
            row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def keep_fact(self, name: str, value: str) -> None:
        """Keep a fact, replacing one of the same name."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))

    @property
    def unconfirmed(self) -> str:
        """Say what became of the journal before this one, until an admin confirms it. Empty: all is well."""
        return self.fact(_UNCONFIRMED) or ""

    def doubt(self, why: str) -> None:
        """Keep that this journal can't be trusted to know all, until `pause_all` lifts it."""
        self.keep_fact(_UNCONFIRMED, why)
        self._settle()

    def pause_all(self, *, paused: bool) -> None:
        """Keep whether everything is paused; going on also confirms what was in doubt."""
        with self._writing() as db:
            rows = [("paused", str(int(paused)))] + ([] if paused else [(_UNCONFIRMED, "")])
            db.executemany("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", rows)
        self._settle()

    def tell(
        self, what: str, why: str, now: float, *, job: str | None = None, uid: int | None = None
    ) -> None:
        """Keep an event for people: what happened to the daemon, or was asked of it and by whom."""
        with self._writing() as db:
            records.add_event(db, what, why, now, self._limits, job=job, uid=uid)

    def begin_run(self, now: float, *, offline: str = "") -> int:
        """Count one more who writes: a start of the daemon, or, where none runs, what ``offline`` names.

        From here on this journal refuses to write once another was counted.
        """
        with self._lock:
            run = int(self.fact("runs") or "0") + 1
            what, why = ("taken over", offline) if offline else ("started", f"start {run}")
            self._run = None
            with self._writing() as db:
                db.execute("INSERT OR REPLACE INTO facts (name, value) VALUES ('runs', ?)", (str(run),))
                records.add_event(db, what, why, now, self._limits, job=None, uid=None)
            self._run = str(run)
        return run

    # jobs

    def register(self, registration: Registration) -> None:
        """Keep a registration; the same job once more replaces it, and stays paused if it was."""
        self.take_over([registration], ())

    def take_over(
        self, registrations: Sequence[Registration], notes: Sequence[tuple[JobKey, str, str]]
    ) -> None:
        """Keep what another journal knew: registrations, and notes as key, name and value."""
        with self._writing() as db:
            db.executemany(
                "INSERT INTO jobs (manager, job, start, submitted, registration) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (manager, job, start) DO UPDATE SET submitted = excluded.submitted,"
                " registration = excluded.registration, exit_status = NULL, ended = NULL, last = NULL",
                [
                    (*columns(one.key), one.submitted, msgspec.json.encode(one).decode())
                    for one in registrations
                ],
            )
            records.add_notes(db, notes)

    def registrations(self) -> Sequence[Registration]:
        """See `slaqd.adapter.Store.registrations`."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT registration FROM jobs WHERE ended IS NULL ORDER BY submitted, rowid"
            ).fetchall()
            # Asked for in each cycle, and the same nearly always: only new words are read anew.
            self._read = {text: self._read.get(text) or _registration(text) for (text,) in rows}
            return [self._read[text] for (text,) in rows]

    def registered(self, key: JobKey) -> Registration | None:
        """Give one job's registration, also of one that has ended; None where it isn't there."""
        with self._guarded() as db:
            row = db.execute(
                "SELECT registration FROM jobs WHERE manager = ? AND job = ? AND start = ?", columns(key)
            ).fetchone()
        return None if row is None else _registration(row[0])

    def let_start(self, keys: Collection[JobKey]) -> None:
        """Note of commands that they may start without an admission: they are waiting jobs no more."""
        with self._writing() as db:
            known = self.registrations()
            free = [msgspec.structs.replace(job, waits=False) for job in known if job.key in keys]
            db.executemany(
                "UPDATE jobs SET registration = ? WHERE manager = ? AND job = ? AND start = ?",
                [(msgspec.json.encode(job).decode(), *columns(job.key)) for job in free],
            )

    def keep_exit_status(self, key: JobKey, status: int) -> None:
        """Keep how a job's command ended, as the wrapper that started it tells."""
        self._set(key, "exit_status", status)

    def pause(self, key: JobKey, *, paused: bool) -> None:
        """Keep whether a job is paused."""
        self._set(key, "paused", int(paused))
        self._settle()

    def paused(self) -> frozenset[JobKey]:
        """List the paused jobs that have not ended."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT manager, job, start FROM jobs WHERE paused AND ended IS NULL"
            ).fetchall()
        return frozenset(JobKey(*row) for row in rows)

    def end(self, key: JobKey, now: float, last: str) -> None:
        """Close one registration; see `end_all`."""
        self.end_all({key: last}, now)

    def end_all(self, lasts: Mapping[JobKey, str], now: float) -> None:
        """Close registrations, all or none: the jobs are over. Their notes go, their last views stay."""
        with self._writing() as db:
            db.executemany(
                "UPDATE jobs SET ended = ?, last = ? WHERE manager = ? AND job = ? AND start = ?",
                [(now, last, *columns(key)) for key, last in lasts.items()],
            )
            records.forget_notes(db, lasts)
            records.forget_observations(db, lasts)
            pruning.prune_ended(db, now, self._limits.ended, len(lasts))

    def drop(self, key: JobKey) -> None:
        """Forget a registration with all its notes; what was done to the job stays in the history."""
        with self._writing() as db:
            for table in ("jobs", "notes"):
                db.execute(
                    f"DELETE FROM {table} WHERE manager = ? AND job = ? AND start = ?",  # noqa: S608 - ours
                    columns(key),
                )
            records.forget_observations(db, [key])

    def count_of(self, uid: int) -> int:
        """Count the registered jobs of a user that have not ended."""
        with self._guarded() as db:
            row = db.execute(
                f"SELECT COUNT(*) FROM jobs WHERE ended IS NULL AND {schema.OWNER} = ?",  # noqa: S608 - ours
                (uid,),
            ).fetchone()
        return int(row[0])

    def bytes_of(self, uid: int, since: float) -> int:
        """Count the bytes of a user's registrations, of jobs that ended before ``since`` none."""
        with self._guarded() as db:
            row = db.execute(
                "SELECT SUM(LENGTH(CAST(registration AS BLOB))) FROM jobs"  # noqa: S608 - ours
                f" WHERE (ended IS NULL OR ended >= ?) AND {schema.OWNER} = ?",
                (since, uid),
            ).fetchone()
        return int(row[0] or 0)

    def ended(self, since: float) -> Sequence[EndedRow]:
        """List the jobs that ended at or after ``since`` (wall time), oldest first."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT registration, ended, exit_status, last FROM jobs WHERE ended >= ? ORDER BY ended",
                (since,),
            ).fetchall()
            return [EndedRow(_registration(row[0]), *row[1:]) for row in rows]

    def _set(self, key: JobKey, column: str, value: int) -> None:
        with self._writing() as db:
            db.execute(
                f"UPDATE jobs SET {column} = ? WHERE manager = ? AND job = ? AND start = ?",  # noqa: S608 - ours
                (value, *columns(key)),
            )

    # notes of adapters

    def note(self, key: JobKey, name: str, value: str) -> None:
        """See `slaqd.adapter.Store.note`."""
        self.note_all([(key, name, value)])

    def note_all(self, notes: Sequence[tuple[JobKey, str, str]]) -> None:
        """See `slaqd.adapter.Store.note_all`."""
        with self._writing() as db:
            records.add_notes(db, notes)

    def notes(self, key: JobKey) -> Mapping[str, str]:
        """See `slaqd.adapter.Store.notes`."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT name, value FROM notes WHERE manager = ? AND job = ? AND start = ?", columns(key)
            ).fetchall()
        return dict(rows)

    def all_notes(self) -> Mapping[JobKey, Mapping[str, str]]:
        """See `slaqd.adapter.Store.all_notes`."""
        with self._guarded() as db:
            return records.all_notes(db)

    def forget(self, key: JobKey) -> None:
        """See `slaqd.adapter.Store.forget`."""
        with self._writing() as db:
            records.forget_notes(db, [key])

    # actions

    def intend(
        self,
        actions: Sequence[Action],
        before: Mapping[JobKey, int | None],
        now: float,
        uids: Mapping[JobKey, int],
    ) -> None:
        """Write down what is about to be asked, and drop what is too much, and some of what is too old.

        ``before`` gives what each job was held to, ``uids`` whose it is.
        """
        rows = [
            (
                action.id, now, *columns(action.key), uids.get(action.key), type(action).__name__,
                before.get(action.key), None if isinstance(action, Restore) else action.units, action.why,
            )
            for action in actions
        ]  # fmt: skip
        with self._writing() as db:
            db.executemany(
                "INSERT INTO actions (id, intended, manager, job, start, uid, kind, units_before, units, why)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            pruning.prune(db, "actions", "intended", now, self._limits.actions, len(rows))

    def record(self, outcomes: Sequence[tuple[str, Outcome]], now: float) -> None:
        """Write down what came back."""
        rows = [
            (type(outcome).__name__, "" if isinstance(outcome, Accepted) else outcome.why, now, name)
            for name, outcome in outcomes
        ]
        with self._writing() as db:
            db.executemany(
                "UPDATE actions SET outcome = ?, outcome_why = ?, answered = ?"
                " WHERE id = ? AND outcome IS NULL",
                rows,
            )

    def actions(self, since: float = 0.0) -> Iterator[ActionRow]:
        """Read the journalled actions back, oldest first."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT id, manager, job, start, kind, units_before, units, why, intended, outcome,"
                " outcome_why, answered FROM actions WHERE intended >= ? ORDER BY number",
                (since,),
            ).fetchall()
        for name, manager, job, start, *rest in rows:
            yield ActionRow(name, JobKey(manager, job, start), *rest)

    # plans and observations

    def keep_seen(self, changes: Sequence[Change], observations: Sequence[Observation], now: float) -> None:
        """Keep how plans became others, and what was observed last."""
        if not changes and not observations:
            return
        with self._writing() as db:
            if changes:
                records.add_plans(db, changes, now, self._limits)
            if observations:
                records.add_observations(db, observations, now, self._limits)

    def last_plans(self) -> Mapping[JobKey, tuple[int, str]]:
        """Give units and reason of the newest plan that was kept of each job."""
        with self._guarded() as db:
            return records.last_plans(db)

    def observations(self) -> Sequence[Observation]:
        """Give what was observed last of each job."""
        with self._guarded() as db:
            return records.all_observations(db)

    def past(self, ask: Ask) -> Sequence[EventView]:
        """Read the story back; see `slaqd.act.past`."""
        # By a connection of its own: whoever reads for long must not keep the cycle from writing.
        return read_past(self.path, ask)
