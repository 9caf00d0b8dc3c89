"""Splits of one room among a few jobs, checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slaqd.adapter import LeverSpec
from slaqd.allocate import POLICIES
from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Room
from slaqd.allocate.guard import clamp
from slaqd.types import JobKey

CPU = {"cpu_milli": 1000}
COSTLY = LeverSpec(pause_s=3.0, loses_work=True)


class Slopes:
    """Falls of ``slope * (1 - ratio^n)`` for each job; counts how often it is asked."""

    def __init__(self, *slopes: float, ratio: float = 0.9, known: tuple[bool, ...] | None = None) -> None:
        self.slopes = np.array(slopes)
        self.ratio = ratio
        self.known = np.array(known if known is not None else [True] * len(slopes))
        self.reason = tuple("" if flag else "only 2 iterations logged" for flag in self.known)
        self.calls = 0

    def fall(self, jobs: Any, units: Any) -> Any:
        self.calls += 1
        return self.slopes[np.asarray(jobs)] * (1.0 - self.ratio ** np.asarray(units))


def ask_of(index: int, low: int = 1, high: int = 100, **more: Any) -> Ask:
    unit = more.pop("unit", CPU)
    return Ask(index, JobKey("t", str(index), 0), low, high, unit, **{"known": True, **more})


def split(policy: str, asks: list[Ask], falls: Slopes, units: int) -> list[int]:
    return POLICIES[policy].split(asks, falls, {"cpu_milli": units * 1000})


def test_the_job_that_learns_gets_the_rest() -> None:
    assert split("slaq", [ask_of(0), ask_of(1)], Slopes(1.0, 1e-9), 10) == [9, 1]


def test_equal_jobs_share_equally_and_ties_go_to_the_earlier() -> None:
    assert split("slaq", [ask_of(0), ask_of(1)], Slopes(1.0, 1.0), 11) == [6, 5]


def test_weight_multiplies_the_fall() -> None:
    evenly = split("slaq", [ask_of(0), ask_of(1, weight=2.0)], Slopes(2.0, 1.0), 20)
    assert evenly == [10, 10]


def test_growth_stops_at_the_maximum() -> None:
    assert split("slaq", [ask_of(0, high=3), ask_of(1)], Slopes(1.0, 1e-3), 10) == [3, 7]


def test_sizes_are_those_allowed() -> None:
    asks = [ask_of(0, high=8, allowed=(1, 2, 4, 8)), ask_of(1, high=7, grain=3)]
    assert split("slaq", asks, Slopes(1.0, 0.5), 12) == [8, 4]


def test_a_larger_unit_has_to_bring_more() -> None:
    big = {"cpu_milli": 4000}
    asks = [ask_of(0, unit=big), ask_of(1)]
    assert split("slaq", asks, Slopes(1.0, 1.0, ratio=0.99), 16)[0] == 1


def test_the_scarcest_resource_counts() -> None:
    hungry = {"cpu_milli": 1000, "memory_mb": 4000}
    asks = [ask_of(0, unit=hungry), ask_of(1, unit={"cpu_milli": 1000, "memory_mb": 500})]
    units = POLICIES["slaq"].split(
        asks, Slopes(1.0, 1.0, ratio=0.99), {"cpu_milli": 16000, "memory_mb": 10000}
    )
    assert units == [1, 12]


def test_room_without_gain_is_still_handed_out_evenly() -> None:
    assert split("slaq", [ask_of(0), ask_of(1), ask_of(2)], Slopes(0.0, 0.0, 0.0), 12) == [4, 4, 4]


def test_room_without_gain_stays_with_those_who_would_pay_for_a_change() -> None:
    asks = [ask_of(0, held=6, lever=COSTLY), ask_of(1, held=2)]
    assert split("slaq", asks, Slopes(0.0, 0.0), 12) == [6, 6]


def test_a_job_too_young_gets_its_fair_share_where_a_change_is_free() -> None:
    falls = Slopes(0.0, 5.0, 5.0, known=(False, True, True))
    asks = [ask_of(0, known=False), ask_of(1), ask_of(2)]
    assert split("slaq", asks, falls, 12) == [4, 4, 4]


def test_a_job_too_young_keeps_what_it_holds_where_a_change_costs() -> None:
    falls = Slopes(0.0, 5.0, known=(False, True))
    assert split("slaq", [ask_of(0, known=False, held=2, lever=COSTLY), ask_of(1)], falls, 12) == [2, 10]


def test_a_job_that_starts_gets_its_fair_share_under_any_lever() -> None:
    falls = Slopes(0.0, 5.0, known=(False, True))
    assert split("slaq", [ask_of(0, known=False, waiting=True, lever=COSTLY), ask_of(1)], falls, 12) == [6, 6]


def test_the_forecast_is_asked_for_many_sizes_at_once() -> None:
    falls = Slopes(*np.linspace(0.5, 1.0, 50), ratio=0.999)
    units = split("slaq", [ask_of(at, high=2000) for at in range(50)], falls, 2000)
    assert sum(units) == 2000
    assert falls.calls < 400


@pytest.mark.parametrize(
    ("asks", "units", "expected"),
    [
        ([ask_of(0), ask_of(1), ask_of(2)], 10, [4, 3, 3]),
        ([ask_of(0, high=2), ask_of(1), ask_of(2)], 10, [2, 4, 4]),
        ([ask_of(0, low=6), ask_of(1), ask_of(2)], 10, [6, 2, 2]),
        ([ask_of(0, weight=2.0), ask_of(1)], 12, [8, 4]),
        ([ask_of(0, grain=4), ask_of(1)], 10, [5, 5]),
        ([ask_of(0, high=2), ask_of(1, high=3)], 10, [2, 3]),
        ([], 10, []),
    ],
)
def test_fair_shares_by_hand(asks: list[Ask], units: int, expected: list[int]) -> None:
    assert split("fair", asks, Slopes(*[0.0] * len(asks)), units) == expected


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_minimums_that_do_not_fit_are_all_that_is_given(policy: str) -> None:
    assert split(policy, [ask_of(0, low=4), ask_of(1, low=4)], Slopes(1.0, 1.0), 5) == [4, 4]


def test_the_guard_takes_from_the_largest() -> None:
    assert clamp([ask_of(0), ask_of(1)], [9, 4], {"cpu_milli": 10000}) == [6, 4]


def test_the_guard_never_takes_what_a_job_must_keep() -> None:
    asks = [ask_of(0, low=9, high=9), ask_of(1)]
    assert clamp(asks, [1, 4], {"cpu_milli": 10000}) == [9, 1]


def test_a_resource_that_the_pool_does_not_count_is_no_limit() -> None:
    room = Room({"cpu_milli": 4000})
    assert room.most(room.cost({"memory_mb": 1})) is None
    assert room.most(room.cost({"cpu_milli": 1000, "memory_mb": 1})) == 4


def test_room_beside_an_overhead_is_what_is_left_of_it() -> None:
    room = Room({"cpu_milli": 4000, "memory_mb": 100})
    unit, overhead = room.cost({"cpu_milli": 1000}), room.cost({"cpu_milli": 1500, "memory_mb": 50})
    assert room.most(unit, overhead) == 2
    assert room.most(unit, room.cost({"memory_mb": 200})) == 0
