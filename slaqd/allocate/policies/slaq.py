"""SLAQ: units go where the loss is predicted to fall the most."""

from __future__ import annotations

from collections.abc import Sequence

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Falls, Room, start
from slaqd.allocate.greedy import greedy
from slaqd.allocate.policies.fair import Fair, fill
from slaqd.types import Resources


class Slaq:
    """Everyone their minimum, then the greedy.

    A job of which nothing is known gets its fair share where a change costs nothing,
    and keeps what it holds elsewhere. Room from which nobody is predicted to gain
    stays with those who hold it and would pay for a change; what is still left is
    handed out evenly to those for whom a change is free.
    """

    name = "slaq"

    def split(self, asks: Sequence[Ask], forecast: Falls, room: Resources) -> list[int]:
        """Split a pool's room among jobs whose minimums are theirs already."""
        rest = Room(room)
        units = start(asks, rest)
        young = [at for at, one in enumerate(asks) if not one.known]
        if young:
            fair = Fair().split(asks, forecast, room)
            for at in young:
                _raise(asks[at], at, fair[at] if asks[at].movable else asks[at].held, units, rest)
        greedy(asks, forecast, units, rest, [one.known for one in asks])
        for at, one in enumerate(asks):
            if not one.movable:
                _raise(one, at, one.held, units, rest)
        fill(asks, units, rest, [one.movable for one in asks])
        return units


def _raise(one: Ask, at: int, goal: int, units: list[int], rest: Room) -> None:
    """Bring a job as near to ``goal`` as the room allows, never down."""
    cost = rest.cost(one.unit)
    most = rest.most(cost)
    size = one.below(goal if most is None else min(goal, units[at] + most))
    if size > units[at]:
        rest.take(cost, size - units[at])
        units[at] = size
