"""Opens the journal at a start: whole, or set aside and begun anew with what can be saved of it.

What is damaged is renamed, never deleted and never written to. The new journal
starts in doubt (`Journal.unconfirmed`): slaqd then acts on nothing until an admin
says that it may.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from slaqd.act import schema, wal
from slaqd.act.database import BESIDE, is_outside, read_only, refuse_odd
from slaqd.act.journal import Journal
from slaqd.adapter import Registration
from slaqd.errors import StateError
from slaqd.types import JobKey

_STAMP = ".corrupt-%Y%m%dT%H%M%SZ"
_STAMPED = r"\.corrupt-\d{8}T\d{6}Z(-\d+)?"

_REGISTRATION, _ENDED = (schema.SUMMED["jobs"].index(name) for name in ("registration", "ended"))


def open_journal(path: Path, now: float) -> Journal:
    """Open a journal, or the one that takes its place.

    A journal that isn't there is made; in doubt, where an older one stands set aside
    beside it or what belonged to it was left.

    Raises
    ------
    StateRefused
        A newer slaqd wrote it, or something that is no regular file has its name, or
        that of what was set aside last and is to be read.
    StateError
        The disk or the rights are in the way. Nothing was set aside in either case.

    """
    refuse_odd(_beside(path, ".new"))
    try:
        why = flaw_of(path)
    except OSError as error:
        msg = f"{path}: the journal can't be read: {error.strerror}"
        raise StateError(msg) from error
    if why is not None:
        if (last := _newest_aside(path)) is not None:
            refuse_odd(last)
        _set_aside(path, now)
    elif path.exists():
        return Journal(path)
    return _made(path, why or "it is gone", now)


def flaw_of(path: Path) -> str | None:
    """Say what is wrong with a file; None where all that slaqd acts on is as it was written, or nothing is.

    Writes nothing, so that what is damaged stays as it is. For a journal that nobody writes
    to meanwhile. OSError, and `StateError`, where it can't be told; `StateRefused` as `refuse_odd` raises it.
    """
    refuse_odd(path)
    left = wal.look(_beside(path, "-wal"))
    if not path.exists():
        return "its main file is gone" if _beside(path, "-wal").exists() else None
    if path.stat().st_size == 0:
        return "it is empty"
    try:
        is_wal = _is_wal(path)  # before SQLite's locks are on the file: closing it would drop them (fcntl(2))
        with closing(_read_only(path)) as db:
            return left.flaw or _flaw(db, path, left, is_wal=is_wal)
    except sqlite3.Error as error:
        if is_outside(error):
            msg = f"{path}: the journal can't be used: {error}"
            raise StateError(msg) from error
        return str(error)
    except UnicodeDecodeError:
        return "texts in it are no texts"


def _flaw(db: sqlite3.Connection, path: Path, left: wal.Left, *, is_wal: bool) -> str | None:
    schema.teach(db)
    found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(1)")]
    if found != ["ok"]:
        return " ".join(found).replace("\n", " ")
    if not is_wal:
        return "it is no longer in the mode in which slaqd writes it"
    if left.last and left.lost_beyond(wal.frames_in_use(_beside(path, "-shm"))):
        return "its log breaks off in the middle"
    return _form_flaw(db)


def _is_wal(path: Path) -> bool:
    """Tell by the head of the file: SQLite names no mode of one that it opened as immutable."""
    with path.open("rb") as file:
        return file.read(20)[18:] == b"\2\2"


def kept(path: Path) -> tuple[list[Registration], str]:
    """Read the jobs that have not ended, and what is in doubt (`Journal.unconfirmed`), changing nothing.

    Raises `StateError` where they can't be read.
    """
    try:
        with closing(_read_only(path)) as db:
            rows = db.execute(
                "SELECT registration FROM jobs WHERE ended IS NULL ORDER BY submitted"
            ).fetchall()
            doubt = db.execute("SELECT value FROM facts WHERE name = 'unconfirmed'").fetchone()
        return [msgspec.json.decode(row[0], type=Registration) for row in rows], doubt[0] if doubt else ""
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        msg = f"{path}: the journal can't be read: {error}"
        raise StateError(msg) from error


def _form_flaw(db: sqlite3.Connection) -> str | None:
    version = schema.version_of(db)
    if version in (schema.SECOND, schema.SCHEMA):
        return schema.flaw(db, version)
    if schema.flaw(db) is None or version < 0:
        return "the number of its schema is wrong"
    if version == 1:
        return _old_flaw(db)
    # A newer slaqd's is whole and not ours to judge; one of number 0 was never finished.
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return "the number of its schema is wrong" if version == 0 and tables else None


def _old_flaw(db: sqlite3.Connection) -> str | None:
    for (text,) in db.execute("SELECT registration FROM jobs"):
        try:
            msgspec.json.decode(text, type=Registration)
        except msgspec.MsgspecError as error:
            return f"a registration in it can't be read: {error}"
    return None


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _set_aside(path: Path, now: float) -> None:
    """Rename a journal and what belongs to it, so that they still belong together."""
    stamp = time.strftime(_STAMP, time.gmtime(now))
    name = free = path.name + stamp
    number = 1
    while path.with_name(free).exists():
        number += 1
        free = f"{name}-{number}"
    try:
        # The main file first: once it is gone, no start takes what is left for a journal.
        for end in BESIDE:
            with suppress(FileNotFoundError):
                _beside(path, end).rename(path.with_name(free + end))
        _sync(path.parent)
    except OSError as error:
        msg = f"{path}: the damaged journal can't be set aside: {error.strerror}"
        raise StateError(msg) from error


def _made(path: Path, why: str, now: float) -> Journal:
    """Make a journal under another name and move it into place whole: an empty file is never a new one."""
    new = _beside(path, ".new")
    try:
        for end in BESIDE:
            _beside(new, end).unlink(missing_ok=True)
        with closing(Journal(new)) as journal:
            newest = _newest_aside(path)
            if newest is not None:
                saved = _save(newest, journal)
                doubt = f"the journal was damaged ({why}) and set aside as {newest.name}; {saved}"
                journal.doubt(doubt)
                journal.tell("set aside", doubt, now)
        _check_settled(new)
        new.rename(path)
        _sync(path.parent)
    except OSError as error:
        msg = f"{path}: the journal can't be made: {error.strerror}"
        raise StateError(msg) from error
    return Journal(path)


def _check_settled(path: Path) -> None:
    """Raise OSError where a closed journal still needs its log: SQLite's close keeps that to itself."""
    if _beside(path, "-wal").exists():
        raise OSError(errno.EIO, "its log could not be brought into it")


def _newest_aside(path: Path) -> Path | None:
    """Find what was set aside last; where a kill left only its log, that still tells of it."""
    names = (one.name.removesuffix("-wal").removesuffix("-shm") for one in path.parent.iterdir())
    ours = re.compile(re.escape(path.name) + _STAMPED)
    found = [path.with_name(name) for name in set(names) if ours.fullmatch(name)]
    return max(found, key=lambda one: (one.exists(), one.name), default=None)


def _save(aside: Path, journal: Journal) -> str:
    """Take over the registrations and notes whose sums are right, from a damaged journal."""
    jobs: dict[JobKey, Registration] = {}
    notes: list[tuple[JobKey, str, str]] = []
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(_read_only(aside)) as db:
        for row in _good(db, "jobs"):
            if row[_ENDED] is None:
                with suppress(msgspec.MsgspecError):  # one that can't be read must not take the others along
                    one = msgspec.json.decode(row[_REGISTRATION], type=Registration)
                    jobs[one.key] = one
        notes += [(JobKey(*row[:3]), *row[3:]) for row in _good(db, "notes")]
    notes = [note for note in notes if note[0] in jobs]
    journal.take_over(list(jobs.values()), notes)
    return f"saved from it: jobs {len(jobs)}, notes {len(notes)}"


def _read_only(path: Path) -> sqlite3.Connection:
    db = read_only(path, 5.0)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")  # one bad text must not hide the others
    return db


def _good(db: sqlite3.Connection, table: str) -> Iterator[list[Any]]:
    columns = schema.SUMMED[table]
    asked = f"SELECT {', '.join(columns)}, sum FROM {table}"  # noqa: S608 - our own names
    for *row, total in db.execute(asked):
        if total == schema.row_sum(*row):
            yield row


def _sync(folder: Path) -> None:
    """Bring renames to the disk (fsync(2) of the directory)."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
