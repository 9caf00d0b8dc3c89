"""What every plan has to keep, and worlds by the million from a seed: hypothesis is too slow for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Any

import msgspec
import numpy as np

from slaqd.adapter import Capabilities, LeverSpec
from slaqd.types import (
    Action,
    Allocation,
    Job,
    JobKey,
    Lever,
    Owner,
    Plan,
    Resources,
    Restore,
    Sizes,
    Snapshot,
    State,
    Tag,
)

CAPABILITIES = Capabilities(
    {
        Lever.CPUS: LeverSpec(),
        Lever.REQUEUE: LeverSpec(pause_s=3.0, loses_work=True),
        Lever.POOL: LeverSpec(swap_atomic=False),
    },
    0.0,
    100.0,
)
OWNER = Owner(1000, "someone")
OWNERS = (OWNER, OWNER, Owner(1001, "another"), Owner(1002, "third"))
LEVERS = (Lever.CPUS, Lever.CPUS, Lever.REQUEUE, Lever.POOL, Lever.NONE, Lever.ARRAY)
UNITS: Sequence[Resources] = ({"cpu_milli": 1000}, {"cpu_milli": 500, "memory_mb": 1000})


class Table:
    """Falls written down size by size: row j, column n."""

    def __init__(self, falls: Any, known: Any = None) -> None:
        self.falls = np.asarray(falls, dtype=float)
        self.known = np.ones(len(self.falls), dtype=bool) if known is None else np.asarray(known, dtype=bool)
        self.reason = tuple("" if flag else "only 2 iterations logged" for flag in self.known.tolist())

    def fall(self, jobs: Any, units: Any) -> Any:
        rows = np.asarray(jobs)
        shown = self.falls[rows, np.minimum(units, self.falls.shape[1] - 1)]
        return np.where(self.known[rows], shown, 0.0)


# what a plan keeps


def used(jobs: Iterable[Job], units: Iterable[int], resource: str) -> int:
    return sum(
        n * job.unit.get(resource, 0) + job.overhead.get(resource, 0)
        for job, n in zip(jobs, units, strict=True)
        if n
    )


def least(job: Job) -> int:
    """Give what a job can't be brought under: its minimum, or what it must keep."""
    movable = job.lever in CAPABILITIES.levers and job.gap is None
    if not movable or (job.cannot_shrink is not None and job.state is State.RUNNING):
        return job.held
    return min(job.held, job.sizes.min) if job.cannot_grow is not None and job.held else job.sizes.min


def check_bounds(snapshot: Snapshot, job: Job, allocation: Allocation) -> None:
    """Fail where one job's allocation is under its minimum, over its maximum, or what can't be."""
    assert allocation.reason
    assert allocation.units <= job.sizes.max
    if job.state is State.RUNNING and not _is_left(snapshot, job, allocation):
        assert allocation.units >= least(job)
    elif allocation.units:
        assert allocation.units >= job.sizes.min
    if job.cannot_grow is not None and job.state is State.RUNNING:
        assert allocation.units <= job.held
    if job.lever not in CAPABILITIES.levers or job.gap is not None:
        assert allocation.units == job.held


def _is_left(snapshot: Snapshot, job: Job, allocation: Allocation) -> bool:
    """Tell whether a job that isn't held to its minimum stays as it is, lest it take another user's share."""
    users = {one.owner.uid for one in snapshot.jobs if one.pool == job.pool}
    unheld = (job.target or 0) < min(least(job), job.sizes.min) and allocation.units == (job.target or 0)
    return unheld and len(users) > 1


def check_plan(snapshot: Snapshot, plan: Plan) -> None:
    """Fail where a plan breaks a bound or a pool's room; only minimums may be more than the room."""
    assert [allocation.key for allocation in plan.allocations] == [job.key for job in snapshot.jobs]
    for job, allocation in zip(snapshot.jobs, plan.allocations, strict=True):
        check_bounds(snapshot, job, allocation)
    for pool, room in snapshot.pools.items():
        here = [
            (job, allocation.units)
            for job, allocation in zip(snapshot.jobs, plan.allocations, strict=True)
            if job.pool == pool
        ]
        running = [job for job, _ in here if job.state is State.RUNNING]
        for resource, have in room.items():
            floor = used(running, [least(job) for job in running], resource)
            assert used([job for job, _ in here], [n for _, n in here], resource) <= max(have, floor)


def check_steps(snapshot: Snapshot, plan: Plan, actions: Sequence[Action]) -> None:
    """Fail where, between two actions, more is used than the room, the start and the plan allow.

    What a slow lever frees is counted as free only when it is seen: a job uses what it
    holds or is promised, whichever is more. What is left as it is comes on top.
    """
    left = {
        job.key
        for job, allocation in zip(snapshot.jobs, plan.allocations, strict=True)
        if job.state is State.RUNNING and _is_left(snapshot, job, allocation)
    }
    snapshot = msgspec.structs.replace(
        snapshot, jobs=tuple(job for job in snapshot.jobs if job.key not in left)
    )
    jobs = {job.key: job for job in snapshot.jobs}
    units = {job.key: max(job.held, job.target or 0) for job in snapshot.jobs}
    planned = {one.key: one.units for one in plan.allocations if one.key not in left}
    roofs = {pool: _roof(snapshot, pool, units, planned) for pool in snapshot.pools}
    for action in actions:
        job = jobs[action.key]
        if isinstance(action, Restore):
            assert job.lever is Lever.NONE
            assert job.target is not None
            continue  # it is held to nothing from then on, and uses what it holds
        assert least(job) <= action.units <= job.sizes.max
        atomic = CAPABILITIES.levers[job.lever].swap_atomic
        units[job.key] = action.units if atomic else max(action.units, units[job.key])
        here = [one for one in snapshot.jobs if one.pool == job.pool]
        for resource, roof in roofs[job.pool].items():
            assert used(here, [units[one.key] for one in here], resource) <= roof


def _roof(
    snapshot: Snapshot, pool: str, units: Mapping[JobKey, int], planned: Mapping[JobKey, int]
) -> dict[str, int]:
    here = [job for job in snapshot.jobs if job.pool == pool]
    return {
        name: max(have, *(used(here, [each[job.key] for job in here], name) for each in (units, planned)))
        for name, have in snapshot.pools[pool].items()
    }


# worlds from a seed


def a_world(dice: Random) -> tuple[Snapshot, Table]:
    """Make up to six jobs in two pools, of all kinds and states, and what their units would bring."""
    jobs = tuple(_job(dice, index) for index in range(dice.randrange(7)))
    pools = {
        name: {"cpu_milli": 1000 * dice.randrange(41), "memory_mb": 1000 * dice.randrange(61)}
        for name in ("a", "b")
    }
    falls = [[0, *accumulate(sorted(_steps(dice), reverse=True))] for _ in jobs]
    known = [dice.random() < 0.7 for _ in jobs]
    table = Table(falls, known) if jobs else Table(np.zeros((0, 21)), known)
    return Snapshot(1.0, "x", pools, jobs), table


def _steps(dice: Random) -> list[int]:
    most = dice.choice((0, 10, 10**6))
    return [int(most * dice.random()) for _ in range(20)]


def _sizes(dice: Random) -> Sizes:
    if dice.random() < 0.3:
        allowed = tuple(sorted(set(dice.choices(range(1, 17), k=dice.randint(1, 4)))))
        return Sizes(min=allowed[0], max=allowed[-1], allowed=allowed)
    low = dice.randint(1, 4)
    return Sizes(min=low, max=low + dice.randrange(13), grain=dice.randint(1, 3))


def _job(dice: Random, index: int) -> Job:
    sizes, waiting = _sizes(dice), dice.random() < 0.2
    held = 0 if waiting else dice.randint(sizes.min, sizes.max)
    lever = dice.choice(LEVERS)
    promised = dice.randint(sizes.min, sizes.max) if lever is Lever.POOL else held
    return Job(
        key=JobKey("t", str(index), 0),
        name="job",
        owner=dice.choice(OWNERS),
        state=State.WAITING if waiting else State.RUNNING,
        pool=dice.choice("ab"),
        tag=Tag(weight=dice.choice((None, 0.5, 2.0))),
        lever=lever,
        unit=dice.choice(UNITS),
        overhead=dice.choice(({}, {"cpu_milli": 1000})),
        sizes=sizes,
        held=held,
        target=None if waiting or dice.random() < 0.3 else promised,
        submitted=dice.random(),
        wants=_maybe(dice, dice.randint(1, 20), 0.3),
        cannot_grow=_maybe(dice, "the reason", 0.2),
        cannot_shrink=_maybe(dice, "the reason", 0.2),
        gap=_maybe(dice, "no row", 0.1),
    )


def _maybe(dice: Random, value: Any, chance: float) -> Any:
    return value if dice.random() < chance else None
