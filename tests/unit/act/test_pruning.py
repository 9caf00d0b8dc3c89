"""Who loses rows where the journal is full: whoever has the most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from modelled import key, registration

from slaqd.act import Journal
from slaqd.act.past import Ask
from slaqd.act.pruning import Limits, even_share
from slaqd.act.records import Change, Observation
from slaqd.types import Owner, SetUnits

FEW = Limits(actions=50, plans=40, events=30, ended=20, observations=10)
ALICE, MALLORY = 1000, 1001
DAY = 86_400.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite", FEW)
    yield made
    made.close()


def do(journal: Journal, uid: int, number: int, now: float) -> None:
    """Do one of everything in a user's name."""
    journal.intend([SetUnits(f"{number}", key(number), "one", 3, "gain")], {}, now, {key(number): uid})
    journal.keep_seen(
        [Change(key(number), uid, 3, "gain", 0.1)], [Observation(key(f"o{number}"), uid, "log")], now
    )
    journal.tell("paused", "asked", now, job=str(number), uid=uid)
    journal.register(msgspec.structs.replace(registration(number), owner=Owner(uid, f"u{uid}")))
    journal.end(key(number), now, "{}")


def rows_of(journal: Journal, uid: int | None) -> dict[str, int]:
    tables = ("actions", "plans", "events", "observations")
    found = {
        table: journal._db.execute(f"SELECT count(*) FROM {table} WHERE uid IS ?", (uid,)).fetchone()[0]  # noqa: S608 - our own tables
        for table in tables
    }
    return found | {"ended": Counter(row.registration.owner.uid for row in journal.ended(0.0))[uid]}


def test_whatever_one_user_does_anothers_history_stays_whole(journal: Journal) -> None:
    for number in range(5):
        do(journal, ALICE, number, 1000.0)
    for number in range(100, 400):
        do(journal, MALLORY, number, 2000.0 + number)
    assert set(rows_of(journal, ALICE).values()) == {5}
    assert [one.id for one in journal.actions()][:5] == [str(number) for number in range(5)]
    limits = {"actions": 50, "plans": 40, "events": 30, "observations": 10, "ended": 20}
    assert rows_of(journal, MALLORY) == {name: most - 5 for name, most in limits.items()}


def test_what_slaqd_itself_did_is_not_pushed_out_by_a_user(journal: Journal) -> None:
    journal.begin_run(1000.0)
    for number in range(100, 200):
        do(journal, MALLORY, number, 2000.0)
    assert rows_of(journal, None)["events"] == 1


def test_of_ones_own_the_oldest_go_first(journal: Journal) -> None:
    for number in range(100, 200):
        do(journal, MALLORY, number, 2000.0 + number)
    assert [one.id for one in journal.actions()] == [str(number) for number in range(150, 200)]
    assert [row.registration.key for row in journal.ended(0.0)] == [key(number) for number in range(180, 200)]


def test_each_of_very_many_users_keeps_the_newest(journal: Journal) -> None:
    for number in range(120):
        do(journal, 2000 + number % 60, number, 1000.0 + number)
    assert {one.id for one in journal.actions()} == {str(number) for number in range(60, 120)}


@given(st.dictionaries(st.none() | st.integers(0, 50), st.integers(1, 300), min_size=1), st.integers(1, 2000))
def test_a_share_keeps_as_many_as_may_be_and_takes_from_nobody_who_has_less(
    counts: dict[int | None, int], most: int
) -> None:
    share = even_share(counts, most)
    kept = sum(min(count, share) for count in counts.values())
    assert kept <= max(most, len(counts))
    one_more = sum(min(count, share + 1) for count in counts.values())
    assert kept == sum(counts.values()) or one_more > most


def test_rows_of_a_clock_that_was_ahead_keep_no_old_ones_from_going(journal: Journal) -> None:
    for number in range(3):
        journal.tell("paused", f"ahead {number}", 400 * DAY)
    for number in range(20):
        journal.tell("paused", f"old {number}", 0.0)
    for _ in range(12):
        journal.tell("paused", "new", 31 * DAY)
    assert {event.why for event in journal.past(Ask())} == {"new"}
