"""Plan against snapshot: which changes to ask for, in which order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from slaqd.adapter import Capabilities, LeverSpec
from slaqd.types import (
    Action,
    Admit,
    Adopt,
    Allocation,
    Job,
    Lever,
    Plan,
    Resources,
    Restore,
    SetUnits,
    Snapshot,
    State,
)


def reconcile(plan: Plan, snapshot: Snapshot, capabilities: Capabilities, cycle: str) -> tuple[Action, ...]:
    """Give the actions that turn what the snapshot shows into what the plan says.

    Targets are absolute, so an action that is repeated changes nothing. Whatever
    frees units comes before whatever takes them; where a lever whose swap is not
    atomic takes part, a growth waits for a later cycle until its room is seen free.
    A plan that was not made from this very snapshot gives no action at all, and a job
    without a lever that is to be had here, or in a pool that isn't shown, gets none. But
    one that is held although it has no lever, as its owner named another since, is given
    back what it had.

    Parameters
    ----------
    plan, snapshot
        What shall be, and what is.
    capabilities
        The levers' natures.
    cycle
        Name of the cycle; with a running number it names each action.

    """
    if (plan.taken_at, plan.incarnation) != (snapshot.taken_at, snapshot.incarnation) or snapshot.gaps:
        return ()
    jobs = {job.key: job for job in snapshot.jobs}
    changes = [
        (allocation, jobs[allocation.key])
        for allocation in plan.allocations
        if allocation.key in jobs
        and _in_reach(jobs[allocation.key], snapshot, capabilities)
        and _differs(allocation, jobs[allocation.key])
    ]
    changes.sort(key=lambda change: _rank(*change))
    numbers = count(1)
    released = tuple(
        Restore(f"{cycle}-{next(numbers)}", job.key, snapshot.incarnation, _why_released(job))
        for job in snapshot.jobs
        if _outlives_its_lever(job)
    )
    return released + tuple(
        _action(allocation, job, f"{cycle}-{next(numbers)}", snapshot.incarnation)
        for allocation, job in _affordable(changes, snapshot, capabilities)
    )


def _outlives_its_lever(job: Job) -> bool:
    """Tell whether a job is still held by the lever that it had before; its own holds it to nothing."""
    held = job.target is not None and job.state is State.RUNNING
    return held and job.lever is Lever.NONE and job.gap is None


def _why_released(job: Job) -> str:
    said = job.tag.lever or Lever.NONE
    return f"its lever is {said.value} now: what held it before is given back"


def _in_reach(job: Job, snapshot: Snapshot, capabilities: Capabilities) -> bool:
    return job.lever is not Lever.NONE and job.lever in capabilities.levers and job.pool in snapshot.pools


def _differs(allocation: Allocation, job: Job) -> bool:
    if allocation.units <= 0 or job.gap is not None:
        return False
    match job.state:
        case State.WAITING:
            return True
        case State.RUNNING:
            return job.target != allocation.units
        case _:
            return False


def _rank(allocation: Allocation, job: Job) -> int:
    """Order changes: what frees units, then jobs that ran unheld, then growths, then new jobs."""
    if job.state is State.WAITING:
        return 3
    if allocation.units <= _takes(job):
        return 0
    return 1 if job.target is None else 2


def _affordable(
    changes: Sequence[tuple[Allocation, Job]], snapshot: Snapshot, capabilities: Capabilities
) -> list[tuple[Allocation, Job]]:
    free, slow = _free(snapshot, capabilities)
    taken = []
    for allocation, job in changes:
        pool, atomic = free[job.pool], _atomic(job, capabilities)
        more = allocation.units - _takes(job)
        need = {name: more * amount for name, amount in job.unit.items()}
        if job.state is State.WAITING:
            _take(need, job.overhead, -1)
        if more > 0 and not (atomic and job.pool not in slow):
            counted = snapshot.pools[job.pool]  # what it doesn't count is no limit, as in the planner's room
            if any(pool[name] < amount for name, amount in need.items() if name in counted):
                continue
        elif more < 0 and not atomic:
            slow.add(job.pool)
        if more > 0 or atomic:
            _take(pool, need, 1)
        taken.append((allocation, job))
    return taken


def _free(snapshot: Snapshot, capabilities: Capabilities) -> tuple[dict[str, dict[str, int]], set[str]]:
    """Tell what is free in each pool, and in which pools a shrink is still under way."""
    free = {pool: dict(room) for pool, room in snapshot.pools.items()}
    slow = set()
    for job in snapshot.jobs:
        if job.state is State.RUNNING:
            pool = free.setdefault(job.pool, {})
            _take(pool, job.unit, _takes(job))
            _take(pool, job.overhead, 1)
            if job.target is not None and job.target < job.held and not _atomic(job, capabilities):
                slow.add(job.pool)
    return free, slow


def _takes(job: Job) -> int:
    """Count the units that a job holds or has been promised."""
    return max(job.held, job.target or 0) if job.state is State.RUNNING else 0


def _atomic(job: Job, capabilities: Capabilities) -> bool:
    return capabilities.levers.get(job.lever, LeverSpec()).swap_atomic


def _take(free: dict[str, int], unit: Resources, times: int) -> None:
    for name, amount in unit.items():
        free[name] = free.get(name, 0) - times * amount


def _action(allocation: Allocation, job: Job, name: str, incarnation: str) -> Action:
    if job.state is State.WAITING:
        kind: type[Admit | Adopt | SetUnits] = Admit
    else:
        kind = Adopt if job.target is None else SetUnits
    return kind(id=name, key=job.key, incarnation=incarnation, units=allocation.units, why=allocation.reason)
