"""The minimums of running jobs: a user's own word, which takes nothing from other users that it can't have.

A job that slaqd holds to its minimum or more keeps it. Any other one's is taken up where
it fits, beside its user's own, into that user's even share of the room; or else beside
those of all jobs, where nobody waits for a share. Where all jobs are one user's, whatever
the room could hold is taken up, and what a job has already: nobody else is there to lose
by it. `slaqd.allocate.waiting` lets in who waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Room
from slaqd.tag import MOST_UNITS
from slaqd.types import Job, Resources

Left = list[tuple[Ask, str]]
"""Jobs that are left as they are, and why."""
Late = list[tuple[Ask, int]]
"""Running jobs whose minimums are beyond their users' shares, and how many of their units are counted."""


class Shares:
    """What is left of each user's even share of a pool. Who has a job there counts once, running or waiting.

    ``room`` is what the pool's jobs may hold together. ``fixed`` are those that are held
    and can't be planned: they stay at their user's cost, and lower nobody else's share.
    """

    def __init__(self, room: Room, asks: Sequence[Ask], fixed: Sequence[Job], jobs: Sequence[Job]) -> None:
        self._owners = {one.index: jobs[one.index].owner.uid for one in asks}
        users = {*self._owners.values(), *(job.owner.uid for job in fixed)}
        self._even = room.part(max(1, len(users)))
        self._left = {uid: self._even.copy() for uid in users}
        self.alone = len(users) == 1
        for job in fixed:
            take(self._left[job.owner.uid], job.unit, promised(job), job.overhead)

    def user(self, one: Ask) -> int:
        """Give the user whose job it is."""
        return self._owners[one.index]

    def of(self, one: Ask) -> Room:
        """Give what is left of its user's share."""
        return self._left[self._owners[one.index]]

    def owe(self, one: Ask) -> bool:
        """Tell whether a minimum is its user's due, whatever others hold."""
        return fits(one, self.of(one))

    def most(self, one: Ask, whole: Room) -> int:
        """Give how many of a job's units there are for it at all, in the whole room or in an even share."""
        return most_of(one, whole) if self.alone else max(most_of(one, whole), most_of(one, self._even))


def take_up(
    running: Sequence[Ask], shares: Shares, jobs: Sequence[Job], room: Room
) -> tuple[list[Ask], Late]:
    """Take minimums and overheads out of the room; give the jobs that have theirs, and those beyond a share.

    Of the latter what they use is taken out, no further than their user's share goes.

    Parameters
    ----------
    running
        What the running jobs of one pool ask.
    shares
        What is left to each user; afterwards, less what the user's jobs take.
    jobs
        The snapshot's; ``Ask.index`` is a job's row.
    room
        What all may hold together; afterwards, what is left of it.

    """
    whole = room.copy()
    kept, late = [], []
    for one in sorted(running, key=lambda one: _order(one, jobs)):
        if _is_new(one, jobs) and not _is_due(one, shares, whole):
            late.append(one)
            continue
        take_minimum(one, shares, room)
        kept.append(one)
    return kept, [(one, _count(one, promised(jobs[one.index]), shares, room)) for one in late]


def take_late(late: Late, shares: Shares, room: Room, whole: Room, *, owing: bool) -> tuple[list[Ask], Left]:
    """Take up minimums beyond a share that fit all the same; none while somebody is owed one (``owing``)."""
    kept, left = [], []
    for one, counted in late:
        _take(one, -counted, shares, room)
        if not owing and fits(one, room):
            take_minimum(one, shares, room)
            kept.append(one)
        else:
            _take(one, counted, shares, room)
            left.append((one, _why(one, whole)))
    return kept, left


def take_minimum(one: Ask, shares: Shares, room: Room) -> None:
    """Take a job's minimum and overhead out of the room and out of its user's share."""
    for each in (room, shares.of(one)):
        take(each, one.unit, one.min, one.overhead)


def _take(one: Ask, units: int, shares: Shares, room: Room) -> None:
    for each in (room, shares.of(one)):
        each.take(each.cost(one.unit), units)


def _is_due(one: Ask, shares: Shares, whole: Room) -> bool:
    if shares.alone:
        return one.held >= one.min or fits(one, whole)
    return shares.owe(one)


def _order(one: Ask, jobs: Sequence[Job]) -> tuple[bool, float, int]:
    return _is_new(one, jobs), one.submitted, one.index


def _is_new(one: Ask, jobs: Sequence[Job]) -> bool:
    """Tell whether slaqd doesn't hold a job to its minimum yet; what it uses meanwhile is its own choice."""
    job = jobs[one.index]
    return (job.target or 0) < min(one.min, job.sizes.min)  # what can't shrink now has a larger one for now


def promised(job: Job) -> int:
    """Give what a job holds or, where that is more, is held to: a growth that is under way comes true."""
    return max(job.held, job.target or 0)


def fits(one: Ask, room: Room) -> bool:
    """Tell whether a room holds a job's minimum beside its overhead."""
    return one.min <= most_of(one, room)


def most_of(one: Ask, room: Room) -> int:
    """Give how many of a job's units a room holds beside its overhead, as far as is planned at all."""
    most = room.most(room.cost(one.unit), room.cost(one.overhead))
    return MOST_UNITS if most is None else min(most, MOST_UNITS)


def _count(one: Ask, uses: int, shares: Shares, room: Room) -> int:
    """Count what a job uses, no further than its user's even share goes."""
    mine = shares.of(one)
    most = mine.most(mine.cost(one.unit))
    counted = uses if most is None else min(uses, most)
    _take(one, counted, shares, room)
    return counted


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
