"""A minimum is its user's own word: what it takes from others, and what it doesn't."""

from __future__ import annotations

import numpy as np
import pytest
from bounds import CAPABILITIES, Table
from hypothesis import given
from hypothesis import strategies as st
from modelled import job_of

from slaqd.act import reconcile
from slaqd.allocate import make_plan
from slaqd.allocate.ask import ask
from slaqd.tag import MOST_UNITS
from slaqd.types import Job, Owner, Plan, Snapshot, State, Tag

BOB, EVE = Owner(1, "bob"), Owner(2, "eve")
ROOM = 40


def snapshot_of(*jobs: Job, units: int = ROOM) -> Snapshot:
    return Snapshot(5.0, "life 1", {"all": {"cpu_milli": units * 1000}}, jobs)


def plan_of(snapshot: Snapshot) -> Plan:
    falls = np.cumsum(np.ones((len(snapshot.jobs), 2 * ROOM)), axis=1)
    return make_plan(snapshot, Table(falls, [False] * len(snapshot.jobs)), CAPABILITIES, "slaq")


def units_of(*jobs: Job, units: int = ROOM) -> list[int]:
    return [one.units for one in plan_of(snapshot_of(*jobs, units=units)).allocations]


HIS = job_of("his", BOB, held=38, target=38)


@pytest.mark.parametrize("low", [41, 1_000_000, MOST_UNITS + 1, 2**63, 10**30])
@pytest.mark.parametrize("uses", [0, 40])
def test_a_minimum_above_the_machine_takes_no_other_user_below_an_even_share(low: int, uses: int) -> None:
    snapshot = snapshot_of(HIS, job_of("hers", EVE, low, held=uses))
    plan = plan_of(snapshot)
    assert plan.allocations[0].units >= ROOM // 2
    assert plan.allocations[1].reason.startswith("left as it is: its ")
    assert [action.key.id for action in reconcile(plan, snapshot, CAPABILITIES, "1")] in ([], ["his"])


def test_a_minimum_above_the_machine_says_so() -> None:
    plan = plan_of(snapshot_of(HIS, job_of("hers", EVE, 41)))
    assert [(one.units, one.reason) for one in plan.allocations] == [
        (40, "fair share: only 2 iterations logged"),
        (0, "left as it is: its minimum is 41 units, there are 40 in all"),
    ]


def test_many_minimums_together_take_no_other_user_below_an_even_share() -> None:
    hers = [job_of(f"hers{at}", EVE, 20, held=20, submitted=at) for at in range(5)]
    plan = plan_of(snapshot_of(HIS, *hers))
    assert [one.units for one in plan.allocations] == [20, 20, 0, 0, 0, 0]
    assert plan.allocations[2].reason == (
        "left as it is: its minimum is 20 units, more than is free and than its user's even share"
    )


def test_a_minimum_that_grows_later_is_judged_as_a_new_one() -> None:
    his = job_of("his", BOB, 20, held=20, target=20)
    assert units_of(his, job_of("hers", EVE, 30, held=20, target=20)) == [20, 20]


def test_a_minimum_that_is_held_to_is_kept() -> None:
    assert units_of(job_of("his", BOB, 20), job_of("hers", EVE, 30, held=30, target=30)) == [20, 30]


def test_who_has_no_free_room_gets_a_minimum_within_an_even_share() -> None:
    assert units_of(job_of("his", BOB, 20), job_of("hers", EVE, 40, held=40, target=40)) == [20, 40]
    assert units_of(job_of("his", BOB, 21), job_of("hers", EVE, 40, held=40, target=40)) == [0, 40]


def test_of_two_new_minimums_the_one_that_came_first_is_taken_up() -> None:
    first, second = (job_of(str(at), owner, 30, submitted=at) for at, owner in ((1.0, EVE), (2.0, BOB)))
    assert units_of(second, first) == [0, 40]


def test_where_all_is_one_users_each_minimum_counts_that_the_machine_could_hold() -> None:
    jobs = [job_of("a", EVE, 3, 3), job_of("b", EVE, 3, 3)]
    assert units_of(*jobs, units=4) == [3, 3]
    assert units_of(*jobs, units=3) == [3, 3]
    assert units_of(*jobs, units=2) == [0, 0]
    assert units_of(job_of("a", EVE, 3, 3, held=3), units=2) == [3]


def test_what_the_pool_does_not_count_is_no_limit() -> None:
    assert units_of(HIS, job_of("hers", EVE, 50, 50, unit={"gpu": 1})) == [40, 50]


def test_what_a_job_uses_beyond_its_users_even_share_is_not_counted() -> None:
    hers = [job_of(f"hers{at}", EVE, 100, held=15, submitted=at) for at in range(3)]
    assert units_of(HIS, *hers) == [20, 0, 0, 0]
    assert units_of(HIS, hers[0]) == [25, 0]


def test_what_an_unplanned_job_uses_of_what_the_pool_does_not_count_is_no_limit() -> None:
    """Its overhead alone keeps it out: none of it is there."""
    hers = job_of("hers", EVE, 2, held=1, unit={"gpu": 1}, overhead={"cpu_milli": 41_000})
    assert units_of(HIS, hers) == [40, 0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 10, 30, 41, MOST_UNITS, 2**63, 10**30]),
            st.integers(0, 60),
            st.none() | st.floats(0, 1e300) | st.just(-1.0),
            st.sampled_from([0, 1, 2**63, 10**30]),
        ),
        max_size=6,
    )
)
def test_whatever_one_user_says_another_keeps_an_even_share(
    said: list[tuple[int, int, float | None, int]],
) -> None:
    """Of minimums nobody is held to yet; what is on the machine already stays with who has it."""
    hers = [
        job_of(f"hers{at}", EVE, low, low + more, held=uses, tag=Tag(weight=weight))
        for at, (low, uses, weight, more) in enumerate(said)
    ]
    his = job_of("his", BOB, 20, held=20, target=20)
    plan = plan_of(snapshot_of(his, *hers))
    assert plan.allocations[0].units >= ROOM // 2
    assert len(plan.allocations) == 1 + len(hers)


@pytest.mark.parametrize(("weight", "counts"), [(1e9, 10.0), (1e-9, 0.1), (10.0, 10.0), (0.1, 0.1)])
def test_a_weight_of_an_older_journal_counts_within_bounds(weight: float, counts: float) -> None:
    assert ask(0, job_of("a", BOB, tag=Tag(weight=weight)), CAPABILITIES, known=True).weight == counts


def test_no_job_that_waits_is_let_in_with_more_units_than_can_be_counted() -> None:
    plan = plan_of(snapshot_of(HIS, job_of("hers", EVE, 10**30, state=State.WAITING, unit={"gpu": 1})))
    assert [(one.units, one.reason) for one in plan.allocations][1] == (
        0, f"waits: needs {10**30} units, there are {MOST_UNITS} in all",
    )  # fmt: skip


def test_a_job_that_holds_more_than_can_be_counted_is_left_as_it_is() -> None:
    plan = plan_of(snapshot_of(HIS, job_of("odd", EVE, held=10**30, unit={"gpu": 1})))
    assert [one.units for one in plan.allocations] == [40, 10**30]
    assert "more than 1000000 units" in plan.allocations[1].reason


def test_as_many_units_as_can_be_counted_are_planned() -> None:
    assert units_of(job_of("a", EVE, MOST_UNITS, unit={"gpu": 1})) == [MOST_UNITS]
    assert units_of(job_of("a", EVE, held=MOST_UNITS, cannot_shrink="no", unit={"gpu": 1})) == [MOST_UNITS]


def test_a_maximum_beyond_all_counting_is_cut() -> None:
    one = ask(0, job_of("a", BOB, 1, 10**30), CAPABILITIES, known=True)
    assert (one.min, one.max) == (1, MOST_UNITS)
