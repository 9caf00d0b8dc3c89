"""One job's row of the snapshot, made from what was seen of it. Pure."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from slaqd.adapter import Registration
from slaqd.tag import MOST_UNITS
from slaqd.types import Job, Lever, Resources, Sizes, State
from slaqd_local import demand
from slaqd_local.config import POOL
from slaqd_local.means import Seen


class Facts(NamedTuple):
    """What was seen of one job.

    ``uses`` is what it used of late, in cores; ``spares`` says the same of a job that
    leaves some of its quota unused, else it is None. ``escapes`` says what stays outside
    its quota: it may shrink, or that would freeze it at its largest, and not grow.
    ``in_hold`` tells whether slaqd may have it in a hold, whole or half done, which is
    to be given back should its lever be another by now.
    """

    state: State
    seen: Seen | None = None
    in_hold: bool = False
    restored: bool = False
    cpu_seconds: float | None = None
    uses: float = 0.0
    spares: float | None = None
    escapes: str | None = None
    gap: str | None = None


def lever(registration: Registration) -> tuple[Lever, str | None]:
    """Tell a job's lever, and why it can't be moved if it asked for one that is not of this machine."""
    asked = registration.tag.lever
    if asked in {None, Lever.CPUS}:
        return Lever.CPUS, None
    if asked is Lever.FILE:
        return (Lever.FILE, None) if registration.tag.dir else (Lever.NONE, "lever=file needs dir=")
    return Lever.NONE, None if asked is Lever.NONE else f"lever {asked} is not one of this machine's"


def sizes(registration: Registration, all_units: int) -> Sizes:
    """Bound a job by its tag, else by the whole machine; numbers that no tag may say are cut."""
    least = min(MOST_UNITS, max(1, registration.tag.min or 1))
    return Sizes(min=least, max=max(least, min(MOST_UNITS, registration.tag.max or all_units)))


def target(seen: Seen | None, unit_milli: int) -> int | None:
    """Turn a quota that was read back into units.

    A quota that is no whole number of units was set under another configuration:
    the job counts as not held, and is adopted anew.
    """
    if seen is None or seen.milli is None or seen.milli % unit_milli:
        return None
    return seen.milli // unit_milli


def _still_in_force(facts: Facts, unit_milli: int) -> int | None:
    """Count the units that a job is held to although its lever doesn't; None where it isn't.

    Whatever there is of the hold counts as one: what is half done, or lifted, or set
    under another configuration has to be given back as well.
    """
    if not facts.in_hold or facts.state is not State.RUNNING:
        return None
    milli = facts.seen.milli if facts.seen is not None else None
    return max(1, _in_use(facts, unit_milli) if milli is None else -(-milli // unit_milli))


@cache
def _unit(unit_milli: int) -> Resources:
    """Give the one unit that all jobs share: what is the same object is compared quickly."""
    return {"cpu_milli": unit_milli}


def row(registration: Registration, facts: Facts, unit_milli: int, all_units: int) -> Job:
    """Make the row. A job that is held to nothing is shown to hold what it uses."""
    moved_by, why = lever(registration)
    bounds = sizes(registration, all_units)
    ended = facts.state is State.ENDED
    if moved_by is Lever.CPUS:
        held_to = None if facts.restored or ended else target(facts.seen, unit_milli)
    else:
        held_to = _still_in_force(facts, unit_milli)
    wants = None if facts.spares is None else demand.units(facts.spares, unit_milli, bounds.min, bounds.max)
    return Job(
        key=registration.key,
        name=registration.name,
        owner=registration.owner,
        state=facts.state,
        pool=POOL,
        tag=registration.tag,
        lever=moved_by,
        unit=_unit(unit_milli),
        sizes=bounds,
        held=_in_use(facts, unit_milli) if held_to is None else held_to,
        cwd=registration.cwd,
        submitted=registration.submitted,
        target=held_to,
        wants=None if ended or held_to is None else wants,
        cpu_seconds=facts.cpu_seconds,
        cannot_grow=why or facts.escapes,
        cannot_shrink=why,
        gap=facts.gap,
    )


def _in_use(facts: Facts, unit_milli: int) -> int:
    """Count the units that a running job uses; one that was given back is none of slaqd's."""
    if facts.restored or facts.state is not State.RUNNING:
        return 0
    return round(facts.uses * 1000 / unit_milli)
