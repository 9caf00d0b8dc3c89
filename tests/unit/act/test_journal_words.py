"""What the journal says of itself: whose jobs, all notes, each event's words, and why it can't be read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from modelled import key, registration

from slaqd.act import Journal
from slaqd.act.past import Ask, read_past
from slaqd.act.records import Change, Observation
from slaqd.errors import StateError
from slaqd.types import Accepted, Owner, SetUnits, Tag
from slaqd.wire import EventView

EVE = Owner(uid=2000, name="eve")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def said(journal: Journal, **ask: object) -> list[tuple[str, int | None, str]]:
    return [(one.what, one.uid, one.why) for one in journal.past(Ask(**ask))]  # type: ignore[arg-type]


def test_only_a_users_own_jobs_that_have_not_ended_are_counted(journal: Journal) -> None:
    for number in (1, 2, 3):
        journal.register(registration(number))
    journal.register(msgspec.structs.replace(registration(4), owner=EVE))
    journal.end(key(2), 5.0, "{}")
    assert [journal.count_of(uid) for uid in (1000, 2000, 3000)] == [2, 1, 0]


def test_all_notes_are_given_job_by_job(journal: Journal) -> None:
    journal.note_all([(key(1), "hold", "a"), (key(1), "seq", "1"), (key(2), "hold", "b")])
    journal.note(key(1), "seq", "2")
    assert journal.all_notes() == {key(1): {"hold": "a", "seq": "2"}, key(2): {"hold": "b"}}
    journal.forget(key(1))
    assert journal.all_notes() == {key(2): {"hold": "b"}}


def test_a_transaction_that_sqlite_itself_has_ended_is_told_by_its_own_error(journal: Journal) -> None:
    journal.keep_fact("a", "1")
    twice = "INSERT OR ROLLBACK INTO facts (name, value) VALUES ('b', '2'), ('a', '3')"
    with pytest.raises(StateError, match="UNIQUE constraint failed"), journal._writing() as db:
        db.execute(twice)
    assert (journal.fact("a"), journal.fact("b")) == ("1", None)
    journal.keep_fact("b", "4")
    assert journal.fact("b") == "4"


def test_each_event_says_whose_it_is_and_why(journal: Journal) -> None:
    journal.register(registration(1, submitted=1.0, tag=Tag(log="train.log")))
    journal.register(registration(2, submitted=2.0))
    journal.keep_seen([Change(key(1), 1000, 3, "gain 0.5")], [], 3.0)
    seen = [
        Observation(key(1), 1000, "log", 9, 1234567.0, 0.123456),
        Observation(key(2), 1000, "log", 1, 8.0, 12.0),
        Observation(key(3), 2000, "log", 2),
    ]
    journal.keep_seen([], seen, 4.0)
    journal.tell("reloaded", "asked by uid 0", 5.0)
    journal.end(key(1), 6.0, "{}")
    assert said(journal) == [
        ("registered", 1000, "job-1, log train.log"),
        ("registered", 1000, "job-2"),
        ("planned", 1000, "gain 0.5"),
        ("observed", 1000, "1 points, step 8, loss 12"),
        ("observed", 2000, "2 points"),
        ("reloaded", None, "asked by uid 0"),
        ("ended", 1000, ""),
    ]


def test_the_exit_status_is_told_even_where_it_is_a_success(journal: Journal) -> None:
    journal.register(registration(1))
    journal.keep_exit_status(key(1), 0)
    journal.end(key(1), 200.0, "{}")
    assert said(journal, since=200.0) == [("ended", 1000, "exit status 0")]


def test_at_most_a_thousand_events_are_told_unless_more_are_asked_for(journal: Journal) -> None:
    changes = [Change(key(number), 1000, 1, "gain") for number in range(1_005)]
    journal.keep_seen(changes, [], 1.0)
    assert [one.job for one in journal.past(Ask())] == [str(number) for number in range(5, 1_005)]
    assert len(journal.past(Ask(most=2_000))) == 1_005


def test_the_moment_that_is_asked_for_is_among_what_is_told(journal: Journal) -> None:
    for at in (1.0, 2.0, 3.0):
        journal.tell("paused", "", at)
    assert [one.at for one in journal.past(Ask(since=2.0))] == [2.0, 3.0]


def test_an_observation_of_another_version_is_no_event(journal: Journal) -> None:
    journal.keep_seen([], [Observation(key(1), 1000, "log", 9)], 1.0)
    journal._db.execute("""UPDATE observations SET value = '{"points": "many"}'""")
    assert journal.past(Ask()) == []


def test_a_journal_that_isnt_there_is_not_made_by_looking(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with pytest.raises(
        StateError, match=r"journal\.sqlite: the journal can't be read: No such file or directory"
    ):
        read_past(path, Ask())
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_journal_is_told_in_sqlites_words(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"my thesis " * 1000)
    with pytest.raises(StateError, match="the journal can't be read: file is not a database"):
        read_past(path, Ask())


def test_a_registration_that_cant_be_read_is_told(journal: Journal) -> None:
    journal.register(registration(1))
    journal._db.execute("UPDATE jobs SET registration = json_set('{}', '$.owner.uid', 1000)")
    with pytest.raises(StateError, match="the journal can't be read: Object missing required field"):
        read_past(journal.path, Ask())


def test_a_running_daemons_journal_is_read_as_far_as_it_is_written(journal: Journal) -> None:
    journal.tell("paused", "asked by uid 0", 5.0)
    with sqlite3.connect(journal.path) as beside:
        assert beside.execute("SELECT count(*) FROM events").fetchone() == (1,)
    beside.close()
    assert [one.what for one in read_past(journal.path, Ask())] == ["paused"]


def test_a_journal_that_was_closed_is_read_without_a_file_beside_it(journal: Journal) -> None:
    journal.tell("paused", "", 5.0)
    journal.close()
    before = journal.path.parent.stat().st_mtime_ns
    assert [one.what for one in read_past(journal.path, Ask())] == ["paused"]
    assert journal.path.parent.stat().st_mtime_ns == before, "something was made there, if only for a while"


def test_what_a_kill_left_in_the_log_is_read_and_left_there(journal: Journal, tmp_path: Path) -> None:
    journal.tell("paused", "", 5.0)
    left = tmp_path / "left"
    left.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{journal.path}{end}", left / f"journal.sqlite{end}")
    before = {end: Path(f"{left / 'journal.sqlite'}{end}").read_bytes() for end in ("", "-wal")}
    assert [one.what for one in read_past(left / "journal.sqlite", Ask())] == ["paused"]
    assert {end: Path(f"{left / 'journal.sqlite'}{end}").read_bytes() for end in ("", "-wal")} == before


def test_only_those_that_may_start_are_waiting_no_more(journal: Journal) -> None:
    for number in (1, 2):
        journal.register(registration(number, waits=True))
    journal.let_start([key(2)])
    assert [(each.key, each.waits) for each in journal.registrations()] == [(key(1), True), (key(2), False)]


def test_plans_acts_and_events_are_told_with_all_that_is_known_of_them(journal: Journal) -> None:
    journal.keep_seen([Change(key(1), 1000, 3, "gain 0.5")], [], 1.0)
    acts = [SetUnits("a", key(1), "one", 3, "gain"), SetUnits("b", key(2), "one", 2, "share")]
    journal.intend(acts, {key(1): 5}, 2.0, {key(1): 1000})
    journal.record([("a", Accepted())], 3.0)
    journal.tell("paused", "asked by uid 2000", 4.0, job="7", uid=2000)
    assert journal.past(Ask()) == [
        EventView(1.0, "planned", "1", 1000, units=3, why="gain 0.5"),
        EventView(2.0, "SetUnits", "1", 1000, 5, 3, "gain", "Accepted", ""),
        EventView(2.0, "SetUnits", "2", None, None, 2, "share", "no answer", ""),
        EventView(4.0, "paused", "7", 2000, why="asked by uid 2000"),
    ]
