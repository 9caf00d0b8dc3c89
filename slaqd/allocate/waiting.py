"""Which waiting jobs are let in: first what each user is owed, then what is free, in order.

A minimum within what is left of its user's even share goes before all that are beyond
one, whoever was first: it is let in where it fits beside the minimums of what runs, whose
jobs give back what they have above them, and until it does nothing beyond a share is.
All shares together are no more than the room, so it waits only while others have more
than theirs. Minimums beyond the shares follow into what is free: those of jobs that run
already, then the others in order of submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Room
from slaqd.allocate.minimums import Late, Left, Shares, are, count, fits, take, take_late, take_minimum


class Entry(NamedTuple):
    """Who is let in, or taken up, beside those that have their minimums; and who isn't, with the reason."""

    kept: list[Ask]
    waits: Left
    left: Left


def let_in(waiting: Sequence[Ask], late: Late, shares: Shares, room: Room, whole: Room) -> Entry:
    """Take minimums and overheads out of the room for whoever is let in.

    Parameters
    ----------
    waiting
        What the waiting jobs of one pool ask.
    late
        The running jobs that ask for more than a share.
    shares
        What the running jobs leave of each user's share.
    room
        What they leave of the room; afterwards, what is left of it.
    whole
        The room before any minimum was taken. A waiting job that neither it nor an even
        share could ever hold lets all others pass.

    """
    queue, never = [], []
    for one in sorted(waiting, key=lambda one: (one.submitted, one.index)):
        most = shares.most(one, whole)
        if most < one.min:
            never.append((one, f"waits: needs {count(one.min)}, there {are(most)} in all"))
        else:
            queue.append(one)
    owed, short, rest = _owed(queue, shares, room)
    taken, left = take_late(late, shares, room, whole, owing=bool(short))
    more, waits = _in_order(rest, short, shares, room)
    return Entry([*owed, *taken, *more], [*never, *waits], left)


def _owed(queue: Sequence[Ask], shares: Shares, room: Room) -> tuple[list[Ask], list[Ask], list[Ask]]:
    """Let in what each user's share and the room hold, up to the first of the user's jobs that they don't.

    Give those jobs, those for which only room is missing, and the others.
    """
    owed, short, rest = list[Ask](), list[Ask](), list[Ask]()
    stopped = set[int]()
    for one in queue:
        due = shares.user(one) not in stopped and shares.owe(one)
        if due and fits(one, room):
            take_minimum(one, shares, room)
            owed.append(one)
        else:
            (short if due else rest).append(one)
            stopped.add(shares.user(one))
    return owed, short, rest


def _in_order(
    queue: Sequence[Ask], short: Sequence[Ask], shares: Shares, room: Room
) -> tuple[list[Ask], Left]:
    """Let in what fits; behind the first that doesn't all wait, or small jobs would pass it for ever."""
    waits: Left = [(one, _why(one, room, set(), shares.user(one))) for one in short]
    admitted, users = [], {shares.user(one) for one in short}
    for one in queue:
        if users or not fits(one, room):
            waits.append((one, _why(one, room, users, shares.user(one))))
            users.add(shares.user(one))
            continue
        take(room, one.unit, one.min, one.overhead)
        admitted.append(one)
    return admitted, waits


def _why(one: Ask, room: Room, before: set[int], user: int) -> str:
    free = room.most(room.cost(one.unit), room.cost(one.overhead))
    why = f"needs {count(one.min)}, {'enough' if free is None else free} free"
    if not before:
        return f"waits: {why}"
    whose = "an earlier job of the same user" if user in before else "a job of another user"
    return f"waits behind {whose}: {why}"
