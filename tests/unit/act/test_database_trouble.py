"""What the journal counts as trouble, and what it takes for damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from slaqd.act import Journal
from slaqd.act.database import CorruptJournal, is_damage, is_outside
from slaqd.errors import StateError


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def error_of(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    return error


def fail(journal: Journal, code: int) -> StateError:
    with pytest.raises(StateError) as caught, journal._guarded():
        raise error_of(code)
    return caught.value


def test_what_the_disk_does_is_counted_each_time_and_is_no_damage(journal: Journal) -> None:
    errors = [fail(journal, sqlite3.SQLITE_FULL), fail(journal, sqlite3.SQLITE_IOERR_FSYNC)]
    assert [type(each) for each in errors] == [StateError, StateError]
    assert journal.failures == 2
    assert journal.trouble == f"{journal.path}: the journal can't be used: it failed"
    journal.keep_fact("a", "1")


def test_a_mistake_of_slaqds_own_is_no_trouble_of_the_file(journal: Journal) -> None:
    assert type(fail(journal, sqlite3.SQLITE_ERROR)) is StateError
    assert (journal.failures, journal.trouble) == (0, "")


def test_damage_once_found_stops_all_writing_whatever_comes_after_it(journal: Journal) -> None:
    assert type(fail(journal, sqlite3.SQLITE_CORRUPT)) is CorruptJournal
    fail(journal, sqlite3.SQLITE_BUSY)
    with pytest.raises(CorruptJournal, match="the journal is damaged; slaqd, started anew, sets it aside"):
        journal.keep_fact("a", "1")
    assert journal.failures == 3


@pytest.mark.parametrize(
    ("code", "outside", "damage"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, True, False),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, True, False),
        (sqlite3.SQLITE_IOERR_WRITE, True, False),
        (sqlite3.SQLITE_CORRUPT_VTAB, False, True),
        (sqlite3.SQLITE_NOTADB, False, True),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, False, False),
    ],
)
def test_an_errors_kind_is_that_of_its_first_eight_bits(code: int, outside: bool, damage: bool) -> None:  # noqa: FBT001 - parameters of the table
    assert (is_outside(error_of(code)), is_damage(error_of(code))) == (outside, damage)


def test_an_error_without_a_code_is_neither() -> None:
    error = sqlite3.ProgrammingError("closed")
    assert (is_outside(error), is_damage(error)) == (False, False)


def test_a_pause_of_everything_is_kept_as_a_fact_until_it_is_lifted(journal: Journal) -> None:
    journal.pause_all(paused=True)
    assert journal.fact("paused") == "1"
    journal.pause_all(paused=False)
    assert journal.fact("paused") == "0"
