"""Which sizes a job can have, at the ends of its bounds and between them."""

from __future__ import annotations

from typing import Any

import pytest

from slaqd.adapter import Capabilities, LeverSpec
from slaqd.allocate.ask import Ask, ask
from slaqd.types import Job, JobKey, Lever, Owner, Sizes, State, Tag

CAPABILITIES = Capabilities({Lever.CPUS: LeverSpec()}, 0.0, 1.0)
KEY = JobKey("t", "1", 0)


def ask_of(**more: Any) -> Ask:
    given = {
        "key": KEY, "name": "job", "owner": Owner(1000, "someone"), "state": State.RUNNING, "pool": "all",
        "tag": Tag(), "lever": Lever.CPUS, "unit": {"cpu_milli": 1000}, "sizes": Sizes(min=2, max=8),
        "held": 4,
    }  # fmt: skip
    return ask(0, Job(**{**given, **more}), CAPABILITIES, known=True)


def sized(low: int, high: int, **more: Any) -> Ask:
    return Ask(0, KEY, low, high, {"cpu_milli": 1000}, **more)


def test_an_ask_is_that_of_its_job() -> None:
    assert ask_of().key == KEY


@pytest.mark.parametrize("more", [{"wants": 8}, {"cannot_grow": "full", "held": 8}])
def test_a_bound_that_stops_nothing_earlier_is_not_named_as_what_stops_it(more: dict[str, Any]) -> None:
    one = ask_of(**more)
    assert (one.min, one.max, one.top) == (2, 8, "at its maximum")


def test_the_largest_allowed_size_is_the_maximum_where_the_bounds_would_let_more() -> None:
    one = ask_of(sizes=Sizes(min=1, max=16, allowed=(1, 2, 4)))
    assert (one.min, one.max) == (1, 4)


def test_allowed_sizes_that_are_all_below_the_minimum_count_as_they_are() -> None:
    one = ask_of(sizes=Sizes(min=3, max=8, allowed=(1, 2)))
    assert (one.min, one.max) == (1, 2)


def test_a_weight_below_one_counts_less() -> None:
    assert ask_of(tag=Tag(weight=0.5)).weight == 0.5


def test_no_allowed_size_below_the_minimum_is_a_step_up() -> None:
    one = sized(4, 8, allowed=(1, 3, 4, 5, 8))
    assert one.ladder(0, 9) == [4, 5, 8]
    assert one.ladder(0, 2) == [4, 5]


def test_a_ladder_has_as_many_steps_as_were_asked_for() -> None:
    one = sized(2, 100, grain=3)
    assert one.ladder(2, 1) == [5]
    assert one.ladder(2, 3) == [5, 8, 11]
