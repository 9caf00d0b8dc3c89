"""Reads the journal back as one story: registrations, plans, actions, ends, what the daemon did."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from slaqd.act import schema
from slaqd.act.database import read_only
from slaqd.adapter import Registration
from slaqd.errors import StateError
from slaqd.types import Struct
from slaqd.wire import EventView

MOST = 1_000
_PATIENCE_S = 2.0
_NUMBERED = frozenset({"actions", "plans", "events"})


class Ask(Struct, frozen=True):
    """Which part of the story: of one job or all, since when (wall time), and whose (None: everybody's)."""

    job: str | None = None
    since: float = 0.0
    uid: int | None = None
    most: int = MOST


def past(db: sqlite3.Connection, ask: Ask) -> list[EventView]:
    """Give the newest ``ask.most`` events that were asked for, oldest first."""
    found = [event for read in _READERS for event in read(db, ask)]
    found.sort(key=lambda event: event.at)
    return found[-ask.most :]


def read_past(path: Path, ask: Ask) -> list[EventView]:
    """Read a journal by a connection of its own, changing nothing; a daemon may write it meanwhile.

    Raises
    ------
    StateError
        There is none, or it can't be read, or is of another slaqd.

    """
    try:
        path.stat()
        with closing(read_only(path, _PATIENCE_S)) as db:
            version = schema.version_of(db)
            if version == schema.SCHEMA:
                return past(db, ask)
    except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"{path}: the journal can't be read: {why}"
        raise StateError(msg) from error
    do = (
        "start this slaqd once"
        if version < schema.SCHEMA
        else "ask by the slaqctl of the slaqd that wrote it"
    )
    msg = f"{path}: its schema is {version}, this slaqctl reads {schema.SCHEMA}: {do}"
    raise StateError(msg)


def _newest(
    db: sqlite3.Connection, ask: Ask, table: str, columns: str, time: str, uid: str = "uid"
) -> Iterator[tuple[Any, ...]]:
    """Select the newest rows, oldest first; those of other users only where nobody in particular asks."""
    asked = f"SELECT {columns} FROM {table} WHERE {time} >= ?"  # noqa: S608 - our own names
    values: list[object] = [ask.since]
    for column, value in (("job", ask.job), (uid, ask.uid)):
        if value is not None:
            asked += f" AND {column} = ?"
            values.append(value)
    # What is numbered was written in order: then the newest are found without a look at all the others.
    order = "rowid DESC" if table in _NUMBERED else f"{time} DESC, rowid DESC"
    newest: list[tuple[Any, ...]] = db.execute(
        f"{asked} ORDER BY {order} LIMIT ?", (*values, ask.most)
    ).fetchall()
    return iter(newest[::-1])


def _registered(db: sqlite3.Connection, ask: Ask) -> Iterator[EventView]:
    for text, at in _newest(db, ask, "jobs", "registration, submitted", "submitted", schema.OWNER):
        one = msgspec.json.decode(text, type=Registration)
        why = one.name + (f", log {one.tag.log}" if one.tag.log else "")
        yield EventView(at, "registered", one.key.id, one.owner.uid, why=why)


def _ended(db: sqlite3.Connection, ask: Ask) -> Iterator[EventView]:
    for text, at, status in _newest(
        db, ask, "jobs", "registration, ended, exit_status", "ended", schema.OWNER
    ):
        one = msgspec.json.decode(text, type=Registration)
        why = "" if status is None else f"exit status {status}"
        yield EventView(at, "ended", one.key.id, one.owner.uid, why=why)


def _planned(db: sqlite3.Connection, ask: Ask) -> Iterator[EventView]:
    for at, job, uid, units, reason in _newest(db, ask, "plans", "at, job, uid, units, reason", "at"):
        yield EventView(at, "planned", job, uid, units=units, why=reason)


def _acted(db: sqlite3.Connection, ask: Ask) -> Iterator[EventView]:
    columns = "intended, kind, job, uid, units_before, units, why, outcome, outcome_why"
    for at, kind, job, uid, before, units, why, outcome, outcome_why in _newest(
        db, ask, "actions", columns, "intended"
    ):
        yield EventView(at, kind, job, uid, before, units, why, outcome or "no answer", outcome_why or "")


def _seen(db: sqlite3.Connection, ask: Ask) -> Iterator[EventView]:
    for at, job, uid, value in _newest(db, ask, "observations", "at, job, uid, value", "at"):
        with suppress(msgspec.MsgspecError):  # another version's: it measures anew
            seen = msgspec.json.decode(value, type=_Seen)
            where = "" if seen.step is None else f", step {seen.step:g}, loss {seen.loss:.4g}"
            yield EventView(at, "observed", job, uid, why=f"{seen.points} points{where}")


class _Seen(msgspec.Struct):
    points: int
    step: float | None
    loss: float | None


def _happened(db: sqlite3.Connection, ask: Ask) -> Iterator[EventView]:
    for row in _newest(db, ask, "events", "at, what, job, uid, why", "at"):
        at, what, job, uid, why = row
        yield EventView(at, what, job or "", uid, why=why)


_READERS: Sequence[Callable[[sqlite3.Connection, Ask], Iterator[EventView]]] = (
    _registered, _happened, _planned, _acted, _seen, _ended,
)  # fmt: skip
"""At one moment, events stand in this order."""
