"""The admin's brakes: on which jobs slaqd may act, and whether it may act at all.

All but `halted` is pure: what may not be touched gets a ``gap``, and a job with a gap
stays as it is in every plan.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from slaqd.config import EnforceSection
from slaqd.types import Job, JobKey, Snapshot, State

HANDED_OUT = frozenset({"cpu_milli", "memory_mb", "nodes"})
"""The resources that the core knows how to hand out; what holds others is observed only."""

_PAUSED = "paused by request: it keeps what it has"


def observed(snapshot: Snapshot, enforce: EnforceSection | None, own: int) -> dict[JobKey, str]:
    """Say which jobs are observed only, and why.

    Parameters
    ----------
    snapshot
        All jobs.
    enforce
        The lists of whose jobs may be acted on. None where slaqd only observes: then
        the plan shows for everybody what it would do.
    own
        The uid that slaqd runs as: its jobs need no entry in the lists.

    """
    whys = {job.key: _strange(job) or _outside(job, enforce, own) for job in snapshot.jobs}
    return {key: why for key, why in whys.items() if why}


def braked(snapshot: Snapshot, paused: Collection[JobKey], observed: Mapping[JobKey, str]) -> Snapshot:
    """Give each job that may not be touched now a gap that says why."""
    whys = {**observed, **dict.fromkeys(paused, _PAUSED)}
    if not whys:
        return snapshot
    jobs = tuple(
        msgspec.structs.replace(job, gap=_PAUSED if job.key in paused else job.gap or whys[job.key])
        if job.key in whys
        else job
        for job in snapshot.jobs
    )
    return msgspec.structs.replace(snapshot, jobs=jobs)


def free_to_start(snapshot: Snapshot, observed: Mapping[JobKey, str]) -> frozenset[JobKey]:
    """Name the waiting commands that slaqd may never admit: they must not wait for it."""
    return frozenset(job.key for job in snapshot.jobs if job.state is State.WAITING and job.key in observed)


def halted(stop: Path) -> str:
    """Say what halts every act: the file ``stop`` is there, or can't be looked for. Empty where nothing does.

    Whatever stands there counts, a dangling link too. This is looked at right before
    each act, so the file works while everything else of the daemon hangs.
    """
    try:
        os.lstat(stop)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"halted: whether {stop} is there can't be told: {error.strerror}"
    return f"halted by the file {stop}"


def _strange(job: Job) -> str:
    held = {name for amounts in (job.unit, job.overhead) for name, amount in amounts.items() if amount}
    others = sorted(held - HANDED_OUT)
    return f"holds {', '.join(others)}: observed only" if others else ""


def _outside(job: Job, enforce: EnforceSection | None, own: int) -> str:
    if enforce is None or job.owner.uid == own:
        return ""
    owner = job.owner
    if job.pool in enforce.pools or owner.account in enforce.accounts or owner.name in enforce.users:
        return ""
    account = f", its account {owner.account}" if owner.account else ""
    return f"observed only: neither its pool {job.pool}{account} nor its user {owner.name} is in [enforce]"
