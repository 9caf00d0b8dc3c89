"""What a job's row in the snapshot lets the planner do."""

from __future__ import annotations

from typing import Any

import pytest

from slaqd.adapter import Capabilities, LeverSpec
from slaqd.allocate.ask import Ask, ask, untouchable
from slaqd.types import Job, JobKey, Lever, Owner, Sizes, State, Tag

CAPABILITIES = Capabilities({Lever.CPUS: LeverSpec(), Lever.REQUEUE: LeverSpec(pause_s=3.0)}, 0.0, 1.0)


def job_of(**more: Any) -> Job:
    given = {
        "key": JobKey("t", "1", 0),
        "name": "job",
        "owner": Owner(1000, "someone"),
        "state": State.RUNNING,
        "pool": "all",
        "tag": Tag(),
        "lever": Lever.CPUS,
        "unit": {"cpu_milli": 1000},
        "sizes": Sizes(min=2, max=8),
        "held": 4,
    }
    return Job(**{**given, **more})


def ask_of(**more: Any) -> Ask:
    return ask(0, job_of(**more), CAPABILITIES, known=True)


@pytest.mark.parametrize(
    ("more", "bounds", "words"),
    [
        ({}, (2, 8), "at its maximum"),
        ({"wants": 5}, (2, 5), "has all that it wants"),
        ({"wants": 1}, (2, 2), "has all that it wants"),
        ({"wants": 20}, (2, 8), "at its maximum"),
        ({"cannot_grow": "no room on its node"}, (2, 4), "can't grow: no room on its node"),
        ({"cannot_shrink": "its ranks are fixed"}, (4, 8), "at its maximum"),
        ({"cannot_grow": "a", "cannot_shrink": "b"}, (4, 4), "can't grow: a"),
        ({"held": 1, "cannot_grow": "a"}, (1, 1), "can't grow: a"),
        ({"held": 12, "cannot_shrink": "b"}, (12, 12), "at its maximum"),
        ({"sizes": Sizes(min=3, max=9, allowed=(2, 4, 8, 16))}, (4, 9), "at its maximum"),
        ({"sizes": Sizes(min=0, max=0)}, (1, 1), "at its maximum"),
        ({"state": State.WAITING, "held": 0, "cannot_grow": "a"}, (2, 8), "at its maximum"),
    ],
)
def test_bounds_hold_what_can_not_be_changed_now(
    more: dict[str, Any], bounds: tuple[int, int], words: str
) -> None:
    one = ask_of(**more)
    assert (one.min, one.max) == bounds
    assert one.top == words


def test_sizes_rise_by_the_grain_from_the_minimum() -> None:
    one = ask_of(sizes=Sizes(min=2, max=9, grain=3))
    assert one.ladder(2, 10) == [5, 8]
    assert one.next(8) is None
    assert [one.below(size) for size in (0, 2, 7, 8, 100)] == [2, 2, 5, 8, 8]


def test_allowed_sizes_are_the_only_ones() -> None:
    one = ask_of(sizes=Sizes(min=1, max=16, allowed=(1, 2, 4, 8, 16)))
    assert one.ladder(2, 2) == [4, 8]
    assert one.ladder(16, 2) == []
    assert [one.below(size) for size in (0, 3, 9)] == [1, 2, 8]


def test_what_is_held_is_possible_whatever_its_grain() -> None:
    one = ask_of(sizes=Sizes(min=2, max=9, grain=3), held=4)
    assert one.below(4) == 4


@pytest.mark.parametrize(("weight", "counts"), [(None, 1.0), (2.5, 2.5), (0.0, 1.0), (-1.0, 1.0)])
def test_the_weight_is_the_tags(weight: float | None, counts: float) -> None:
    assert ask_of(tag=Tag(weight=weight)).weight == counts


def test_a_pause_makes_a_change_cost_but_not_the_start() -> None:
    assert ask_of().movable
    assert not ask_of(lever=Lever.REQUEUE).movable
    assert ask_of(lever=Lever.REQUEUE, state=State.WAITING, held=0).movable


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"state": State.ENDED}, "it has ended"),
        ({"gap": "its row is cut"}, "left as it is: its row is cut"),
        ({"lever": Lever.NONE}, "advised only: it has no lever"),
        ({"lever": Lever.QUEUE}, "advised only: lever queue is not to be had here"),
        ({"pool": "gone"}, "left as it is: nothing is known of the pool 'gone'"),
    ],
)
def test_jobs_that_can_not_be_planned_are_told_why(more: dict[str, Any], words: str) -> None:
    assert untouchable(job_of(**more), CAPABILITIES, {"all": {}}) == words


def test_other_jobs_can_be_planned() -> None:
    assert untouchable(job_of(), CAPABILITIES, {"all": {}}) is None
