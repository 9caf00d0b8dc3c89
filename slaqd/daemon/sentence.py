"""One cycle in one sentence, for the log, ``slaqctl status`` and the service's own status."""

from __future__ import annotations

from collections.abc import Sequence

from slaqd.act import Done
from slaqd.types import Accepted, Plan, Resources, Snapshot, State


def doubt(unconfirmed: str) -> str:
    """Say that nothing is done before an admin confirms it; nothing where there is nothing to confirm."""
    return f"paused until an admin says slaqctl resume: {unconfirmed}" if unconfirmed else ""


def with_alarm(said: str, alarm: str) -> str:
    """Add to a cycle's sentence what an admin should look at, unless it says so already."""
    return said if alarm in said else f"{said}; {alarm}"


def rooms(snapshot: Snapshot) -> dict[str, int]:
    """Count each pool's room in units of the jobs in it; the smallest unit speaks for all."""
    found: dict[str, int] = {}
    last = None
    for job in snapshot.jobs:
        if (job.pool, job.unit) == last:
            continue
        last = (job.pool, job.unit)
        room = snapshot.pools.get(job.pool, {})
        fits = min((room.get(name, 0) // amount for name, amount in job.unit.items() if amount), default=0)
        found[job.pool] = max(found.get(job.pool, 0), fits)
    return found


def _room_text(rooms: Resources) -> str:
    return str(sum(rooms.values()))


def sentence(snapshot: Snapshot, plan: Plan, done: Sequence[Done], brake: str) -> str:
    """Say what there is, what was planned, and what was done or why not."""
    running = sum(job.state is State.RUNNING for job in snapshot.jobs)
    waiting = sum(job.state is State.WAITING for job in snapshot.jobs)
    if not running + waiting:
        return "no jobs" + (f"; {brake}" if brake else "")
    planned = sum(allocation.units for allocation in plan.allocations)
    failed = sum(not isinstance(item.outcome, Accepted) for item in done)
    changes = brake or (
        ("1 change" if len(done) == 1 else f"{len(done)} changes")
        + (f", {failed} of them failed" if failed else "")
    )
    waits = f", {waiting} waiting" if waiting else ""
    return (
        f"{running} jobs running{waits}; {planned} of {_room_text(rooms(snapshot))} units planned; {changes}"
    )
