"""The minimums of running jobs: a user's own word, which takes nothing from other users that it can't have.

A job that slaqd holds to its minimum or more keeps it. Any other one's is taken up where
it fits beside those of all jobs, or, beside its user's own, into that user's even share
of the room. Where all running jobs are one user's, whatever the room could hold is taken
up, and what a job has already: nobody else is there to lose by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Room
from slaqd.tag import MOST_UNITS
from slaqd.types import Job, Resources

Left = list[tuple[Ask, str]]
"""Jobs that are left as they are, and why."""


def take_up(running: Sequence[Ask], jobs: Sequence[Job], room: Room) -> tuple[list[Ask], Left]:
    """Take minimums and overheads out of the room; give the jobs that have theirs, and those left alone.

    Parameters
    ----------
    running
        What the running jobs of one pool ask.
    jobs
        The snapshot's; ``Ask.index`` is a job's row.
    room
        What all may hold together; afterwards, what is left of it.

    """
    whole = room.copy()
    owners = {one.index: jobs[one.index].owner.uid for one in running}
    users = set(owners.values())
    shares = {uid: whole.part(len(users)) for uid in users}
    alone = len(users) == 1
    kept, left = [], []
    for one in sorted(running, key=lambda one: _order(one, jobs)):
        mine = shares[owners[one.index]]
        if _is_new(one, jobs) and not (
            (one.held >= one.min or _fits(one, whole)) if alone else (_fits(one, room) or _fits(one, mine))
        ):
            left.append(one)
            continue
        for each in (room, mine):
            take(each, one.unit, one.min, one.overhead)
        kept.append(one)
    for one in left:
        _count(one, _uses(one, jobs), shares[owners[one.index]], room)
    return kept, [(one, _why(one, whole)) for one in left]


def _order(one: Ask, jobs: Sequence[Job]) -> tuple[bool, float, int]:
    return _is_new(one, jobs), one.submitted, one.index


def _is_new(one: Ask, jobs: Sequence[Job]) -> bool:
    """Tell whether slaqd doesn't hold a job to its minimum yet; what it uses meanwhile is its own choice."""
    return (jobs[one.index].target or 0) < one.min


def _uses(one: Ask, jobs: Sequence[Job]) -> int:
    return max(one.held, jobs[one.index].target or 0)


def _fits(one: Ask, room: Room) -> bool:
    return one.min <= most_of(one, room)


def most_of(one: Ask, room: Room) -> int:
    """Give how many of a job's units a room holds beside its overhead, as far as is planned at all."""
    most = room.most(room.cost(one.unit), room.cost(one.overhead))
    return MOST_UNITS if most is None else min(most, MOST_UNITS)


def _count(one: Ask, uses: int, mine: Room, room: Room) -> None:
    """Count what a job uses that is left as it is, no further than its user's even share goes."""
    most = mine.most(mine.cost(one.unit))
    counted = uses if most is None else min(uses, most)
    for each in (room, mine):
        each.take(each.cost(one.unit), counted)


def _why(one: Ask, whole: Room) -> str:
    most = most_of(one, whole)
    if most < one.min:
        return f"left as it is: its minimum is {count(one.min)}, there {are(most)} in all"
    return f"left as it is: its minimum is {count(one.min)}, more than is free and than its user's even share"


def take(room: Room, unit: Resources, units: int, overhead: Resources) -> None:
    """Take units and an overhead out of a room."""
    room.take(room.cost(unit), units)
    if overhead:
        room.take(room.cost(overhead), 1)


def count(units: int) -> str:
    """Write a number of units in words."""
    return "1 unit" if units == 1 else f"{units} units"


def are(units: int) -> str:
    """Write that there are so many."""
    return "is 1" if units == 1 else f"are {units}"
