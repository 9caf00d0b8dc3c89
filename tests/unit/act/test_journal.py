"""The journal: what it keeps, what it says when it can't."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from modelled import key, registration

from slaqd.act import Journal, schema
from slaqd.act.past import Ask
from slaqd.adapter import Registration
from slaqd.errors import StateError, StateRefused
from slaqd.types import Accepted, JobKey, Refused, Restore, SetUnits, Unknown

DAY = 86_400.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def reopened(journal: Journal) -> Journal:
    journal.close()
    return Journal(journal.path)


def set_units(name: str, number: int, units: int) -> SetUnits:
    return SetUnits(id=name, key=key(number), incarnation="one", units=units, why="gain")


def test_only_its_owner_can_read_it(journal: Journal) -> None:
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


def test_it_writes_to_disk_before_it_returns(journal: Journal) -> None:
    pragma = journal._db.execute
    assert pragma("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert pragma("PRAGMA synchronous").fetchone()[0] == 2


def test_what_was_kept_is_there_after_a_crash(journal: Journal) -> None:
    journal.register(registration(1))
    journal.note(key(1), "hold", "cgroup1")
    journal.pause(key(1), paused=True)
    journal.keep_fact("paused", "1")
    journal.intend([set_units("1.1-1", 1, 4)], {key(1): 2}, 50.0, {})
    other = Journal(journal.path)  # the first one is not closed: as after SIGKILL
    assert other.registrations() == [registration(1)]
    assert other.notes(key(1)) == {"hold": "cgroup1"}
    assert other.paused() == {key(1)}
    assert other.fact("paused") == "1"
    (row,) = other.actions()
    assert (row.id, row.kind, row.before, row.units, row.outcome) == ("1.1-1", "SetUnits", 2, 4, None)
    other.close()


def test_registrations_come_oldest_first(journal: Journal) -> None:
    for number, submitted in ((1, 30.0), (2, 10.0), (3, 20.0), (4, 20.0)):
        journal.register(registration(number, submitted=submitted))
    assert [item.key.id for item in journal.registrations()] == ["2", "3", "4", "1"]


def test_the_same_job_once_more_replaces_it(journal: Journal) -> None:
    journal.register(registration(1, waits=True))
    journal.register(registration(1, waits=False))
    assert journal.registrations() == [registration(1, waits=False)]


def test_a_paused_job_that_is_registered_once_more_stays_paused(journal: Journal) -> None:
    for number in (1, 2):
        journal.register(registration(number))
    journal.pause(key(1), paused=True)
    for number in (1, 2):
        journal.register(registration(number, submitted=300.0))
    assert journal.paused() == {key(1)}
    assert [item.submitted for item in journal.registrations()] == [300.0, 300.0]
    assert schema.flaw(journal._db) is None


def test_a_job_that_is_registered_after_its_end_runs_and_ends_anew(journal: Journal) -> None:
    journal.register(registration(1))
    journal.keep_exit_status(key(1), 137)
    journal.end(key(1), 200.0, "{}")
    journal.register(registration(1))
    assert journal.ended(0.0) == []
    assert journal.registrations() == [registration(1)]
    journal.end(key(1), 300.0, "")
    (row,) = journal.ended(0.0)
    assert (row.ended, row.exit_status, row.last) == (300.0, None, "")
    assert schema.flaw(journal._db) is None


def test_an_id_used_again_is_another_job(journal: Journal) -> None:
    journal.register(registration(1))
    later = JobKey(manager="fake", id="1", start=8)
    journal.pause(later, paused=True)
    assert journal.paused() == frozenset()
    assert [item.key for item in journal.registrations()] == [key(1)]


def test_an_ended_job_keeps_its_last_view_and_loses_its_notes(journal: Journal) -> None:
    journal.register(registration(1))
    journal.note(key(1), "hold", "x")
    journal.pause(key(1), paused=True)
    journal.keep_exit_status(key(1), 137)
    journal.end(key(1), 200.0, '{"last":1}')
    assert journal.registrations() == []
    assert journal.notes(key(1)) == {}
    assert journal.paused() == frozenset()
    (row,) = journal.ended(200.0)
    assert (row.registration, row.ended, row.exit_status, row.last) == (
        registration(1),
        200.0,
        137,
        '{"last":1}',
    )
    assert journal.ended(200.1) == []


def test_a_registration_is_found_by_its_key_also_after_the_end(journal: Journal) -> None:
    journal.register(registration(1))
    journal.end(key(1), 200.0, "{}")
    assert journal.registered(key(1)) == registration(1)
    assert journal.registered(key(2)) is None


def test_the_bytes_of_a_users_registrations_are_counted_as_long_as_they_are_shown(journal: Journal) -> None:
    one, uid = registration(1), registration(1).owner.uid
    assert journal.bytes_of(uid, 0.0) == 0
    journal.register(msgspec.structs.replace(one, cwd="/ü"))
    once = journal.bytes_of(uid, 0.0)
    assert once == len(msgspec.json.encode(msgspec.structs.replace(one, cwd="/ü")))
    journal.register(registration(2))
    assert journal.bytes_of(uid, 0.0) == once + len(msgspec.json.encode(registration(2)))
    assert journal.bytes_of(uid + 1, 0.0) == 0
    journal.end(key(2), 200.0, "{}")
    assert journal.bytes_of(uid, 200.0) > once
    assert journal.bytes_of(uid, 200.1) == once


def test_many_jobs_are_closed_in_one_transaction(journal: Journal) -> None:
    for number in range(50):
        journal.register(registration(number))
        journal.note(key(number), "hold", "x")
    spoken: list[str] = []
    journal._db.set_trace_callback(spoken.append)
    journal.end_all({key(number): f"[{number}]" for number in range(40)}, 200.0)
    journal._db.set_trace_callback(None)
    assert [words for words in spoken if words.startswith(("BEGIN", "COMMIT"))] == [
        "BEGIN IMMEDIATE",
        "COMMIT",
    ]
    assert [row.last for row in journal.ended(200.0)] == [f"[{number}]" for number in range(40)]
    assert {one.key for one in journal.registrations()} == {key(number) for number in range(40, 50)}
    assert journal.all_notes() == {key(number): {"hold": "x"} for number in range(40, 50)}


def test_of_many_ends_none_is_kept_where_one_cant_be(journal: Journal) -> None:
    for number in range(3):
        journal.register(registration(number))
    journal._db.execute(
        "CREATE TRIGGER full BEFORE UPDATE OF ended ON jobs WHEN NEW.job = '2'"
        " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(StateError, match="disk full"):
        journal.end_all({key(number): "{}" for number in range(3)}, 200.0)
    assert len(journal.registrations()) == 3
    assert journal.ended(0.0) == []


def test_of_many_notes_all_are_kept_or_none(journal: Journal) -> None:
    journal.note_all([(key(1), "a", "1"), (key(1), "b", "2"), (key(2), "a", "3")])
    kept = {key(1): {"a": "1", "b": "2"}, key(2): {"a": "3"}}
    assert journal.all_notes() == kept
    with pytest.raises(StateError):
        journal.note_all([(key(3), "a", "4"), (JobKey("fake", "4", 1 << 70), "a", "5")])
    assert journal.all_notes() == kept


def test_the_exit_status_may_come_after_the_end(journal: Journal) -> None:
    journal.register(registration(1))
    journal.end(key(1), 200.0, "{}")
    journal.keep_exit_status(key(1), 3)
    assert journal.ended(0.0)[0].exit_status == 3


def test_notes_are_replaced_by_name_and_forgotten_by_job(journal: Journal) -> None:
    for number in (1, 2):
        journal.note(key(number), "hold", "a")
        journal.note(key(number), "hold", "b")
        journal.note(key(number), "base", "c")
    journal.forget(key(1))
    assert journal.notes(key(1)) == {}
    assert journal.notes(key(2)) == {"hold": "b", "base": "c"}


def test_outcomes_stand_beside_their_intents(journal: Journal) -> None:
    restore = Restore(id="c", key=key(3), incarnation="one", why="asked")
    journal.intend([set_units("a", 1, 4), set_units("b", 2, 1), restore], {key(1): None, key(2): 3}, 50.0, {})
    journal.record([("a", Accepted()), ("b", Refused("too small")), ("c", Unknown("silence"))], 51.0)
    shown = [(row.id, row.before, row.units, row.outcome, row.outcome_why) for row in journal.actions()]
    assert shown == [
        ("a", None, 4, "Accepted", ""),
        ("b", 3, 1, "Refused", "too small"),
        ("c", None, None, "Unknown", "silence"),
    ]
    assert {row.answered for row in journal.actions()} == {51.0}


def test_an_outcome_once_written_is_not_overwritten(journal: Journal) -> None:
    journal.intend([set_units("a", 1, 4)], {}, 50.0, {})
    journal.record([("a", Accepted())], 51.0)
    journal.record([("a", Refused("late"))], 52.0)
    assert [row.outcome for row in journal.actions()] == ["Accepted"]


def test_starts_are_counted(journal: Journal) -> None:
    assert [journal.begin_run(10.0), journal.begin_run(20.0)] == [1, 2]
    assert [(one.at, one.what, one.why) for one in journal.past(Ask())] == [
        (10.0, "started", "start 1"),
        (20.0, "started", "start 2"),
    ]


def test_who_writes_without_a_daemon_is_counted_and_is_no_start(journal: Journal) -> None:
    journal.begin_run(10.0)
    assert Journal(journal.path).begin_run(20.0, offline="slaqctl restore, without a slaqd") == 2
    last = journal.past(Ask())[-1]
    assert (last.what, last.why) == ("taken over", "slaqctl restore, without a slaqd")
    with pytest.raises(StateError, match="another slaqd has taken this journal over"):
        journal.keep_fact("a", "1")


def test_a_job_that_runs_for_months_is_not_forgotten(journal: Journal) -> None:
    journal.register(registration(1, submitted=0.0))
    journal.begin_run(400 * DAY)
    assert journal.registrations() == [registration(1, submitted=0.0)]


def test_several_threads_may_write_at_once(journal: Journal) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            journal.note(key(number), f"n{turn}", "x")
            journal.registrations()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(journal.notes(key(number))) for number in range(4)] == [20] * 4


def test_a_write_that_fails_leaves_nothing_behind(journal: Journal) -> None:
    bad = [set_units("a", 1, 4), SetUnits(id="b", key=key(2), incarnation="one", units=2**70)]
    with pytest.raises(StateError, match="the journal can't be used"):
        journal.intend(bad, {}, 50.0, {})
    assert list(journal.actions()) == []
    journal.intend([set_units("a", 1, 4)], {}, 50.0, {})
    assert len(list(journal.actions())) == 1


def test_a_number_too_large_for_it_is_a_state_error(journal: Journal) -> None:
    with pytest.raises(StateError):
        journal.keep_exit_status(JobKey("fake", "1", 2**70), 1)


def test_a_closed_journal_says_so(journal: Journal) -> None:
    journal.close()
    with pytest.raises(StateError, match="closed"):
        journal.registrations()
    with pytest.raises(StateError, match="closed"):
        journal.keep_fact("paused", "1")


def test_what_is_no_journal_is_said_with_its_path_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"my thesis " * 1000)
    with pytest.raises(StateError, match=rf"{path}: .*not a database"):
        Journal(path)
    assert path.read_bytes() == b"my thesis " * 1000


def test_a_directory_in_its_place_and_a_folder_that_is_missing_are_said(tmp_path: Path) -> None:
    with pytest.raises(StateRefused, match="no regular file"):
        Journal(tmp_path)
    with pytest.raises(StateError, match="can't be opened"):
        Journal(tmp_path / "nowhere" / "journal.sqlite")


def test_a_journal_of_a_newer_slaqd_is_not_touched(journal: Journal) -> None:
    journal._db.execute("PRAGMA user_version = 99")
    journal.close()
    with pytest.raises(StateRefused, match=r"written by a newer slaqd \(schema 99"):
        Journal(journal.path)
    with sqlite3.connect(journal.path) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == 99
    db.close()


def test_a_row_that_cant_be_read_is_a_state_error(journal: Journal) -> None:
    journal.register(registration(1))
    journal._db.execute("UPDATE jobs SET registration = '{}'")
    with pytest.raises(StateError):
        journal.registrations()


def test_an_older_journal_goes_on_being_used(journal: Journal) -> None:
    journal.register(registration(1))
    again = reopened(journal)
    again.register(registration(2))
    assert len(again.registrations()) == 2
    again.close()


def test_a_daemon_that_runs_for_long_keeps_thirty_days(journal: Journal) -> None:
    for day in range(40):
        journal.intend([set_units(f"{day}", 1, 4)], {}, day * DAY, {})
        journal.register(registration(day))
        journal.end(key(day), day * DAY, "")
    assert [row.id for row in journal.actions()] == [f"{day}" for day in range(9, 40)]
    assert [row.registration.key for row in journal.ended(0.0)] == [key(day) for day in range(9, 40)]


def test_an_answer_finds_its_action_without_reading_them_all(journal: Journal) -> None:
    ask = "EXPLAIN QUERY PLAN UPDATE actions SET answered = 1 WHERE id = 'a' AND outcome IS NULL"
    (step,) = journal._db.execute(ask).fetchall()
    assert "USING INDEX unanswered" in step[3]


def test_what_is_said_of_a_job_while_it_is_let_start_is_not_lost(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else writes between the look at a registration and its change."""
    journal.register(registration(1, waits=True))
    look = journal.registrations

    def registrations() -> Sequence[Registration]:
        assert journal._db.in_transaction
        return look()

    monkeypatch.setattr(journal, "registrations", registrations)
    journal.let_start([key(1)])
    assert [one.waits for one in look()] == [False]
