"""The journal's form: older ones are led to the newest, and damage to a row shows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from modelled import key, registration

from slaqd.act import Journal, schema
from slaqd.act.recover import open_journal
from slaqd.errors import StateError

FIRST_FORM = """
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
PRAGMA user_version = 1;
"""
"""Word for word what slaqd 0.1 made."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Make a file as slaqd 0.1 left it: two live jobs, one ended, a pause, notes, an act under way."""
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(FIRST_FORM)
        db.execute("INSERT INTO facts VALUES ('runs', '7'), ('paused', '1')")
        for number, paused, ended in ((2, 1, None), (1, 0, None), (3, 0, 90.0)):
            made = registration(number)
            row = (
                "fake",
                str(number),
                7,
                100.0,
                msgspec.json.encode(made).decode(),
                paused,
                None,
                ended,
                None,
            )
            db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("INSERT INTO notes VALUES ('fake', '1', 7, 'hold', 'origins')")
        db.execute(
            "INSERT INTO actions VALUES"
            " (1, 'a', 50.0, 'fake', '1', 7, 'SetUnits', 2, 4, 'gain', 'Accepted', '', 51.0),"
            " (2, 'b', 52.0, 'fake', '2', 7, 'Admit', NULL, 4, 'gain', NULL, NULL, NULL)"
        )
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def test_a_journal_of_slaqd_0_1_is_taken_over_whole(old: Path) -> None:
    journal = open_journal(old, 60.0)
    assert schema.version_of(journal._db) == schema.SCHEMA
    assert schema.flaw(journal._db) is None
    assert journal.unconfirmed == ""
    assert [each.key.id for each in journal.registrations()] == ["2", "1"]
    assert journal.registrations()[1] == registration(1)
    assert journal.paused() == {key(2)}
    assert journal.fact("paused") == "1"
    assert journal.notes(key(1)) == {"hold": "origins"}
    assert [row.registration.key for row in journal.ended(0.0)] == [key(3)]
    assert [(row.id, row.outcome) for row in journal.actions()] == [("a", "Accepted"), ("b", None)]
    assert journal.begin_run(60.0) == 8
    journal.close()


def test_a_taken_over_journal_has_the_form_of_a_new_one(old: Path) -> None:
    open_journal(old, 60.0).close()
    again = open_journal(old, 61.0)
    assert again.unconfirmed == ""
    assert len(again.registrations()) == 2
    again.close()


def test_a_migration_that_breaks_off_leaves_the_old_file(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = (schema.SCHEMA, [*schema.MIGRATIONS[1][1][:9], "INSERT INTO nowhere VALUES (1)"])
    monkeypatch.setattr(schema, "MIGRATIONS", {1: half})
    with pytest.raises(StateError, match="nowhere"):
        Journal(old)
    monkeypatch.undo()
    with closing(sqlite3.connect(old)) as db:
        assert schema.version_of(db) == 1
        assert db.execute("SELECT count(*) FROM jobs").fetchone()[0] == 3
    journal = open_journal(old, 60.0)
    assert len(journal.registrations()) == 2
    journal.close()


def back_to_the_second(journal: Journal) -> None:
    """Give a journal the form in which slaqd left it before users had indexes of their own."""
    made = journal._db.execute("SELECT name FROM sqlite_master WHERE name LIKE '%_of'").fetchall()
    assert len(made) == 6
    for (name,) in made:
        journal._db.execute(f"DROP INDEX {name}")
    journal._db.execute("PRAGMA user_version = 2")
    journal.close()


def test_a_journal_of_the_second_form_is_taken_over_whole(journal: Journal) -> None:
    journal.register(registration(1))
    journal.note(key(1), "hold", "x")
    back_to_the_second(journal)
    again = open_journal(journal.path, 60.0)
    assert again.unconfirmed == ""
    assert schema.version_of(again._db) == schema.SCHEMA
    assert schema.flaw(again._db) is None
    assert again.registrations() == [registration(1)]
    assert again.notes(key(1)) == {"hold": "x"}
    again.close()


def test_damage_in_a_journal_of_the_second_form_is_found(journal: Journal) -> None:
    journal.register(registration(1))
    journal._db.execute("UPDATE jobs SET sum = 0")
    back_to_the_second(journal)
    again = open_journal(journal.path, 60.0)
    assert "1 of its rows in 'jobs' were not written by slaqd" in again.unconfirmed
    again.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE facts SET sum = sum + 1",
        "UPDATE jobs SET sum = NULL",
        "UPDATE notes SET sum = 0",
    ],
)
def test_a_row_whose_sum_is_wrong_is_damage(journal: Journal, damage: str) -> None:
    journal.register(registration(1))
    journal.note(key(1), "hold", "x")
    journal.keep_fact("paused", "1")
    assert schema.flaw(journal._db) is None
    journal._db.execute(damage)
    assert schema.flaw(journal._db) is not None


def test_every_way_of_writing_keeps_the_sums_right(journal: Journal) -> None:
    for number in (1, 2, 3):
        journal.register(registration(number, waits=True))
        journal.note(key(number), "hold", "x")
        journal.note(key(number), "hold", "y")
    journal.register(registration(1))
    journal.let_start([key(2)])
    journal.pause(key(1), paused=True)
    journal.keep_exit_status(key(3), 1)
    journal.end(key(3), 5.0, "{}")
    journal.keep_fact("a", "b")
    journal.keep_fact("a", "\u202e\x00c")
    journal.pause_all(paused=True)
    journal.begin_run(6.0)
    assert schema.flaw(journal._db) is None


def test_tables_that_slaqd_didnt_make_are_damage(journal: Journal) -> None:
    journal._db.execute("ALTER TABLE events RENAME COLUMN why TO whz")
    assert schema.flaw(journal._db) == "its tables are not those that slaqd made"


def test_sums_are_those_that_files_hold() -> None:
    assert schema.row_sum("paused", "1") == 3733743020
    assert schema.row_sum("fake", "1", 7, 100.0, "{}", 0, None, None, None) == 1322851939
    assert schema.row_sum(None) != schema.row_sum("")
