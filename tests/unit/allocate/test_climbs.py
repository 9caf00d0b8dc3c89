"""The greedy and the fill by themselves, without the steps around them that make up for their slips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slaqd.adapter import LeverSpec
from slaqd.allocate import POLICIES
from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Room, start
from slaqd.allocate.greedy import greedy
from slaqd.types import JobKey, Resources

CPU = {"cpu_milli": 1000}
TWO = {"cpu_milli": 2000}
COSTLY = LeverSpec(pause_s=3.0, loses_work=True)


class Slopes:
    """Falls of ``slope * (1 - 0.99^n)`` for each job."""

    def __init__(self, *slopes: float, known: bool = True) -> None:
        self.slopes = np.array(slopes)
        self.known = np.full(len(slopes), known)
        self.reason = ("",) * len(slopes)

    def fall(self, jobs: Any, units: Any) -> Any:
        return self.slopes[np.asarray(jobs)] * (1.0 - 0.99 ** np.asarray(units))


def ask_of(index: int, low: int = 1, high: int = 100, *, unit: Resources = CPU, **more: Any) -> Ask:
    return Ask(index, JobKey("t", str(index), 0), low, high, unit, **{"known": True, **more})


def climbed(asks: Sequence[Ask], falls: Slopes, room: Resources) -> list[int]:
    rest = Room(room)
    units = start(asks, rest)
    greedy(asks, falls, units, rest, [True] * len(asks))
    assert rest.holds()
    return units


def step_by_step(asks: Sequence[Ask], falls: Slopes, room: Resources) -> list[int]:
    """Do what the greedy promises in the plainest way: price every next step anew."""
    rest = Room(room)
    units = start(asks, rest)
    while True:
        steps = []
        for at, one in enumerate(asks):
            up = one.next(units[at])
            if up is not None and rest.fits(rest.cost(one.unit), up - units[at]):
                fall = falls.fall(at, up) - falls.fall(at, units[at])
                steps.append((one.weight * fall / ((up - units[at]) * rest.share(one.unit)), -at, up))
        if not steps:
            return units
        _, back, up = max(steps)
        rest.take(rest.cost(asks[-back].unit), up - units[-back])
        units[-back] = up


def test_a_long_climb_ends_where_pricing_each_step_anew_would() -> None:
    asks = [
        ask_of(0, high=400, unit=TWO), ask_of(1, high=301, grain=3), ask_of(2, high=400, weight=1.7),
        ask_of(3, high=256, allowed=(1, 2, 4, 8, 16, 32, 64, 128, 256)),
    ]  # fmt: skip
    falls = Slopes(3.0, 1.3, 0.9, 1.1)
    room = {"cpu_milli": 500_000}
    assert climbed(asks, falls, room) == step_by_step(asks, falls, room)


def test_units_that_bring_nothing_are_left() -> None:
    assert climbed([ask_of(0), ask_of(1)], Slopes(0.0, 0.0), {"cpu_milli": 10_000}) == [1, 1]


def test_a_step_too_large_for_the_room_keeps_no_smaller_one_out() -> None:
    asks = [ask_of(0, grain=5), ask_of(1)]
    assert climbed(asks, Slopes(100.0, 1.0), {"cpu_milli": 5_000}) == [1, 4]


def test_a_resource_that_the_pool_does_not_count_limits_no_climb() -> None:
    assert climbed([ask_of(0, high=30, unit={"gpu": 1})], Slopes(1.0), {"cpu_milli": 1}) == [30]


def test_fair_levels_shares_of_the_pool_and_not_units() -> None:
    asks = [ask_of(0, unit=TWO), ask_of(1)]
    assert POLICIES["fair"].split(asks, Slopes(0.0, 0.0), {"cpu_milli": 12_000}) == [3, 6]


def test_a_young_job_keeps_what_it_holds_only_as_far_as_there_is_room() -> None:
    asks = [ask_of(0, known=False, held=6, lever=COSTLY), ask_of(1, low=5)]
    assert POLICIES["slaq"].split(asks, Slopes(0.0, 1.0), {"cpu_milli": 8_000}) == [3, 5]


def test_a_young_job_keeps_what_it_holds_of_what_the_pool_does_not_count() -> None:
    asks = [ask_of(0, known=False, held=3, lever=COSTLY, unit={"gpu": 1}), ask_of(1)]
    assert POLICIES["slaq"].split(asks, Slopes(0.0, 1.0), {"cpu_milli": 2_000}) == [3, 2]
