"""From a snapshot to a plan with reasons."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from slaqd.adapter import Capabilities, LeverSpec
from slaqd.allocate import make_plan
from slaqd.errors import ConfigError
from slaqd.predict import Pace, forecast
from slaqd.types import Curve, Health, Job, JobKey, Lever, Owner, Plan, Sizes, Snapshot, State, Tag

CAPABILITIES = Capabilities(
    {Lever.CPUS: LeverSpec(), Lever.REQUEUE: LeverSpec(pause_s=3.0, loses_work=True)}, 0.0, 1.0
)


def job_of(name: str, **more: Any) -> Job:
    given = {
        "key": JobKey("t", name, 0),
        "name": name,
        "owner": Owner(1000, "someone"),
        "state": State.RUNNING,
        "pool": "all",
        "tag": Tag(),
        "lever": Lever.CPUS,
        "unit": {"cpu_milli": 1000},
        "sizes": Sizes(min=1, max=8),
        "held": 2,
    }
    return Job(**{**given, **more})


def waiting(name: str, submitted: float, **more: Any) -> Job:
    return job_of(name, state=State.WAITING, held=0, submitted=submitted, **more)


def curve_of(rate: float, count: int = 20) -> Curve:
    losses = (1.0 + rate ** np.arange(count)).tolist()
    change = max((abs(b - a) for a, b in pairwise(losses)), default=0.0)
    return Curve(
        steps=tuple(range(count)),
        losses=tuple(losses),
        count=count,
        first=2.0,
        lowest=min(losses),
        largest_change=change,
        health=Health.OK,
    )


def plan_of(
    *jobs: Job,
    units: int = 8,
    curves: list[Curve] | None = None,
    policy: str = "slaq",
    gaps: tuple[str, ...] = (),
    more_pools: dict[str, Any] | None = None,
) -> Plan:
    pace = Pace()
    pace.add(1, 1.0)
    cast = forecast(curves or [curve_of(0.9)] * len(jobs), [pace] * len(jobs), 1.0)
    pools = {"all": {"cpu_milli": units * 1000}, **(more_pools or {})}
    return make_plan(Snapshot(5.0, "life 1", pools, jobs, gaps), cast, CAPABILITIES, policy)


def units_of(plan: Plan) -> list[int]:
    return [allocation.units for allocation in plan.allocations]


def reasons_of(plan: Plan) -> list[str]:
    return [allocation.reason for allocation in plan.allocations]


def test_a_plan_tells_the_snapshot_and_the_policy_it_is_made_of() -> None:
    plan = plan_of(job_of("a"), policy="fair")
    assert (plan.taken_at, plan.incarnation, plan.policy) == (5.0, "life 1", "fair")
    assert plan.allocations[0].key == JobKey("t", "a", 0)


def test_cpu_moves_from_the_converged_job_to_the_one_that_learns() -> None:
    plan = plan_of(job_of("learns"), job_of("converged"), curves=[curve_of(0.9), curve_of(0.1)])
    assert units_of(plan) == [7, 1]
    learns, converged = plan.allocations
    assert learns.fall is not None
    assert converged.fall is not None
    assert learns.fall > converged.fall
    assert reasons_of(plan)[0].startswith("gain 0.")
    assert reasons_of(plan)[0].endswith("for the next unit")


def test_fair_share_is_blind_to_the_loss() -> None:
    plan = plan_of(job_of("a"), job_of("b"), curves=[curve_of(0.9), curve_of(0.1)], policy="fair")
    assert units_of(plan) == [4, 4]
    assert reasons_of(plan) == ["fair share", "fair share"]


def test_a_young_job_gets_its_fair_share_and_is_told_why() -> None:
    plan = plan_of(job_of("young"), job_of("b"), curves=[curve_of(0.9, 2), curve_of(0.9)])
    assert units_of(plan) == [4, 4]
    assert reasons_of(plan)[0] == "fair share: only 2 iterations logged"
    assert plan.allocations[0].fall is None


def test_a_young_job_keeps_what_it_holds_under_a_lever_that_costs() -> None:
    plan = plan_of(
        job_of("young", lever=Lever.REQUEUE), job_of("b"), curves=[curve_of(0.9, 2), curve_of(0.9)]
    )
    assert units_of(plan) == [2, 6]
    assert reasons_of(plan)[0] == "keeps what it holds: only 2 iterations logged"


def test_bounds_show_in_the_reason() -> None:
    plan = plan_of(job_of("a", sizes=Sizes(1, 2)), job_of("b", wants=3), job_of("c", cannot_grow="full node"))
    assert units_of(plan) == [2, 3, 2]
    assert reasons_of(plan) == ["at its maximum", "has all that it wants", "can't grow: full node"]


@pytest.mark.parametrize("policy", ["slaq", "fair"])
def test_waiting_jobs_are_admitted_in_order_of_submission(policy: str) -> None:
    plan = plan_of(
        waiting("late", 30.0, sizes=Sizes(3, 8)),
        waiting("early", 10.0, sizes=Sizes(3, 8)),
        job_of("runs"),
        waiting("small but last", 40.0),
        units=6,
        policy=policy,
    )
    assert units_of(plan)[0] == 0
    assert units_of(plan)[1] >= 3
    assert units_of(plan)[3] == 0
    assert reasons_of(plan)[0] == "waits: needs 3 units, 2 free"
    assert reasons_of(plan)[3] == "waits behind an earlier job of the same user: needs 1 unit, 2 free"


def test_a_job_that_the_whole_room_could_not_hold_lets_the_others_pass() -> None:
    plan = plan_of(
        waiting("huge", 1.0, sizes=Sizes(9, 9)), waiting("small", 2.0), waiting("next", 3.0), units=6
    )
    assert units_of(plan) == [0, 3, 3]
    assert reasons_of(plan)[0] == "waits: needs 9 units, there are 6 in all"


def test_running_jobs_give_up_what_is_above_their_minimum_for_one_that_waits() -> None:
    plan = plan_of(job_of("runs", held=8), waiting("new", 1.0, sizes=Sizes(7, 8)))
    assert units_of(plan) == [1, 7]


def test_a_job_that_waits_needs_room_for_its_overhead_too() -> None:
    new = waiting("new", 1.0, sizes=Sizes(7, 8), overhead={"cpu_milli": 1000})
    beside = plan_of(job_of("runs"), new)
    assert units_of(beside) == [8, 0]
    assert reasons_of(beside)[1] == "waits: needs 7 units, 6 free"
    assert units_of(plan_of(new)) == [7]


def test_what_can_not_be_planned_keeps_its_units_and_its_room() -> None:
    plan = plan_of(
        job_of("none", lever=Lever.NONE, held=3),
        job_of("gap", gap="its row is cut", held=2),
        job_of("a"),
        job_of("ended", state=State.ENDED, held=0),
    )
    assert units_of(plan) == [3, 2, 3, 0]
    assert reasons_of(plan)[0] == "advised only: it has no lever"
    assert reasons_of(plan)[1] == "left as it is: its row is cut"
    assert reasons_of(plan)[3] == "it has ended"


def test_what_was_promised_to_a_job_that_can_not_be_planned_is_not_given_to_others() -> None:
    plan = plan_of(job_of("gap", gap="its row is cut", held=2, target=5), job_of("a"))
    assert units_of(plan) == [2, 3]


def test_pools_do_not_share() -> None:
    plan = plan_of(job_of("a"), job_of("b", pool="other"), units=5, more_pools={"other": {"cpu_milli": 3000}})
    assert units_of(plan) == [5, 3]


def test_a_snapshot_with_gaps_changes_nothing() -> None:
    plan = plan_of(job_of("a", held=3), job_of("b", held=1), gaps=("no node list",))
    assert units_of(plan) == [3, 1]
    assert reasons_of(plan)[0] == "left as it is: the manager's answer has gaps: no node list"


def test_a_pool_without_jobs_and_a_snapshot_without_any_are_planned() -> None:
    assert plan_of(more_pools={"other": {}}).allocations == ()


def test_an_unknown_policy_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no policy is called 'best'; there are: fair, slaq"):
        plan_of(job_of("a"), policy="best")


def test_running_jobs_whose_minimums_no_longer_fit_are_brought_to_them() -> None:
    plan = plan_of(job_of("a", held=6, sizes=Sizes(3, 8)), job_of("b", held=2, sizes=Sizes(2, 8)), units=4)
    assert units_of(plan) == [3, 2]
