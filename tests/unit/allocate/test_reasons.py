"""Each number of a plan has its reason, word for word and with the right number in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from slaqd.adapter import Capabilities, LeverSpec
from slaqd.allocate import make_plan
from slaqd.types import Job, JobKey, Lever, Owner, Plan, Sizes, Snapshot, State, Tag

CAPABILITIES = Capabilities({Lever.CPUS: LeverSpec()}, 0.0, 1.0)


class Slopes:
    """Falls of ``slope * (1 - 0.5^n)`` for each job."""

    def __init__(self, *slopes: float) -> None:
        self.slopes = np.array(slopes)
        self.known = np.full(len(slopes), fill_value=True)
        self.reason = ("",) * len(slopes)

    def fall(self, jobs: Any, units: Any) -> Any:
        return self.slopes[np.asarray(jobs)] * (1.0 - 0.5 ** np.asarray(units))


def job_of(name: str, **more: Any) -> Job:
    given = {
        "key": JobKey("t", name, 0), "name": name, "owner": Owner(1000, "someone"), "state": State.RUNNING,
        "pool": "all", "tag": Tag(), "lever": Lever.CPUS, "unit": {"cpu_milli": 1000},
        "sizes": Sizes(min=1, max=8), "held": 2,
    }  # fmt: skip
    return Job(**{**given, **more})


def waiting(name: str, submitted: float, **more: Any) -> Job:
    return job_of(name, state=State.WAITING, held=0, submitted=submitted, **more)


def plan_of(*jobs: Job, units: int = 8, slopes: tuple[float, ...] = (), gaps: tuple[str, ...] = ()) -> Plan:
    pools = {"all": {"cpu_milli": units * 1000}}
    falls = Slopes(*(slopes or (1.0,) * len(jobs)))
    return make_plan(Snapshot(5.0, "life 1", pools, jobs, gaps), falls, CAPABILITIES, "slaq")


def told(plan: Plan) -> list[tuple[int, str]]:
    return [(each.units, each.reason) for each in plan.allocations]


def test_the_gain_is_what_the_next_unit_would_bring_beyond_what_is_held() -> None:
    assert told(plan_of(job_of("a"), units=3)) == [(3, "gain 0.0625 for the next unit")]


def test_a_step_of_several_units_is_counted() -> None:
    coarse = job_of("a", sizes=Sizes(min=1, max=8, grain=2))
    assert told(plan_of(coarse, units=4)) == [(3, "gain 0.0938 for the next 2 units")]


def test_a_job_that_no_unit_helps_is_told_so() -> None:
    assert told(plan_of(job_of("a"), units=3, slopes=(0.0,))) == [(3, "no fall predicted from more")]


def test_all_gaps_of_an_answer_are_named() -> None:
    (only,) = told(plan_of(job_of("a"), gaps=("no node list", "no users")))
    assert only == (2, "left as it is: the manager's answer has gaps: no node list; no users")


def test_a_job_that_holds_nothing_and_is_left_as_it_is_takes_no_room() -> None:
    plan = plan_of(job_of("left", held=0, gap="its row is cut"), job_of("a"))
    assert told(plan)[1] == (8, "at its maximum")


def test_a_running_jobs_overhead_is_taken_out_once() -> None:
    plan = plan_of(job_of("a", overhead={"cpu_milli": 1000}, sizes=Sizes(1, 50)))
    assert told(plan)[0][0] == 7


def test_a_job_that_fits_only_without_its_overhead_lets_the_others_pass() -> None:
    huge = waiting("huge", 1.0, sizes=Sizes(8, 8), overhead={"cpu_milli": 1500})
    assert told(plan_of(huge, waiting("small", 2.0))) == [
        (0, "waits: needs 8 units, there are 6 in all"),
        (8, "at its maximum"),
    ]


def test_a_whole_room_of_one_unit_is_told_as_one() -> None:
    (only,) = told(plan_of(waiting("pair", 1.0, sizes=Sizes(2, 2)), units=1))
    assert only == (0, "waits: needs 2 units, there is 1 in all")


def test_a_job_behind_another_is_told_that_there_is_enough_where_nothing_limits_it() -> None:
    plan = plan_of(
        job_of("runs", held=3, sizes=Sizes(3, 8)),
        waiting("first", 1.0, sizes=Sizes(2, 8)),
        waiting("next", 2.0, unit={"gpu": 1}),
        units=4,
    )
    assert told(plan)[1:] == [
        (0, "waits: needs 2 units, 1 free"),
        (0, "waits behind an earlier job of the same user: needs 1 unit, enough free"),
    ]
