"""What is asked last of all before an act, and what stands in the journal beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from modelled import key, registration

from slaqd.act import Journal, execute
from slaqd.act.past import Ask
from slaqd.testing import FakeAdapter, FakeConfig, ManualClock
from slaqd.types import Accepted, Action, Adopt, Refused


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    for number in (1, 2):
        made.register(registration(number))
    yield made
    made.close()


def acts() -> list[Action]:
    return [Adopt(id=f"1.1-{n}", key=key(n), incarnation="fake-1", units=n, why="share") for n in (1, 2)]


def test_where_the_bar_gives_a_reason_nothing_is_asked_and_all_may_be_tried_again(journal: Journal) -> None:
    clock = ManualClock()
    adapter = FakeAdapter(FakeConfig(), clock, journal)
    done = execute(adapter, journal, clock, acts(), {}, 2000.0, bar=lambda: "the file stop is there")
    assert [each.outcome for each in done] == [Refused("the file stop is there", retry=True)] * 2
    assert adapter.manager.held == {}
    assert [(row.outcome, row.outcome_why) for row in journal.actions()] == [
        ("Refused", "the file stop is there")
    ] * 2


def test_the_bar_is_looked_at_when_the_intents_are_on_disk(journal: Journal) -> None:
    clock = ManualClock()
    seen: list[int] = []

    def bar() -> str:
        seen.append(len(list(journal.actions())))
        return ""

    done = execute(FakeAdapter(FakeConfig(), clock, journal), journal, clock, acts(), {}, 2000.0, bar)
    assert seen == [2]
    assert [each.outcome for each in done] == [Accepted()] * 2


def test_the_journal_holds_whose_the_job_is_what_it_had_and_when_the_answer_came(journal: Journal) -> None:
    clock = ManualClock()
    adapter = FakeAdapter(FakeConfig(), clock, journal)
    execute(adapter, journal, clock, acts(), {key(1): 7}, 2000.0, uids={key(1): 1000, key(2): 2000})
    asked = [one for one in journal.past(Ask()) if one.what == "Adopt"]
    assert [(one.job, one.uid, one.before, one.units) for one in asked] == [
        ("1", 1000, 7, 1),
        ("2", 2000, None, 2),
    ]
    assert [(row.intended, row.answered) for row in journal.actions()] == [(clock.wall(), clock.wall())] * 2
