"""The journal's file: opened, written in transactions, and never trusted when it fails."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from slaqd.act import schema
from slaqd.errors import StateError, StateRefused

_WAL_MOST = 8 * 1024 * 1024
_OUTSIDE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
"""What the world around a file does to it; whatever else goes wrong is the file's own."""


BESIDE = ("", "-wal", "-shm")
"""What the names of a journal's files end in: its own, its log's, and that of the log's index."""


class CorruptJournal(StateError):
    """The file is there and can be read, but what stands in it is not what slaqd wrote."""


def refuse_odd(path: Path) -> None:
    """Raise `StateRefused` where a journal or what belongs to it is no regular file; opens none of them.

    A pipe would hang whoever opens it, and whoever follows a link looks for the log in another place.
    """
    for each in (path.with_name(path.name + end) for end in BESIDE):
        try:
            mode = each.lstat().st_mode
        except OSError:
            continue  # it isn't there, or its use says why it can't be looked at
        if not stat.S_ISREG(mode):
            raise StateRefused(f"{each}: no regular file, as the journal's all are; move it away")


def read_only(path: Path, patience_s: float) -> sqlite3.Connection:
    """Open a journal to read it beside whoever writes it; changes nothing.

    Raises `sqlite3.Error`, and `StateRefused` as `refuse_odd` does.
    """
    refuse_odd(path)
    # Without a log beside it there is nothing to share: then not even files for sharing are made.
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=patience_s)


class Database:
    """One SQLite file: WAL, synchronous FULL. Safe to use from several threads of the one daemon.

    ``failures`` counts how often the disk, or the file, failed it; ``trouble`` says how it did last.

    Raises
    ------
    CorruptJournal
        It is no database, or a damaged one.
    StateRefused
        It is no regular file, or of a newer slaqd.
    StateError
        It can't be opened.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        self.failures = 0
        self._run: str | None = None
        self._damaged = False
        self._lock = threading.RLock()
        refuse_odd(path)
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
        schema.teach(self._db)
        with self._guarded() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA journal_size_limit = {_WAL_MOST}")
            version = schema.version_of(db)
        if version > schema.SCHEMA:
            msg = (
                f"{self.path}: written by a newer slaqd (schema {version}, this one knows {schema.SCHEMA}):"
                " start that one, or name another directory as state_dir in [slaqd]"
            )
            raise StateRefused(msg)
        if version < schema.SCHEMA:
            with self._writing() as db:
                schema.migrate(db)

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise self._failed(error) from error
            except (OverflowError, UnicodeDecodeError, msgspec.MsgspecError) as error:
                raise StateError(self._text(error)) from error

    def _failed(self, error: sqlite3.Error) -> StateError:
        damaged = is_damage(error)
        text = self._text(error)
        if damaged or is_outside(error):
            self._fail(text)
        self._damaged |= damaged
        return CorruptJournal(text) if damaged else StateError(text)

    def _fail(self, text: str) -> None:
        self.trouble = text
        self.failures += 1

    def _text(self, error: Exception) -> str:
        return f"{self.path}: the journal can't be used: {error}"

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._guarded() as db:
            if self._damaged:
                msg = f"{self.path}: the journal is damaged; slaqd, started anew, sets it aside"
                self._fail(msg)
                raise CorruptJournal(msg)
            db.execute("BEGIN IMMEDIATE")
            try:
                self._check_run(db)
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # the error that led here is the one to tell
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                raise

    def _check_run(self, db: sqlite3.Connection) -> None:
        """Refuse to write for a daemon that another one has followed, whatever became of the lock."""
        if self._run is None:
            return
        row = db.execute("SELECT value FROM facts WHERE name = 'runs'").fetchone()
        if row is None or row[0] != self._run:
            msg = f"{self.path}: another slaqd has taken this journal over; stop this one"
            self._fail(msg)
            raise StateError(msg)

    def _settle(self) -> None:
        """Bring the log into the file itself, where rows have sums: a log's end may be lost.

        A damaged last write in a log that a kill left can't be told from one that was never finished.
        """
        with suppress(sqlite3.Error), self._lock:  # it is on disk already, only less safely
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


def is_outside(error: sqlite3.Error) -> bool:
    """Tell whether the disk, the rights or another process is in the way, not the file itself."""
    return _primary(error) in _OUTSIDE


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether SQLite found the file to be damaged, or no database."""
    return _primary(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _primary(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF
