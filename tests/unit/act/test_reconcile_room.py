"""Room in the middle of a change: what a slow lever's growth may count on, and what stops nobody else."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from modelled import ATOMIC, SLOW, job, plan, snapshot

from slaqd.act import reconcile
from slaqd.adapter import Capabilities, LeverSpec
from slaqd.types import Job, Lever, State

BOTH = Capabilities(
    levers={Lever.CPUS: LeverSpec(), Lever.POOL: LeverSpec(swap_atomic=False)},
    min_epoch_s=1.0,
    actions_per_s=1.0,
)
UNCOUNTED = {"cpu_milli": 100, "memory_mb": 10}


def told(
    units: Mapping[int | str, int], *jobs: Job, room: int = 10, by: Capabilities = SLOW
) -> list[tuple[str, str, int]]:
    actions = reconcile(plan(units), snapshot(*jobs, units=room), by, "c")
    return [(type(each).__name__, each.key.id, each.units) for each in actions]  # type: ignore[union-attr]


def unheld(number: int, held: int, lever: Lever = Lever.CPUS) -> Job:
    return msgspec.structs.replace(job(number, held=held, lever=lever), target=None)


def test_slow_growths_share_what_is_free_one_unit_at_a_time() -> None:
    jobs = [job(number, held=2) for number in (1, 2, 3)]
    grown = told({1: 3, 2: 3, 3: 3}, *jobs, room=8)
    assert grown == [("SetUnits", "1", 3), ("SetUnits", "2", 3)]


def test_a_growth_that_finds_no_room_keeps_no_smaller_one_out() -> None:
    assert told({1: 8, 2: 3}, job(1, held=2), job(2, held=2), room=6) == [("SetUnits", "2", 3)]


def test_what_an_atomic_shrink_frees_is_there_for_a_slow_growth() -> None:
    jobs = (job(1, held=4), job(2, held=2, lever=Lever.POOL))
    assert told({1: 2, 2: 4}, *jobs, room=6, by=BOTH) == [("SetUnits", "1", 2), ("SetUnits", "2", 4)]


def test_a_running_jobs_overhead_is_not_free_and_counts_once() -> None:
    jobs = (job(1, held=4, overhead={"cpu_milli": 200}), job(2, held=2))
    assert told({1: 4, 2: 4}, *jobs) == [("SetUnits", "2", 4)]
    assert told({1: 4, 2: 5}, *jobs) == []


def test_in_a_pool_that_holds_more_than_it_has_what_takes_nothing_more_is_still_done() -> None:
    jobs = (job(1, held=8), job(2, held=4), unheld(3, 2))
    assert told({1: 7, 2: 4, 3: 2}, *jobs) == [("SetUnits", "1", 7), ("Adopt", "3", 2)]


@pytest.mark.parametrize(
    "beside",
    [job(1, held=8, lever=Lever.POOL), unheld(1, 8, Lever.POOL), job(1, held=9)],
    ids=["a slow job that stays", "a slow job that is taken over as it is", "an atomic shrink"],
)
def test_only_a_slow_shrink_makes_an_atomic_growth_wait(beside: Job) -> None:
    assert told({1: 8, 2: 4}, beside, job(2, held=2), by=BOTH)[-1] == ("SetUnits", "2", 4)


def test_a_resource_that_the_pool_does_not_count_limits_no_slow_growth() -> None:
    grows = msgspec.structs.replace(job(1, held=2), unit=UNCOUNTED)
    assert told({1: 4}, grows) == [("SetUnits", "1", 4)]
    assert told({1: 4}, grows, room=3) == []


def test_a_resource_that_only_an_overhead_takes_limits_too() -> None:
    waits = job(1, state=State.WAITING, overhead={"gpu": 1})
    seen = msgspec.structs.replace(snapshot(waits), pools={"pool": {"cpu_milli": 1000, "gpu": 0}})
    assert reconcile(plan({1: 2}), seen, SLOW, "c") == ()


def test_a_resource_that_is_overdrawn_stops_no_job_that_needs_none_of_it() -> None:
    heavy = msgspec.structs.replace(unheld(1, 2, Lever.NONE), unit={"gpu": 1})
    seen = msgspec.structs.replace(
        snapshot(heavy, job(2, held=2)), pools={"pool": {"cpu_milli": 1000, "gpu": 1}}
    )
    (grown,) = reconcile(plan({2: 4}), seen, SLOW, "c")
    assert (grown.key.id, type(grown).__name__) == ("2", "SetUnits")


def test_a_job_without_a_lever_that_still_gives_up_units_slows_nobody() -> None:
    left = job(1, held=8, target=2, lever=Lever.NONE, gap="paused")
    assert told({1: 2, 2: 4}, left, job(2, held=2), by=BOTH) == [("SetUnits", "2", 4)]


def test_a_shrink_that_is_taken_back_comes_before_what_ran_unheld() -> None:
    jobs = (unheld(1, 1), job(2, held=5, target=3))
    assert told({1: 2, 2: 5}, *jobs, by=ATOMIC) == [("SetUnits", "2", 5), ("Adopt", "1", 2)]


def test_a_job_that_holds_nothing_yet_comes_after_every_shrink() -> None:
    assert told({1: 1, 2: 3}, job(1), job(2, held=5), by=ATOMIC) == [("SetUnits", "2", 3), ("Adopt", "1", 1)]
