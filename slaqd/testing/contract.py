"""What every adapter promises, as checks to inherit."""
# ruff: noqa: S101 - the contract is made of asserts

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from slaqd.adapter import Adapter
from slaqd.clock import Clock
from slaqd.errors import AdapterUnavailable, JobGone
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Adopt,
    Job,
    JobKey,
    Lever,
    Outcome,
    Refused,
    Restore,
    SetUnits,
    State,
)

PATIENCE_S = 30.0
"""How long the contract waits for what an adapter says takes no time."""


class World(Protocol):
    """What the contract needs of a manager: jobs that can be started and ended for real.

    Jobs are registered with at least 1 and at most 3 units, and belong to the user
    who runs the tests.
    """

    clock: Clock

    def adapter(self) -> Adapter:
        """Make an adapter; a second one finds the manager and store that the first left."""
        ...

    def start(self, *, waits: bool = False, lever: Lever | None = None) -> JobKey:
        """Start and register a job; with ``waits``, one that waits for its admission."""
        ...

    def adopt_again(self, key: JobKey, lever: Lever) -> None:
        """Register a job anew as it was, but with another lever."""
        ...

    def end(self, key: JobKey) -> None:
        """End a job."""
        ...


class AdapterContract:
    """What every adapter has to pass. Inherit, and give a fixture ``world``."""

    def test_capabilities_make_sense(self, world: World) -> None:
        """Costs and rates are numbers one can plan with."""
        capabilities = world.adapter().capabilities()
        assert capabilities.actions_per_s > 0
        assert capabilities.min_epoch_s >= 0
        assert Lever.NONE in capabilities.levers
        for spec in capabilities.levers.values():
            assert min(spec.up_s, spec.down_s, spec.pause_s) >= 0

    def test_a_check_tells_something_and_changes_nothing(self, world: World) -> None:
        """Doctors look."""
        adapter, held, free = world.adapter(), world.start(), world.start()
        _act(world, adapter, _set(world, adapter, held, 2))
        _wait(world, adapter, held, _is_held_to(2))
        findings = adapter.check()
        assert findings
        assert all(finding.what for finding in findings)
        # What a job that isn't held has in use may change by itself.
        assert _is_held_to(2)(_job(world, adapter, held))
        after = _job(world, adapter, free)
        assert (after.state, after.target) == (State.RUNNING, None)

    def test_a_snapshot_is_whole_and_fresh(self, world: World) -> None:
        """All registered jobs are in it, with what the planner needs."""
        adapter, keys = world.adapter(), {world.start(), world.start()}
        before = world.clock.monotonic()
        snapshot = adapter.snapshot(_deadline(world))
        assert before <= snapshot.taken_at <= world.clock.monotonic()
        assert not snapshot.gaps
        assert snapshot.incarnation
        assert {job.key for job in snapshot.jobs} == keys
        for job in snapshot.jobs:
            assert job.gap is None
            assert (job.state, job.target) == (State.RUNNING, None)
            assert job.lever in adapter.capabilities().levers
            assert 1 <= job.sizes.min <= job.sizes.max
            assert job.unit
            assert set(job.unit) <= set(snapshot.pools[job.pool])

    def test_two_snapshots_are_of_one_incarnation(self, world: World) -> None:
        """It changes with the manager's life, not with ours."""
        first = world.adapter().snapshot(_deadline(world))
        assert world.adapter().snapshot(_deadline(world)).incarnation == first.incarnation

    def test_a_snapshot_that_is_too_late_is_none(self, world: World) -> None:
        """No answer in time is no answer."""
        try:
            world.adapter().snapshot(world.clock.monotonic() - 1)
        except AdapterUnavailable:
            return
        raise AssertionError("a deadline that had passed was not honoured")

    def test_the_next_snapshot_shows_the_units(self, world: World) -> None:
        """Adoption, growth and shrinking are seen where they are in force."""
        adapter, key = world.adapter(), world.start()
        for units in (2, 3, 1):
            assert _act(world, adapter, _set(world, adapter, key, units)) == [Accepted()]
            job = _wait(world, adapter, key, _is_held_to(units))
            assert job.held == units

    def test_targets_are_absolute_and_repeats_harmless(self, world: World) -> None:
        """The same action again changes nothing."""
        adapter, key = world.adapter(), world.start()
        action = _set(world, adapter, key, 2)
        for _ in range(3):
            assert _act(world, adapter, action) == [Accepted()]
        assert _wait(world, adapter, key, _is_held_to(2)).held == 2  # noqa: PLR2004 - what was asked

    def test_a_waiting_job_runs_once_it_is_admitted(self, world: World) -> None:
        """It waits until then, and is held from its first moment."""
        adapter, key = world.adapter(), world.start(waits=True)
        assert _job(world, adapter, key).state is State.WAITING
        incarnation = adapter.snapshot(_deadline(world)).incarnation
        assert _act(world, adapter, Admit("a", key, incarnation, 2)) == [Accepted()]
        job = _wait(world, adapter, key, lambda job: job.state is State.RUNNING)
        assert job.target == 2  # noqa: PLR2004 - what was asked

    def test_outcomes_come_in_order_and_an_unknown_job_harms_no_other(self, world: World) -> None:
        """As many outcomes as actions; the one for nobody is refused."""
        adapter, first, last = world.adapter(), world.start(), world.start()
        incarnation = adapter.snapshot(_deadline(world)).incarnation
        nobody = JobKey(first.manager, first.id, first.start + 1)
        outcomes = _act(
            world, adapter, *[Adopt(key.id, key, incarnation, 2) for key in (first, nobody, last)]
        )
        assert [type(outcome) for outcome in outcomes] == [Accepted, Refused, Accepted]
        for key in (first, last):
            _wait(world, adapter, key, _is_held_to(2))

    def test_nothing_asked_is_nothing_done(self, world: World) -> None:
        """An empty batch has no outcomes."""
        assert _act(world, world.adapter()) == []

    def test_what_the_deadline_cuts_off_is_not_done(self, world: World) -> None:
        """Too late is never accepted."""
        adapter, key = world.adapter(), world.start()
        action = _set(world, adapter, key, 2)
        outcomes = adapter.apply([action], world.clock.monotonic() - 1)
        assert len(outcomes) == 1
        assert not isinstance(outcomes[0], Accepted)
        assert _job(world, adapter, key).target is None

    def test_an_action_of_another_incarnation_is_refused(self, world: World) -> None:
        """What was planned on a manager that is no more is not done on its successor."""
        adapter, key = world.adapter(), world.start()
        assert isinstance(_act(world, adapter, Adopt("a", key, "another", 2))[0], Refused)
        assert _job(world, adapter, key).target is None

    def test_a_restored_job_is_held_to_nothing_until_it_is_adopted_again(self, world: World) -> None:
        """It runs on unheld; a second restore is harmless, and the core may take it up again."""
        adapter, key = world.adapter(), world.start()
        _act(world, adapter, _set(world, adapter, key, 2))
        restore = Restore("r", key, adapter.snapshot(_deadline(world)).incarnation)
        for _ in range(2):
            assert _act(world, adapter, restore) == [Accepted()]
        job = _wait(world, adapter, key, lambda job: job.target is None)
        assert (job.state, job.lever) == (State.RUNNING, Lever.CPUS)
        units = 2
        assert _act(world, adapter, Adopt("again", key, restore.incarnation, units)) == [Accepted()]
        assert _wait(world, adapter, key, lambda job: job.target == units).held == units

    def test_a_job_without_a_lever_is_left_alone(self, world: World) -> None:
        """It is shown, and its units are not set."""
        adapter, key = world.adapter(), world.start(lever=Lever.NONE)
        assert _job(world, adapter, key).lever is Lever.NONE
        incarnation = adapter.snapshot(_deadline(world)).incarnation
        assert isinstance(_act(world, adapter, SetUnits("s", key, incarnation, 2))[0], Refused)

    def test_a_held_job_that_has_no_lever_any_more_is_shown_held_until_it_is_restored(
        self, world: World
    ) -> None:
        """By that the core sees what is to be given back, whenever it looks; and it can be held anew."""
        adapter, key = world.adapter(), world.start()
        _act(world, adapter, _set(world, adapter, key, 2))
        _wait(world, adapter, key, _is_held_to(2))
        world.adopt_again(key, Lever.NONE)
        job = _job(world, adapter, key)
        assert (job.state, job.lever, job.target) == (State.RUNNING, Lever.NONE, 2)
        restore = Restore("r", key, adapter.snapshot(_deadline(world)).incarnation)
        assert _act(world, adapter, restore) == [Accepted()]
        job = _wait(world, adapter, key, lambda job: job.target is None)
        assert (job.state, job.lever) == (State.RUNNING, Lever.NONE)
        world.adopt_again(key, Lever.CPUS)
        _act(world, adapter, _set(world, adapter, key, 3))
        _wait(world, adapter, key, _is_held_to(3))

    def test_a_live_job_has_an_owner(self, world: World) -> None:
        """The manager says whose it is."""
        assert world.adapter().owner(world.start()).uid == os.getuid()

    def test_an_ended_job_is_shown_so_and_has_no_owner(self, world: World) -> None:
        """Nothing more can be done to it, and the others go on."""
        adapter, key, other = world.adapter(), world.start(), world.start()
        action = _set(world, adapter, key, 2)
        _act(world, adapter, action)
        world.end(key)
        _wait(world, adapter, key, lambda job: job.state is State.ENDED)
        assert isinstance(_act(world, adapter, action)[0], Refused)
        assert _job(world, adapter, other).state is State.RUNNING
        try:
            adapter.owner(key)
        except JobGone:
            return
        raise AssertionError("an ended job still has an owner")

    def test_a_new_adapter_finds_the_jobs(self, world: World) -> None:
        """After a crash nothing is lost; a hold that went with the old one can be made anew."""
        old, key, waiting = world.adapter(), world.start(), world.start(waits=True)
        _act(world, old, _set(world, old, key, 2))
        old.close(restore=False)
        new = world.adapter()
        job = _job(world, new, key)
        assert job.state is State.RUNNING
        assert job.target in {2, None}
        assert _job(world, new, waiting).state is State.WAITING
        _act(world, new, _set(world, new, key, 3))
        _wait(world, new, key, _is_held_to(3))

    def test_a_graceful_stop_lets_jobs_run_and_they_can_be_adopted_again(self, world: World) -> None:
        """They go on unheld, and nothing of them is forgotten."""
        old, key, admitted = world.adapter(), world.start(), world.start(waits=True)
        incarnation = old.snapshot(_deadline(world)).incarnation
        _act(world, old, Adopt("a", key, incarnation, 2), Admit("b", admitted, incarnation, 2))
        old.close(restore=True)
        new = world.adapter()
        for each in (key, admitted):
            job = _wait(world, new, each, lambda job: job.target is None)
            assert (job.state, job.lever) == (State.RUNNING, Lever.CPUS)
            _act(world, new, _set(world, new, each, 3))
            _wait(world, new, each, _is_held_to(3))


def _deadline(world: World) -> float:
    return world.clock.monotonic() + PATIENCE_S


def _job(world: World, adapter: Adapter, key: JobKey) -> Job:
    return next(job for job in adapter.snapshot(_deadline(world)).jobs if job.key == key)


def _wait(world: World, adapter: Adapter, key: JobKey, good: Callable[[Job], bool]) -> Job:
    until = _deadline(world)
    while not good(job := _job(world, adapter, key)):
        assert world.clock.monotonic() < until, f"it never came to that: {job}"
        world.clock.sleep(0.05)
    return job


def _is_held_to(units: int) -> Callable[[Job], bool]:
    return lambda job: job.target == units


def _act(world: World, adapter: Adapter, *actions: Action) -> list[Outcome]:
    return list(adapter.apply(actions, _deadline(world)))


def _set(world: World, adapter: Adapter, key: JobKey, units: int) -> Action:
    snapshot = adapter.snapshot(_deadline(world))
    job = next(job for job in snapshot.jobs if job.key == key)
    verb = Adopt if job.target is None else SetUnits
    return verb(f"{key}-{units}", key, snapshot.incarnation, units)
