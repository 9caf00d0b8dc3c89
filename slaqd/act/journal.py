"""The journal: what was promised, intended and done, in SQLite (WAL, synchronous FULL).

It is also the `slaqd.adapter.Store` that adapters keep their notes in. A call that
returns is on disk; a call that can't get there raises `StateError`, and then
nothing of it is there.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from slaqd.adapter import Registration
from slaqd.errors import StateError
from slaqd.types import Accepted, Action, JobKey, Outcome, Restore, Struct

SCHEMA = 1
_KEEP_S = 30 * 86_400.0
_DROP_AT_ONCE = 100
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL,
  submitted REAL NOT NULL, registration TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0,
  exit_status INTEGER, ended REAL, last TEXT,
  PRIMARY KEY (manager, job, start));
CREATE TABLE IF NOT EXISTS notes (
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL,
  name TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (manager, job, start, name));
CREATE TABLE IF NOT EXISTS actions (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL, intended REAL NOT NULL,
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL,
  kind TEXT NOT NULL, units_before INTEGER, units INTEGER, why TEXT NOT NULL,
  outcome TEXT, outcome_why TEXT, answered REAL);
CREATE INDEX IF NOT EXISTS unanswered ON actions (id) WHERE outcome IS NULL;
"""


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


class Journal:
    """One SQLite file. Safe to use from several threads of the one daemon.

    Parameters
    ----------
    path
        The file; made, readable by its owner alone, where it isn't there.

    Raises
    ------
    StateError
        It can't be opened, or is of a newer slaqd, or is no journal.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            path.touch(mode=0o600)
            self._db = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            msg = f"{path}: the journal can't be opened: {error}"
            raise StateError(msg) from error
        try:
            self._prepare()
        except StateError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._guarded() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
        with self._writing() as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version > SCHEMA:
                msg = f"{self.path}: written by a newer slaqd (schema {version}, this one knows {SCHEMA})"
                raise StateError(msg)
            for statement in filter(str.strip, _TABLES.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except (sqlite3.Error, OverflowError, msgspec.MsgspecError) as error:
                msg = f"{self.path}: the journal can't be used: {error}"
                raise StateError(msg) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._guarded() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    # facts: small values of the daemon itself

    def fact(self, name: str) -> str | None:
        """Give a fact, None if it was never kept."""
        with self._guarded() as db:
            row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def keep_fact(self, name: str, value: str) -> None:
        """Keep a fact, replacing one of the same name."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def begin_run(self, now: float) -> int:
        """Count one more start of the daemon, and drop what is older than thirty days."""
        run = int(self.fact("runs") or "0") + 1
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES ('runs', ?)", (str(run),))
            db.execute("DELETE FROM actions WHERE intended < ?", (now - _KEEP_S,))
            db.execute("DELETE FROM jobs WHERE ended < ?", (now - _KEEP_S,))
        return run

    # jobs

    def register(self, registration: Registration) -> None:
        """Keep a registration; the same job once more replaces it."""
        key = registration.key
        with self._writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO jobs (manager, job, start, submitted, registration)"
                " VALUES (?, ?, ?, ?, ?)",
                (*_columns(key), registration.submitted, msgspec.json.encode(registration).decode()),
            )

    def registrations(self) -> Sequence[Registration]:
        """See `slaqd.adapter.Store.registrations`."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT registration FROM jobs WHERE ended IS NULL ORDER BY submitted, rowid"
            ).fetchall()
            return [msgspec.json.decode(row[0], type=Registration) for row in rows]

    def let_start(self, keys: Collection[JobKey]) -> None:
        """Note of commands that they may start without an admission: they are waiting jobs no more."""
        free = [msgspec.structs.replace(job, waits=False) for job in self.registrations() if job.key in keys]
        with self._writing() as db:
            db.executemany(
                "UPDATE jobs SET registration = ? WHERE manager = ? AND job = ? AND start = ?",
                [(msgspec.json.encode(job).decode(), *_columns(job.key)) for job in free],
            )

    def keep_exit_status(self, key: JobKey, status: int) -> None:
        """Keep how a job's command ended, as the wrapper that started it tells."""
        self._set(key, "exit_status", status)

    def pause(self, key: JobKey, *, paused: bool) -> None:
        """Keep whether a job is paused."""
        self._set(key, "paused", int(paused))

    def paused(self) -> frozenset[JobKey]:
        """List the paused jobs that have not ended."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT manager, job, start FROM jobs WHERE paused AND ended IS NULL"
            ).fetchall()
        return frozenset(JobKey(*row) for row in rows)

    def end(self, key: JobKey, now: float, last: str) -> None:
        """Close a registration: the job is over. Its notes go, its last view stays."""
        with self._writing() as db:
            db.execute(
                "UPDATE jobs SET ended = ?, last = ? WHERE manager = ? AND job = ? AND start = ?",
                (now, last, *_columns(key)),
            )
            db.execute("DELETE FROM notes WHERE manager = ? AND job = ? AND start = ?", _columns(key))
            db.execute("DELETE FROM jobs WHERE ended < ?", (now - _KEEP_S,))

    def ended(self, since: float) -> Sequence[EndedRow]:
        """List the jobs that ended at or after ``since`` (wall time), oldest first."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT registration, ended, exit_status, last FROM jobs WHERE ended >= ? ORDER BY ended",
                (since,),
            ).fetchall()
            return [EndedRow(msgspec.json.decode(row[0], type=Registration), *row[1:]) for row in rows]

    def _set(self, key: JobKey, column: str, value: int) -> None:
        with self._writing() as db:
            db.execute(
                f"UPDATE jobs SET {column} = ? WHERE manager = ? AND job = ? AND start = ?",  # noqa: S608 - ours
                (value, *_columns(key)),
            )

    # notes of adapters

    def note(self, key: JobKey, name: str, value: str) -> None:
        """See `slaqd.adapter.Store.note`."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?, ?)", (*_columns(key), name, value))

    def notes(self, key: JobKey) -> Mapping[str, str]:
        """See `slaqd.adapter.Store.notes`."""
        with self._guarded() as db:
            rows = db.execute(
                "SELECT name, value FROM notes WHERE manager = ? AND job = ? AND start = ?", _columns(key)
            ).fetchall()
        return dict(rows)

    def forget(self, key: JobKey) -> None:
        """See `slaqd.adapter.Store.forget`."""
        with self._writing() as db:
            db.execute("DELETE FROM notes WHERE manager = ? AND job = ? AND start = ?", _columns(key))

    # actions

    def intend(self, actions: Sequence[Action], before: Mapping[JobKey, int | None], now: float) -> None:
        """Write down what is about to be asked, and drop some of what is older than thirty days."""
        rows = [
            (
                action.id, now, *_columns(action.key), type(action).__name__, before.get(action.key),
                None if isinstance(action, Restore) else action.units, action.why,
            )
            for action in actions
        ]  # fmt: skip
        with self._writing() as db:
            # A daemon may run for years. Some at a time, so that no cycle is late for it.
            db.execute(
                "DELETE FROM actions WHERE intended < ? AND number IN"
                " (SELECT number FROM actions ORDER BY number LIMIT ?)",
                (now - _KEEP_S, _DROP_AT_ONCE),
            )
            db.executemany(
                "INSERT INTO actions (id, intended, manager, job, start, kind, units_before, units, why)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

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


def _columns(key: JobKey) -> tuple[str, str, int]:
    return key.manager, key.id, key.start
