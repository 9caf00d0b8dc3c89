"""What a start makes of its journal, and what it says when even setting that aside fails."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from modelled import key, registration

from slaqd.act import Journal, open_journal, schema
from slaqd.act import recover as room
from slaqd.errors import StateError

NOW = 1_772_424_000.0
NAME = "journal.sqlite"
ASIDE = f"{NAME}.corrupt-20260302T040000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a journal of three jobs, of which one has ended."""
    with closing(open_journal(tmp_path / NAME, NOW)) as journal:
        for number in (1, 2, 3):
            journal.register(registration(number))
            journal.note(key(number), "hold", "x")
        journal.end(key(3), NOW, "{}")
    return tmp_path / NAME


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        schema.teach(db)
        for statement in statements:
            db.execute(statement)


def test_a_log_that_cant_be_read_is_no_damage(path: Path) -> None:
    path.with_name(f"{NAME}-wal").mkdir()
    with pytest.raises(StateError, match="the journal can't be read: Is a directory"):
        open_journal(path, NOW)
    assert path.exists()


def test_an_empty_file_is_never_taken_for_a_new_journal(path: Path) -> None:
    path.write_bytes(b"")
    with closing(open_journal(path, NOW)) as journal:
        assert journal.unconfirmed == (
            f"the journal was damaged (it is empty) and set aside as {ASIDE}; saved from it: jobs 0, notes 0"
        )


def test_a_name_of_a_table_that_is_no_text_is_damage(path: Path) -> None:
    data = path.read_bytes()
    data = data.replace(b"jobsjobs", b"jo\xffsjo\xffs").replace(b"CREATE TABLE jobs", b"CREXTE TABLE jobs")
    path.write_bytes(data)
    with closing(open_journal(path, NOW)) as journal:
        assert "was damaged (texts in it are no texts)" in journal.unconfirmed
        assert journal.registrations() == []


def test_a_journal_that_is_no_longer_written_ahead_is_damage(path: Path) -> None:
    change(path, "PRAGMA journal_mode = DELETE")
    with closing(open_journal(path, NOW)) as journal:
        assert "it is no longer in the mode in which slaqd writes it" in journal.unconfirmed
        assert [each.key for each in journal.registrations()] == [key(1), key(2)]


def test_what_sqlite_itself_finds_wrong_is_said_in_its_words(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[39] += 5  # how many free pages there are (fileformat2, section 1.3)
    path.write_bytes(data)
    with closing(open_journal(path, NOW)) as journal:
        assert "size is 0 but should be 5) and set aside" in journal.unconfirmed
        assert [each.key for each in journal.registrations()] == [key(1), key(2)]


def test_a_registration_of_the_first_form_that_cant_be_read_is_damage(tmp_path: Path) -> None:
    path = tmp_path / NAME
    change(
        path,
        "PRAGMA journal_mode = WAL",
        "CREATE TABLE jobs (registration TEXT)",
        "INSERT INTO jobs VALUES ('{}')",
        "PRAGMA user_version = 1",
    )
    with closing(open_journal(path, NOW)) as journal:
        assert "a registration in it can't be read: " in journal.unconfirmed
        assert "missing required field" in journal.unconfirmed


def test_a_file_without_any_table_is_a_journal_that_was_never_finished(tmp_path: Path) -> None:
    path = tmp_path / NAME
    change(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (x)", "DROP TABLE t")
    with closing(open_journal(path, NOW)) as journal:
        assert journal.unconfirmed == ""
    assert not path.with_name(ASIDE).exists()


def test_an_ended_job_is_not_brought_back_to_life_from_a_damaged_journal(path: Path) -> None:
    change(path, "UPDATE notes SET sum = sum + 1 WHERE job = '2'")
    with closing(open_journal(path, NOW)) as journal:
        assert [each.key for each in journal.registrations()] == [key(1), key(2)]
        assert "saved from it: jobs 2, notes 1" in journal.unconfirmed


def test_what_cant_be_set_aside_is_named_and_no_new_journal_is_made(path: Path) -> None:
    path.write_bytes(b"no journal at all")
    path.with_name(f"{NAME}-shm").write_bytes(b"")
    path.with_name(f"{ASIDE}-shm").mkdir()
    with pytest.raises(StateError, match="the damaged journal can't be set aside: Is a directory"):
        open_journal(path, NOW)
    assert not path.exists()
    assert path.with_name(ASIDE).read_bytes() == b"no journal at all"


def test_what_is_in_the_way_of_a_new_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.with_name(f"{NAME}.new").mkdir()
    with pytest.raises(StateError, match="the journal can't be made: Is a directory"):
        open_journal(path, NOW)
    assert not path.exists()


def test_a_new_journal_whose_log_is_still_beside_it_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with closing(Journal(path)), pytest.raises(OSError, match="its log could not be brought into it"):
        room._check_settled(path)
    room._check_settled(path)


def test_the_newest_that_was_set_aside_tells_of_the_jobs(path: Path) -> None:
    path.rename(path.with_name(f"{NAME}.corrupt-20260302T040000Z"))
    path.with_name(f"{NAME}.corrupt-20250101T000000Z").write_bytes(b"older")
    path.with_name(f"{NAME}.corrupt-20270101T000000Z-wal").write_bytes(b"its main file was never there")
    with closing(open_journal(path, NOW)) as journal:
        assert f"(it is gone) and set aside as {ASIDE}; saved from it: jobs 2" in journal.unconfirmed


def test_tables_in_a_file_that_has_no_number_are_not_slaqds(tmp_path: Path) -> None:
    path = tmp_path / NAME
    change(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (x)")
    with closing(open_journal(path, NOW)) as journal:
        assert "was damaged (the number of its schema is wrong)" in journal.unconfirmed


def test_a_row_that_cant_be_read_though_its_sum_is_right_is_lost_alone(path: Path) -> None:
    change(path, f"UPDATE jobs SET registration = '{{}}' WHERE job = '{key(1).id}'")  # noqa: S608 - our own
    assert room.flaw_of(path) is None
    with pytest.raises(StateError, match=r"the journal can't be read: .* missing required field"):
        room.kept(path)
    change(path, f"UPDATE notes SET sum = sum + 1 WHERE job = '{key(2).id}'")  # noqa: S608 - our own
    with closing(open_journal(path, NOW)) as journal:
        assert [each.key for each in journal.registrations()] == [key(2)]
        assert "saved from it: jobs 1, notes 0" in journal.unconfirmed
