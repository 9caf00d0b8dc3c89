"""Jobs that are adopted again with another lever: to a file from what holds them, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from following import Following, brief, why

from slaqd.act import FollowFiles, reconcile
from slaqd.types import Accepted, Action, Adopt, Allocation, Lever, Plan, Restore, State


@pytest.fixture
def world(tmp_path: Path) -> Following:
    return Following(tmp_path)


def held(world: Following, units: int, number: int = 1) -> None:
    """Let the manager hold a job by its own lever, and the job be adopted again to follow a file."""
    world.start(number, lever=Lever.CPUS)
    world.snapshot()
    assert world.adopt(units, number) == Accepted()
    world.adopt_again(number, lever=Lever.FILE)


def cycle(world: Following, units: int) -> tuple[Action, ...]:
    """Plan the same for all jobs, and do what follows from that."""
    seen = world.snapshot()
    allocations = tuple(Allocation(job.key, units, "because") for job in seen.jobs)
    plan = Plan(seen.taken_at, seen.incarnation, "slaq", allocations)
    actions = reconcile(plan, seen, world.adapter.capabilities(), "c")
    world.act(*actions)
    return actions


def test_a_job_that_shall_follow_and_is_held_still_is_shown_held_and_neither_read_nor_told(
    world: Following,
) -> None:
    held(world, 5)
    job = world.job()
    assert (job.lever, job.state, *brief(job)) == (Lever.NONE, State.RUNNING, 5, 5, None)
    assert (world.user.puts, world.user.gets) == ([], [])


def test_it_is_given_back_first_and_told_its_target_in_the_next_cycle(world: Following) -> None:
    held(world, 5)
    (first,) = cycle(world, 4)
    assert isinstance(first, Restore)
    assert first.why == "its lever is file now: what held it before is given back"
    assert (world.manager.held, world.user.puts) == ({}, [])
    (second,) = cycle(world, 4)
    assert isinstance(second, Adopt)
    assert world.target()["units"] == 4
    assert cycle(world, 4) == ()


def test_a_slaqd_that_was_killed_before_it_gave_it_back_does_it_at_its_next_start(world: Following) -> None:
    held(world, 5)
    world.snapshot()
    world.again()
    (action,) = cycle(world, 4)
    assert isinstance(action, Restore)
    assert world.job().lever is Lever.FILE


def test_a_refusal_to_give_it_back_is_asked_again_and_no_target_is_told_before(world: Following) -> None:
    held(world, 5)
    key = world.job().key
    world.manager.refuses[key] = "not now"
    for _ in range(2):
        (action,) = cycle(world, 4)
        assert isinstance(action, Restore)
    assert (world.job().target, world.user.puts) == (5, [])
    assert why(world.restore()) == "not now"
    del world.manager.refuses[key]
    cycle(world, 4)
    assert world.job().lever is Lever.FILE


def test_what_a_job_answered_before_it_was_held_stands_when_it_follows_again(world: Following) -> None:
    world.start()
    world.settle(6)
    world.adopt_again(lever=Lever.CPUS)
    (action,) = cycle(world, 3)
    assert isinstance(action, Adopt)
    world.adopt_again(lever=Lever.FILE)
    assert brief(world.job()) == (3, 3, None)
    cycle(world, 6)
    job = world.job()
    assert (job.lever, *brief(job)) == (Lever.FILE, 6, 6, None)
    assert world.target()["seq"] == 1


@pytest.mark.parametrize("lever", [Lever.CPUS, Lever.NONE])
@pytest.mark.parametrize("anew", [False, True], ids=["same slaqd", "new slaqd"])
def test_a_target_without_an_answer_counts_for_nothing_once_the_lever_is_another(
    world: Following, lever: Lever, *, anew: bool
) -> None:
    world.start()
    world.snapshot()
    assert world.adopt(8) == Accepted()
    assert world.job().held == 8
    world.adopt_again(lever=lever)
    adapter: FollowFiles = world.again() if anew else world.adapter
    (job,) = adapter.snapshot(world.clock.monotonic() + 10).jobs
    assert (job.lever, *brief(job)) == (lever, 0, None, None)
