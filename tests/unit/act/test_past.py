"""The journal read back as a story: in order, bounded, and to each user their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from modelled import key, registration

from slaqd.act import Journal
from slaqd.act.past import Ask, past, read_past
from slaqd.act.records import Change, Observation
from slaqd.errors import StateError
from slaqd.types import Accepted, Admit, Owner, Refused, SetUnits

EVE = Owner(uid=2000, name="eve")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """Make a journal of two users' jobs: 1 is Ada's and ended, 2 is Eve's."""
    made = Journal(tmp_path / "journal.sqlite")
    made.begin_run(10.0)
    made.register(registration(1, submitted=11.0))
    made.register(msgspec.structs.replace(registration(2, submitted=12.0), owner=EVE))
    uids = {key(1): 1000, key(2): 2000}
    made.keep_seen([Change(key(1), 1000, 3, "gain"), Change(key(2), 2000, 2, "fair share")], [], 13.0)
    acts = [Admit("a", key(1), "one", 3, "gain"), SetUnits("b", key(2), "one", 2, "fair share")]
    made.intend(acts, {key(2): 5}, 14.0, uids)
    made.record([("a", Accepted())], 15.0)
    made.record([("b", Refused("too small"))], 15.0)
    made.intend([SetUnits("c", key(2), "one", 1, "gain")], {key(2): 5}, 16.0, uids)
    seen = [Observation(key(1), 1000, "log", 9, 8.0, 0.5), Observation(key(2), 2000, "log")]
    made.keep_seen([], seen, 17.0)
    made.tell("paused", "asked by uid 0", 18.0, job="2", uid=2000)
    made.keep_exit_status(key(1), 3)
    yield made
    made.close()


def told(journal: Journal, **ask: object) -> list[tuple[float, str, str]]:
    return [(one.at, one.what, one.job) for one in journal.past(Ask(**ask))]  # type: ignore[arg-type]


def test_everything_stands_there_in_order(journal: Journal) -> None:
    assert told(journal) == [
        (10.0, "started", ""),
        (11.0, "registered", "1"),
        (12.0, "registered", "2"),
        (13.0, "planned", "1"),
        (13.0, "planned", "2"),
        (14.0, "Admit", "1"),
        (14.0, "SetUnits", "2"),
        (16.0, "SetUnits", "2"),
        (17.0, "observed", "1"),
        (17.0, "observed", "2"),
        (18.0, "paused", "2"),
    ]
    journal.end(key(1), 19.0, "{}")
    ended = journal.past(Ask(job="1"))[-1]
    assert (ended.what, ended.at, ended.why) == ("ended", 19.0, "exit status 3")


def test_an_act_stands_there_with_what_came_of_it(journal: Journal) -> None:
    acts = {one.at: one for one in journal.past(Ask(job="2")) if one.what == "SetUnits"}
    first, second = acts[14.0], acts[16.0]
    assert (first.before, first.units, first.outcome, first.outcome_why) == (5, 2, "Refused", "too small")
    assert (second.units, second.outcome) == (1, "no answer")


def test_a_user_is_told_of_own_jobs_alone(journal: Journal) -> None:
    assert {job for _at, _what, job in told(journal, uid=1000)} == {"1"}
    assert {job for _at, _what, job in told(journal, uid=2000)} == {"2"}
    assert told(journal, uid=2000)[-1] == (18.0, "paused", "2")
    assert told(journal, uid=1000, job="2") == []
    assert told(journal, uid=3000) == []


def test_the_newest_are_told_where_there_are_too_many(journal: Journal) -> None:
    assert told(journal, most=3) == told(journal)[-3:]
    assert told(journal, since=16.5) == told(journal)[-3:]


def test_reading_the_file_gives_the_same_and_changes_nothing(journal: Journal) -> None:
    expected = list(journal.past(Ask()))
    assert read_past(journal.path, Ask()) == expected
    journal.close()
    before = journal.path.read_bytes()
    assert read_past(journal.path, Ask()) == expected
    assert journal.path.read_bytes() == before
    assert [each.name for each in journal.path.parent.iterdir()] == [journal.path.name]


def test_a_journal_of_another_schema_is_not_guessed_at(journal: Journal) -> None:
    journal._db.execute("PRAGMA user_version = 1")
    with pytest.raises(StateError, match="its schema is 1, this slaqctl reads 3: start this slaqd once"):
        read_past(journal.path, Ask())
    journal._db.execute("PRAGMA user_version = 9")
    with pytest.raises(StateError, match=r"its schema is 9, .* ask by the slaqctl of the slaqd that"):
        read_past(journal.path, Ask())


@pytest.mark.parametrize("job", [None, "1"])
def test_a_users_history_never_reads_through_what_is_others(journal: Journal, job: str | None) -> None:
    asked: list[str] = []
    with closing(sqlite3.connect(journal.path)) as db:
        db.set_trace_callback(asked.append)
        past(db, Ask(uid=3000, job=job))
        db.set_trace_callback(None)
        plans = [row[3] for each in asked for row in db.execute(f"EXPLAIN QUERY PLAN {each}")]
    assert len(asked) == 6
    assert len(plans) == 6  # no step of its own for sorting, either
    assert [plan for plan in plans if "USING INDEX" not in plan or "SCAN" in plan] == []


def test_a_history_is_read_while_the_journal_is_being_written(journal: Journal) -> None:
    with journal._writing() as db:
        db.execute("INSERT INTO events (at, what, why) VALUES (19.0, 'stopped', '')")
        assert told(journal)[-1] == (18.0, "paused", "2")
    assert told(journal)[-1] == (19.0, "stopped", "")
