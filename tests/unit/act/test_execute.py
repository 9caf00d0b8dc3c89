"""Write down, act, write down what came back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from modelled import key, registration, snapshot

from slaqd.act import Done, Journal, execute, refusals, stale
from slaqd.act.past import Ask
from slaqd.errors import AdapterRefused, AdapterUnavailable, StateError
from slaqd.testing import FakeAdapter, FakeConfig, ManualClock
from slaqd.types import Accepted, Action, Adopt, Outcome, Refused, SetUnits, Unknown


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    for number in (1, 2):
        made.register(registration(number))
    yield made
    made.close()


def acts() -> list[Action]:
    return [Adopt(id=f"1.1-{n}", key=key(n), incarnation="fake-1", units=n, why="share") for n in (1, 2)]


class Stub:
    """Answers as it is told, after it has looked into the journal."""

    def __init__(self, journal: Journal, answer: Any) -> None:
        self.journal, self.answer = journal, answer
        self.journalled: list[tuple[str, str | None]] = []
        self.asked = 0

    def apply(self, _actions: Sequence[Action], _deadline: float) -> Sequence[Outcome]:
        self.asked += 1
        self.journalled = [(row.id, row.outcome) for row in self.journal.actions()]
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


def done(journal: Journal, adapter: Any, actions: Sequence[Action]) -> list[Outcome]:
    return [item.outcome for item in execute(adapter, journal, ManualClock(), actions, {}, {}, 2000.0)]


def outcomes(journal: Journal) -> list[str | None]:
    return [row.outcome for row in journal.actions()]


def test_intents_are_on_disk_before_anything_is_asked(journal: Journal) -> None:
    stub = Stub(journal, [Accepted(), Accepted()])
    assert done(journal, stub, acts()) == [Accepted(), Accepted()]
    assert stub.journalled == [("1.1-1", None), ("1.1-2", None)]
    assert outcomes(journal) == ["Accepted", "Accepted"]


def test_no_action_asks_nobody(journal: Journal) -> None:
    stub = Stub(journal, [])
    assert done(journal, stub, []) == []
    assert stub.asked == 0


@pytest.mark.parametrize(
    "error", [AdapterUnavailable("silence"), AdapterRefused("never"), StateError("full")]
)
def test_an_adapter_that_fails_leaves_every_outcome_unknown(journal: Journal, error: Exception) -> None:
    assert done(journal, Stub(journal, error), acts()) == [Unknown(str(error))] * 2
    assert outcomes(journal) == ["Unknown", "Unknown"]


def test_answers_that_are_missing_are_unknown(journal: Journal) -> None:
    got = done(journal, Stub(journal, [Accepted()]), acts())
    assert got == [Accepted(), Unknown("the adapter gave no answer")]


def test_answers_too_many_are_dropped(journal: Journal) -> None:
    assert done(journal, Stub(journal, [Accepted()] * 5), acts()) == [Accepted()] * 2


def test_one_refusal_stands_by_itself(journal: Journal) -> None:
    assert done(journal, Stub(journal, [Refused("no"), Accepted()]), acts()) == [Refused("no"), Accepted()]
    assert outcomes(journal) == ["Refused", "Accepted"]


def test_nothing_is_asked_when_the_intent_cant_be_written(journal: Journal) -> None:
    stub = Stub(journal, [Accepted()])
    impossible = [SetUnits(id="x", key=key(1), incarnation="one", units=2**70)]
    with pytest.raises(StateError):
        done(journal, stub, impossible)
    assert stub.asked == 0


def test_what_was_done_is_told_even_if_the_outcome_cant_be_written(journal: Journal) -> None:
    class Closing(Stub):
        def apply(self, actions: Sequence[Action], deadline: float) -> Sequence[Outcome]:
            given = super().apply(actions, deadline)
            self.journal._db.execute("PRAGMA query_only = ON")  # as a disk that has just filled up
            return given

    assert done(journal, Closing(journal, [Accepted()] * 2), acts()) == [Accepted()] * 2
    assert outcomes(journal) == [None, None]


def test_with_the_fake_manager_units_are_held(journal: Journal) -> None:
    clock = ManualClock()
    adapter = FakeAdapter(FakeConfig(), clock, journal)
    execute(adapter, journal, clock, acts(), {}, {}, clock.monotonic() + 1)
    assert adapter.manager.held == {key(1): 1, key(2): 2}


@pytest.mark.parametrize(
    ("age", "cycle_s", "said"),
    [
        (0.0, 3.0, ""),
        (6.0, 3.0, ""),
        (6.1, 3.0, "the snapshot is 6.1 s old, more than two cycles (6 s)"),
        (2.0, 0.1, ""),
        (2.1, 0.1, "the snapshot is 2.1 s old, more than two cycles (2 s)"),
        (-0.1, 3.0, "the snapshot is of no time that has been: the adapter's clock is wrong"),
        (float("nan"), 3.0, "the snapshot is of no time that has been: the adapter's clock is wrong"),
    ],
)
def test_a_snapshot_older_than_two_cycles_or_of_no_time_is_called_so(
    age: float, cycle_s: float, said: str
) -> None:
    seen = snapshot()
    assert stale(seen, seen.taken_at + age, cycle_s) == said


def test_where_the_bar_gives_a_reason_nothing_is_asked_and_all_may_be_tried_again(journal: Journal) -> None:
    clock = ManualClock()
    adapter = FakeAdapter(FakeConfig(), clock, journal)
    done = execute(adapter, journal, clock, acts(), {}, {}, 2000.0, bar=lambda: "the file stop is there")
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

    done = execute(FakeAdapter(FakeConfig(), clock, journal), journal, clock, acts(), {}, {}, 2000.0, bar)
    assert seen == [2]
    assert [each.outcome for each in done] == [Accepted()] * 2


def test_the_journal_holds_whose_the_job_is_what_it_had_and_when_the_answer_came(journal: Journal) -> None:
    clock = ManualClock()
    adapter = FakeAdapter(FakeConfig(), clock, journal)
    execute(adapter, journal, clock, acts(), {key(1): 7}, {key(1): 1000, key(2): 2000}, 2000.0)
    asked = [one for one in journal.past(Ask()) if one.what == "Adopt"]
    assert [(one.job, one.uid, one.before, one.units) for one in asked] == [
        ("1", 1000, 7, 1),
        ("2", 2000, None, 2),
    ]
    assert [(row.intended, row.answered) for row in journal.actions()] == [(clock.wall(), clock.wall())] * 2


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Accepted(), []),
        (Refused("not yours", retry=False), ["job 1: not yours"]),
        (Refused("", retry=False), ["job 1: "]),
        (Unknown("timed out"), ["job 1: timed out"]),
        (Unknown(""), []),
    ],
)
def test_what_went_wrong_is_said_with_its_job(outcome: Outcome, said: list[str]) -> None:
    first, second = acts()
    assert refusals([Done(first, outcome), Done(second, Accepted())]) == said
