"""What holds of every plan, whatever is asked and predicted."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from bounds import CAPABILITIES, OWNER, Table, check_plan
from hypothesis import given
from hypothesis import strategies as st

from slaqd.adapter import LeverSpec
from slaqd.allocate import POLICIES, make_plan
from slaqd.allocate.ask import Ask
from slaqd.allocate.guard import clamp
from slaqd.types import Job, JobKey, Lever, Sizes, Snapshot, State, Tag

FREE, COSTLY = LeverSpec(), LeverSpec(pause_s=3.0, loses_work=True)


@st.composite
def concave(draw: Any, jobs: int, most: int) -> Table:
    """Draw falls whose steps shrink, all different, as whole numbers for exact sums."""
    steps = draw(
        st.lists(st.lists(st.integers(0, 10**6), min_size=most, max_size=most), min_size=jobs, max_size=jobs)
    )
    return Table([[0, *np.cumsum(sorted(row, reverse=True))] for row in steps])


def ask_of(index: int, low: int, high: int, **more: Any) -> Ask:
    unit = more.pop("unit", {"cpu_milli": 1000})
    return Ask(index, JobKey("t", str(index), 0), low, high, unit, **{"known": True, **more})


@st.composite
def sizes_of(draw: Any) -> Sizes:
    low = draw(st.integers(1, 4))
    if draw(st.booleans()):
        allowed = tuple(sorted(draw(st.sets(st.integers(1, 16), min_size=1, max_size=4))))
        return Sizes(min=allowed[0], max=allowed[-1], allowed=allowed)
    return Sizes(min=low, max=low + draw(st.integers(0, 12)), grain=draw(st.integers(1, 3)))


@st.composite
def job_of(draw: Any, index: int) -> Job:
    sizes = draw(sizes_of())
    waiting = draw(st.integers(0, 4)) == 0
    maybe = st.none() | st.just("the reason")
    held = 0 if waiting else draw(st.integers(sizes.min, sizes.max))
    return Job(
        key=JobKey("t", str(index), 0),
        name=f"job{index}",
        owner=OWNER,
        state=State.WAITING if waiting else State.RUNNING,
        pool=draw(st.sampled_from(["a", "b"])),
        tag=Tag(weight=draw(st.sampled_from([None, 0.5, 2.0]))),
        lever=draw(st.sampled_from([Lever.CPUS, Lever.CPUS, Lever.REQUEUE, Lever.NONE, Lever.ARRAY])),
        unit=draw(st.sampled_from([{"cpu_milli": 1000}, {"cpu_milli": 500, "memory_mb": 1000}])),
        overhead=draw(st.sampled_from([{}, {"cpu_milli": 1000}])),
        sizes=sizes,
        held=held,
        submitted=draw(st.floats(0.0, 10.0)),
        wants=draw(st.none() | st.integers(1, 20)),
        cannot_grow=draw(maybe),
        cannot_shrink=draw(maybe),
        gap=draw(st.none() | st.none() | st.just("no row")),
    )


@st.composite
def cluster(draw: Any) -> tuple[Snapshot, Table]:
    count = draw(st.integers(0, 6))
    jobs = tuple(draw(job_of(index)) for index in range(count))
    pools = {
        name: {"cpu_milli": 1000 * draw(st.integers(0, 40)), "memory_mb": 1000 * draw(st.integers(0, 60))}
        for name in ("a", "b")
    }
    known = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    falls = draw(concave(count, 20)).falls if count else np.zeros((0, 21))
    return Snapshot(1.0, "x", pools, jobs), Table(falls, known)


@given(cluster(), st.sampled_from(sorted(POLICIES)))
def test_no_plan_breaks_a_bound_or_the_room(drawn: tuple[Snapshot, Table], policy: str) -> None:
    snapshot, table = drawn
    check_plan(snapshot, make_plan(snapshot, table, CAPABILITIES, policy))


@given(cluster(), st.sampled_from(sorted(POLICIES)))
def test_the_same_question_has_the_same_answer(drawn: tuple[Snapshot, Table], policy: str) -> None:
    snapshot, table = drawn
    assert make_plan(snapshot, table, CAPABILITIES, policy) == make_plan(
        snapshot, table, CAPABILITIES, policy
    )


@given(st.data())
def test_the_greedy_finds_the_best_split_of_concave_falls(data: Any) -> None:
    jobs, most = data.draw(st.integers(1, 3)), 5
    table = data.draw(concave(jobs, most))
    weights = data.draw(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=jobs, max_size=jobs))
    room = data.draw(st.integers(jobs, jobs * most))
    asks = [ask_of(at, 1, most, weight=weights[at]) for at in range(jobs)]

    def worth(units: Any) -> float:
        return sum(w * table.falls[at, n] for at, (w, n) in enumerate(zip(weights, units, strict=True)))

    units = POLICIES["slaq"].split(asks, table, {"cpu_milli": room * 1000})
    splits = [u for u in product(range(1, most + 1), repeat=jobs) if sum(u) <= room]
    assert sum(units) == min(room, jobs * most)
    assert worth(units) == pytest.approx(max(map(worth, splits)), rel=1e-12)


@st.composite
def bounds_and_room(draw: Any) -> tuple[list[tuple[int, int]], int]:
    lows = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    bounds = [(low, low + draw(st.integers(0, 4))) for low in lows]
    return bounds, sum(lows) + draw(st.integers(0, 10))


@given(bounds_and_room())
def test_fair_share_is_max_min_optimal(drawn: tuple[list[tuple[int, int]], int]) -> None:
    """No other split has a larger smallest share, then a larger second smallest, and so on."""
    bounds, room = drawn
    asks = [ask_of(at, low, high) for at, (low, high) in enumerate(bounds)]
    units = POLICIES["fair"].split(asks, Table(np.zeros((len(asks), 1))), {"cpu_milli": room * 1000})
    choices = product(*(range(low, high + 1) for low, high in bounds))
    assert sorted(units) == max(sorted(split) for split in choices if sum(split) <= room)


@given(bounds_and_room(), st.data())
def test_no_job_has_a_weighted_share_that_a_lower_one_could_use(
    drawn: tuple[list[tuple[int, int]], int], data: Any
) -> None:
    bounds, room = drawn
    weights = [data.draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in bounds]
    asks = [ask_of(at, low, high, weight=weights[at]) for at, (low, high) in enumerate(bounds)]
    units = POLICIES["fair"].split(asks, Table(np.zeros((len(asks), 1))), {"cpu_milli": room * 1000})
    able = [units[at] / weights[at] for at in range(len(asks)) if units[at] < asks[at].max]
    for at, one in enumerate(asks):
        if units[at] > one.min:
            assert all((units[at] - 1) / weights[at] <= level for level in able)


@given(st.data(), st.sampled_from(sorted(POLICIES)))
def test_no_room_is_left_that_a_free_job_could_take(data: Any, policy: str) -> None:
    jobs = data.draw(st.integers(1, 4))
    known = [data.draw(st.booleans()) for _ in range(jobs)]
    table = Table(data.draw(concave(jobs, 10)).falls, known)
    asks = [ask_of(at, 1, data.draw(st.integers(1, 10)), lever=FREE, known=known[at]) for at in range(jobs)]
    room = jobs + data.draw(st.integers(0, 40))
    units = POLICIES[policy].split(asks, table, {"cpu_milli": room * 1000})
    assert sum(units) == min(room, sum(one.max for one in asks))


@given(st.data())
def test_the_guard_mends_any_split(data: Any) -> None:
    jobs = data.draw(st.integers(0, 4))
    asks = [
        ask_of(at, low, low + data.draw(st.integers(0, 8)), grain=data.draw(st.integers(1, 3)))
        for at, low in enumerate(data.draw(st.integers(1, 4)) for _ in range(jobs))
    ]
    wild = [data.draw(st.integers(-5, 30)) for _ in range(jobs)]
    room = data.draw(st.integers(0, 40))
    mended = clamp(asks, wild, {"cpu_milli": room * 1000})
    for one, size in zip(asks, mended, strict=True):
        assert one.min <= size <= one.max
        assert (size - one.min) % one.grain == 0
    assert sum(mended) <= max(room, sum(one.min for one in asks))
    assert clamp(asks, mended, {"cpu_milli": room * 1000}) == mended


@given(st.data())
def test_a_job_of_which_nothing_is_known_keeps_what_it_holds_under_a_lever_that_costs(data: Any) -> None:
    held = [data.draw(st.integers(1, 8)) for _ in range(3)]
    table = Table(data.draw(concave(3, 8)).falls, [False, True, True])
    asks = [ask_of(at, 1, 8, held=held[at], lever=COSTLY, known=at > 0) for at in range(3)]
    units = POLICIES["slaq"].split(
        asks, table, {"cpu_milli": 1000 * (sum(held) + data.draw(st.integers(0, 8)))}
    )
    assert units[0] == held[0]
