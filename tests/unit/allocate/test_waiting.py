"""Who waits, and for whom: what one user registers keeps no other user's command from starting."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from bounds import CAPABILITIES, Table
from modelled import job_of

from slaqd.act import reconcile
from slaqd.allocate import POLICIES, make_plan
from slaqd.types import Allocation, Job, Lever, Owner, Plan, Snapshot, State

ALICE, BOB, CAROL = Owner(1, "alice"), Owner(2, "bob"), Owner(3, "carol")
ROOM = 30


def waits(name: str, owner: Owner, low: int = 1, high: int = 0, **more: Any) -> Job:
    return job_of(name, owner, low, high, **{"state": State.WAITING, "unit": {"cpu_milli": 10}, **more})


def runs(name: str, owner: Owner, low: int, held: int, high: int = ROOM, **more: Any) -> Job:
    return waits(name, owner, low, high, **{"state": State.RUNNING, "held": held, "target": held, **more})


def snapshot_of(*jobs: Job, units: int = ROOM) -> Snapshot:
    return Snapshot(5.0, "life 1", {"all": {"cpu_milli": 10 * units}}, jobs)


def plan_of(snapshot: Snapshot, policy: str = "slaq") -> Plan:
    falls = np.cumsum(np.ones((len(snapshot.jobs), 2 * ROOM)), axis=1)
    return make_plan(snapshot, Table(falls), CAPABILITIES, policy)


def told(*jobs: Job, units: int = ROOM) -> dict[str, Allocation]:
    return {one.key.id: one for one in plan_of(snapshot_of(*jobs, units=units)).allocations}


def units_of(*jobs: Job, units: int = ROOM) -> list[int]:
    return [one.units for one in told(*jobs, units=units).values()]


def obeyed(jobs: tuple[Job, ...], policy: str) -> tuple[Job, ...]:
    """Plan once, and let every job do what it is told."""
    snapshot = snapshot_of(*jobs)
    units = {
        one.key: one.units
        for one in reconcile(plan_of(snapshot, policy), snapshot, CAPABILITIES, "1")
        if hasattr(one, "units")
    }
    return tuple(
        msgspec.structs.replace(job, state=State.RUNNING, held=units[job.key], target=units[job.key])
        if job.key in units
        else job
        for job in jobs
    )


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_command_starts_however_many_sleeping_jobs_another_user_has_registered(policy: str) -> None:
    mins = (2, 3, 4, 6, 8, 12, 16, 20, 25, 30)
    sleeping = [waits(f"sleeps{low}", ALICE, low, ROOM, submitted=at) for at, low in enumerate(mins)]
    jobs = (runs("his", BOB, 1, 2, 2), *sleeping)
    for _ in range(3):
        jobs = obeyed(jobs, policy)
    assert any(job.state is State.WAITING for job in jobs), "nobody stands in carol's way"
    *_, hers = obeyed((*jobs, waits("hers", CAROL, 1, 1, submitted=99.0)), policy)
    assert (hers.state, hers.target) == (State.RUNNING, 1)


def test_a_minimum_within_an_even_share_takes_back_what_others_have_above_theirs() -> None:
    assert units_of(runs("his", BOB, 1, 30), waits("hers", CAROL, 15)) == [15, 15]


def test_what_runs_keeps_its_minimum_and_the_room_is_never_exceeded_for_a_share() -> None:
    plan = told(runs("big", ALICE, 28, 28), runs("his", BOB, 1, 2), waits("hers", CAROL, 10))
    assert (plan["hers"].units, plan["hers"].reason) == (0, "waits: needs 10 units, 1 free")
    assert sum(one.units for one in plan.values()) == ROOM


def test_while_a_share_is_owed_nothing_beyond_a_share_is_let_in() -> None:
    """Or the room would never come free for it: others' small jobs would take each piece."""
    plan = told(
        runs("big", ALICE, 22, 22),
        waits("small", ALICE, 1, submitted=1.0),
        waits("hers", CAROL, 9, submitted=2.0),
        waits("his", BOB, 5, submitted=3.0),
    )
    assert plan["hers"].reason == "waits: needs 9 units, 3 free"
    assert plan["small"].reason == "waits behind a job of another user: needs 1 unit, 3 free"
    assert plan["his"].units >= 5, "within a share nobody waits for others"
    assert told(waits("small", ALICE, 1), waits("hers", CAROL, 9))["hers"].units >= 9


def test_of_two_who_are_owed_more_than_is_free_each_is_told_so() -> None:
    plan = told(runs("big", ALICE, 28, 28), waits("hers", CAROL, 9), waits("his", BOB, 8))
    assert [plan[name].reason for name in ("hers", "his")] == [
        "waits: needs 9 units, 2 free",
        "waits: needs 8 units, 2 free",
    ]


def test_a_minimum_beyond_an_even_share_waits_for_what_is_free() -> None:
    plan = told(runs("big", ALICE, 20, 20), waits("hers", CAROL, 16))
    assert (plan["hers"].units, plan["hers"].reason) == (0, "waits: needs 16 units, 10 free")
    assert units_of(runs("big", ALICE, 14, 14), waits("hers", CAROL, 16)) == [14, 16]


def test_what_a_users_running_jobs_take_is_part_of_the_share() -> None:
    big, own, his = runs("big", ALICE, 15, 15), runs("own", CAROL, 10, 10), waits("his", ALICE, 5)
    assert told(big, own, his, waits("hers", CAROL, 5, submitted=9.0))["hers"].units == 5
    plan = told(big, own, his, waits("hers", CAROL, 6, submitted=9.0))
    assert plan["hers"].reason == "waits: needs 6 units, 0 free"


def test_what_a_user_is_let_in_with_is_part_of_the_share() -> None:
    plan = told(
        runs("big", ALICE, 15, 15),
        waits("first", CAROL, 10, submitted=1.0),
        waits("second", CAROL, 5, submitted=2.0),
        waits("third", CAROL, 1, submitted=3.0),
    )
    assert [one.units for one in plan.values()] == [15, 10, 5, 0]
    assert plan["third"].reason == "waits: needs 1 unit, 0 free"


def test_a_users_own_small_jobs_do_not_pass_a_large_one_of_the_same_user() -> None:
    plan = told(
        runs("big", ALICE, 20, 20),
        waits("large", CAROL, 16, submitted=1.0),
        waits("small", CAROL, 1, submitted=2.0),
    )
    assert plan["large"].reason == "waits: needs 16 units, 10 free"
    assert (plan["small"].units, plan["small"].reason) == (
        0,
        "waits behind an earlier job of the same user: needs 1 unit, 10 free",
    )


def test_another_users_small_jobs_do_not_take_the_room_of_an_earlier_minimum_within_a_share() -> None:
    small = [waits(f"small{at}", ALICE, 1, submitted=at) for at in range(40)]
    plan = told(*small, waits("large", CAROL, 15, submitted=99.0))
    assert plan["large"].units == 15
    assert sum(one.units for one in plan.values()) == ROOM


def test_beyond_the_shares_a_large_minimum_is_not_passed_by_small_ones_of_others() -> None:
    plan = told(
        runs("his", BOB, 11, 11),
        waits("large", ALICE, 20, submitted=1.0),
        waits("small", BOB, 5, submitted=2.0),
    )
    assert plan["large"].reason == "waits: needs 20 units, 19 free"
    assert plan["small"].reason == "waits behind a job of another user: needs 5 units, 19 free"


def test_what_was_submitted_first_gets_the_room_beyond_the_shares() -> None:
    jobs = waits("late", BOB, 16, submitted=2.0), waits("early", ALICE, 16, submitted=1.0)
    assert units_of(*jobs) == [0, 16]
    assert units_of(*jobs[::-1]) == [16, 0]


def test_a_user_whose_job_only_waits_counts_for_the_even_share() -> None:
    """Of three users hers is 10 units; without the one who waits it would be 15."""
    jobs = runs("big", ALICE, 10, 10), waits("hers", CAROL, 11, submitted=2.0)
    his = waits("his", BOB, 30, submitted=1.0)
    assert told(*jobs)["hers"].units >= 11
    assert told(*jobs, his)["hers"].reason == "waits behind a job of another user: needs 11 units, 20 free"


def test_running_jobs_that_are_not_held_yet_share_with_users_who_wait() -> None:
    adopted = runs("adopted", ALICE, 20, 20, submitted=2.0, target=None)
    held = runs("held", ALICE, 15, 15)
    assert units_of(held, adopted) == [15, 20]
    assert units_of(held, adopted, waits("hers", CAROL, 1)) == [29, 0, 1]


def test_what_a_user_has_paused_keeps_what_it_has_and_takes_no_other_users_share() -> None:
    paused = runs("paused", ALICE, 1, 30, gap="paused by request: it keeps what it has")
    assert told(paused, waits("hers", CAROL, 15))["hers"].reason == "waits: needs 15 units, 0 free"
    assert units_of(paused, runs("his", CAROL, 15, 15, target=None)) == [30, 15]
    plan = told(paused, waits("hers", CAROL, 16), waits("other", CAROL, 1, submitted=1.0))
    assert plan["hers"].reason == "waits: needs 16 units, there are 15 in all"
    assert plan["other"].reason == "waits: needs 1 unit, 0 free"


def test_what_a_user_has_paused_is_part_of_the_users_own_share() -> None:
    paused = runs("paused", ALICE, 1, 15, gap="paused by request: it keeps what it has")
    plan = told(paused, runs("his", BOB, 15, 15), waits("more", ALICE, 1))
    assert plan["more"].reason == "waits: needs 1 unit, 0 free"


def test_a_job_that_never_answers_is_part_of_its_users_share() -> None:
    """After its deadlines it is only advised, and what it was told last stays counted."""
    silent = runs("silent", ALICE, 1, 20, lever=Lever.FILE, target=None, gap="missed 3 deadlines")
    plan = told(silent, waits("more", ALICE, 1, submitted=1.0), waits("hers", CAROL, 10, submitted=2.0))
    assert [one.units for one in plan.values()] == [20, 0, 10]


def test_who_is_alone_waits_for_the_jobs_that_were_paused() -> None:
    paused = runs("paused", ALICE, 1, 30, gap="paused by request: it keeps what it has")
    assert told(paused, waits("more", ALICE, 1))["more"].reason == "waits: needs 1 unit, there are 0 in all"


def test_what_slaqd_does_not_hold_comes_before_every_share() -> None:
    outside = runs("outside", ALICE, 1, 20, gap="observed only", target=None)
    plan = told(outside, runs("his", BOB, 5, 5), waits("hers", CAROL, 5))
    assert [one.units for one in plan.values()] == [20, 5, 5]
    plan = told(outside, runs("his", BOB, 5, 5), waits("hers", CAROL, 6))
    assert plan["hers"].reason == "waits: needs 6 units, 5 free"


def test_an_overhead_is_part_of_what_the_share_must_hold() -> None:
    jobs = runs("big", ALICE, 10, 10), waits("large", ALICE, 20, submitted=1.0)
    assert (
        told(*jobs, waits("hers", CAROL, 14, overhead={"cpu_milli": 10}, submitted=2.0))["hers"].units >= 14
    )
    plan = told(*jobs, waits("hers", CAROL, 15, overhead={"cpu_milli": 10}, submitted=2.0))
    assert plan["hers"].units == 0


def test_a_waiting_job_gets_nothing_whatever_it_was_held_to_before() -> None:
    assert units_of(runs("big", ALICE, 30, 30), waits("hers", CAROL, 16, target=16)) == [30, 0]


def test_a_minimum_that_is_adopted_does_not_go_before_what_another_user_is_owed() -> None:
    hog = runs("hog", ALICE, 30, 1, target=None)
    plan = told(hog, waits("hers", CAROL, 15, submitted=9.0))
    assert plan["hers"].units >= 15
    assert plan["hog"].reason.startswith("left as it is: its minimum is 30 units, more than is free")
    assert units_of(hog, runs("idle", CAROL, 1, 1, 1, gap="observed only", target=None)) == [0, 1]
    assert units_of(runs("hog", ALICE, 29, 1, target=None), runs("own", CAROL, 1, 1, 1)) == [29, 1]


def test_while_a_share_is_owed_no_adopted_minimum_beyond_a_share_is_taken_up() -> None:
    jobs = runs("big", ALICE, 18, 18), runs("adopted", ALICE, 5, 1, target=None)
    assert told(*jobs, runs("own", CAROL, 1, 1, 1))["adopted"].units >= 5
    plan = told(*jobs, waits("hers", CAROL, 13))
    assert plan["hers"].reason == "waits: needs 13 units, 12 free"
    assert plan["adopted"].reason.startswith("left as it is")


def test_of_two_that_are_adopted_the_one_within_a_share_is_taken_up_first() -> None:
    hog = runs("hog", ALICE, 30, 1, target=None, submitted=1.0)
    plan = told(hog, runs("due", BOB, 4, 1, target=None, submitted=2.0))
    assert plan["due"].units >= 4
    assert plan["hog"].units == 0
