"""What the socket shows: made once a cycle, read by any thread, never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from slaqd.act.journal import EndedRow
from slaqd.adapter import Registration
from slaqd.daemon.tally import Counts
from slaqd.types import Allocation, Curve, Job, JobKey, Plan, Resources, Snapshot, State, Struct
from slaqd.wire import JobView


class View(Struct, frozen=True):
    """The last cycle, as people see it."""

    jobs: Mapping[JobKey, JobView] = {}
    plan: Plan | None = None
    pools: Mapping[str, Resources] = {}
    room: Mapping[str, int] = {}
    sentence: str = "no cycle yet"
    cycles: int = 0
    counts: Counts = Counts()


def job_view(job: Job, curve: Curve, allocation: Allocation | None, *, paused: bool, acting: bool) -> JobView:
    """Show one job of the snapshot, with its curve and what the plan says of it."""
    known = curve.count > 0
    return JobView(
        job=job.key.id,
        start=job.key.start,
        name=job.name,
        user=job.owner.name,
        state=job.state.value,
        pool=job.pool,
        lever=job.lever.value,
        min=job.sizes.min,
        max=job.sizes.max,
        submitted=job.submitted,
        units=job.target,
        plan=allocation.units if allocation else None,
        wants=job.wants,
        reason=job.gap or (allocation.reason if allocation else ""),
        loss=curve.losses[-1] if known else None,
        step=curve.steps[-1] if known else None,
        points=curve.count,
        fall=allocation.fall if allocation else None,
        log=curve.path,
        health=curve.health.value,
        note=curve.note,
        cpu_seconds=job.cpu_seconds,
        paused=paused,
        wait=acting and job.state is State.WAITING,
        uid=job.owner.uid,
    )


def live_views(
    snapshot: Snapshot,
    curves: Sequence[Curve],
    plan: Plan | None,
    paused: frozenset[JobKey],
    *,
    acting: bool,
    admitted: frozenset[JobKey] = frozenset(),
) -> dict[JobKey, JobView]:
    """Show every job of the snapshot; commands just ``admitted`` need not wait until it is seen."""
    given = {allocation.key: allocation for allocation in plan.allocations} if plan else {}
    return {
        job.key: job_view(
            job,
            curve,
            given.get(job.key),
            paused=job.key in paused,
            acting=acting and job.key not in admitted,
        )
        for job, curve in zip(snapshot.jobs, curves, strict=True)
    }


def registered_view(registration: Registration) -> JobView:
    """Show of a job what was said of it when it was registered, and no more."""
    least = registration.tag.min or 1
    return JobView(
        job=registration.key.id,
        start=registration.key.start,
        name=registration.name,
        user=registration.owner.name,
        state=(State.WAITING if registration.waits else State.RUNNING).value,
        pool="",
        lever="",
        min=least,
        max=registration.tag.max or least,
        submitted=registration.submitted,
        uid=registration.owner.uid,
    )


def ended_view(row: EndedRow) -> JobView:
    """Show a job that is over, from what the journal kept."""
    view = _last(row)
    return msgspec.structs.replace(
        view,
        state=State.ENDED.value,
        units=None,
        plan=None,
        fall=None,
        wait=False,
        uid=row.registration.owner.uid,
        ended=row.ended,
        exit_status=row.exit_status,
        reason=_how(view, row),
    )


def _last(row: EndedRow) -> JobView:
    # A slaqd of another version may have shown more, or less: then what was registered has to do.
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(row.last or "", type=JobView)
    return registered_view(row.registration)


def _how(view: JobView, row: EndedRow) -> str:
    took = max(row.ended - row.registration.submitted, 0.0)
    status = "" if row.exit_status is None else f" with exit status {row.exit_status}"
    points = f"{view.points} points logged" if view.points else "no loss was logged"
    return f"ended{status} after {took:.0f} s, {points}"
