"""The journal's tables, and the way to them from every older form.

``facts``, ``jobs`` and ``notes`` are what slaqd acts on: each row carries a sum of
itself, kept by triggers, so that a flipped bit is found when the file is opened.
``actions``, ``plans``, ``events`` and ``observations`` are for people and bounded.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping, Sequence

SCHEMA = 3
SECOND = 2
"""The first schema whose rows have sums."""

SUMMED: Mapping[str, Sequence[str]] = {
    "facts": ("name", "value"),
    "jobs": (
        "manager", "job", "start", "submitted", "registration", "paused", "exit_status", "ended", "last",
    ),
    "notes": ("manager", "job", "start", "name", "value"),
}  # fmt: skip
"""The columns of each table that its rows' sums speak of."""

OWNER = "json_extract(registration, '$.owner.uid')"
"""Whose a row of ``jobs`` is; an index serves a question that says it in these very words."""

_TABLES = (
    """CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER)""",
    """CREATE TABLE jobs (
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL,
  submitted REAL NOT NULL, registration TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0,
  exit_status INTEGER, ended REAL, last TEXT, sum INTEGER,
  PRIMARY KEY (manager, job, start))""",
    """CREATE INDEX ended ON jobs (ended) WHERE ended IS NOT NULL""",
    """CREATE TABLE notes (
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL,
  name TEXT NOT NULL, value TEXT NOT NULL, sum INTEGER,
  PRIMARY KEY (manager, job, start, name))""",
    """CREATE TABLE actions (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL, intended REAL NOT NULL,
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL, uid INTEGER,
  kind TEXT NOT NULL, units_before INTEGER, units INTEGER, why TEXT NOT NULL,
  outcome TEXT, outcome_why TEXT, answered REAL)""",
    """CREATE INDEX unanswered ON actions (id) WHERE outcome IS NULL""",
    """CREATE TABLE plans (
  number INTEGER PRIMARY KEY, at REAL NOT NULL,
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL, uid INTEGER,
  units INTEGER NOT NULL, fall REAL, reason TEXT NOT NULL)""",
    """CREATE TABLE events (
  number INTEGER PRIMARY KEY, at REAL NOT NULL, job TEXT, uid INTEGER,
  what TEXT NOT NULL, why TEXT NOT NULL)""",
    """CREATE TABLE observations (
  manager TEXT NOT NULL, job TEXT NOT NULL, start INTEGER NOT NULL, uid INTEGER,
  at REAL NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (manager, job, start))""",
)


def _trigger(table: str, name: str, when: str) -> str:  # pragma: no mutate block - runs at import
    """Word a trigger that keeps the sums; its own statement doesn't wake it again."""
    values = ", ".join(f"NEW.{column}" for column in SUMMED[table])
    keep = f"UPDATE {table} SET sum = row_sum({values}) WHERE rowid = NEW.rowid"  # noqa: S608 - our own names
    return f"CREATE TRIGGER {table}_{name} AFTER {when} ON {table} BEGIN {keep}; END"


def _triggers() -> list[str]:  # pragma: no mutate block - runs at import
    return [
        _trigger(table, name, when)
        for table, columns in SUMMED.items()
        for name, when in (("insert", "INSERT"), ("update", f"UPDATE OF {', '.join(columns)}"))
    ]


_INDEXES = (
    """CREATE INDEX events_of ON events (uid)""",
    """CREATE INDEX plans_of ON plans (uid)""",
    """CREATE INDEX actions_of ON actions (uid)""",
    """CREATE INDEX observations_of ON observations (uid, at)""",
    f"""CREATE INDEX jobs_of ON jobs ({OWNER}, submitted)""",
    f"""CREATE INDEX ended_of ON jobs ({OWNER}, ended) WHERE ended IS NOT NULL""",
)
"""So that one user's history costs what there is of it, not what there is of all."""

_SECOND = (*_TABLES, *_triggers())
CREATE = (*_SECOND, *_INDEXES)
"""The newest form, statement by statement."""

_OLD: Mapping[str, Sequence[str]] = {
    **SUMMED,
    "actions": (
        "number", "id", "intended", "manager", "job", "start", "kind", "units_before", "units", "why",
        "outcome", "outcome_why", "answered",
    ),
}  # fmt: skip


def _copy(table: str) -> str:  # pragma: no mutate block - runs at import
    names = ", ".join(_OLD[table])
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM old_{table} ORDER BY rowid"  # noqa: S608 - as above


_FROM_1 = (
    *(f"ALTER TABLE {table} RENAME TO old_{table}" for table in _OLD),
    "DROP INDEX IF EXISTS unanswered",
    *CREATE,
    *(_copy(table) for table in _OLD),
    *(f"DROP TABLE old_{table}" for table in _OLD),
)

MIGRATIONS: Mapping[int, tuple[int, Sequence[str]]] = {
    0: (SCHEMA, CREATE),
    1: (SCHEMA, _FROM_1),
    2: (SCHEMA, _INDEXES),
}
"""From each older schema: where the statements lead, and the statements. 0 is an empty file."""


def row_sum(*values: object) -> int:
    """Sum one row up (CRC-32). What it gives for a row must never change: files hold it."""
    text = "\x1f".join("\x00" if value is None else str(value) for value in values)
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def teach(db: sqlite3.Connection) -> None:
    """Give a connection the function that the triggers call."""
    db.create_function("row_sum", -1, row_sum, deterministic=True)


def version_of(db: sqlite3.Connection) -> int:
    """Read which schema a file has."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection) -> None:
    """Lead a file, inside a transaction of the caller's, to the newest schema."""
    version = version_of(db)
    while version < SCHEMA:
        version, statements = MIGRATIONS[version]
        for statement in statements:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")


def flaw(db: sqlite3.Connection, version: int = SCHEMA) -> str | None:
    """Look for damage in a file of a schema whose rows have sums: its tables' form, and each such row."""
    if _form(db) != _made_form(_SECOND if version == SECOND else CREATE):
        return "its tables are not those that slaqd made"
    for table, columns in SUMMED.items():
        # Not by the function inside SQLite, which would turn an interrupt (Ctrl-C at a start) into damage.
        rows = db.execute(f"SELECT {', '.join(columns)}, sum FROM {table}")  # noqa: S608 - our own names
        count = sum(total != row_sum(*row) for *row, total in rows)
        if count:
            return f"{count} of its rows in {table!r} were not written by slaqd"
    return None


def _form(db: sqlite3.Connection) -> set[tuple[str, str, str | None]]:
    return set(db.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"))


def _made_form(statements: Sequence[str]) -> set[tuple[str, str, str | None]]:
    db = sqlite3.connect(":memory:")
    try:
        for statement in statements:
            db.execute(statement)
        return _form(db)
    finally:
        db.close()
