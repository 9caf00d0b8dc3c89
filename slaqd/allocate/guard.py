"""The last look at a split: whatever a policy did, no bound is broken."""

from __future__ import annotations

from collections.abc import Sequence

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Room
from slaqd.types import Resources


def clamp(asks: Sequence[Ask], units: Sequence[int], room: Resources) -> list[int]:
    """Bring a split within each job's sizes and the room.

    Sizes that a job can't hold are rounded down, never under its minimum, which also
    holds what can't be taken from it. While the sum is above the room, the job that
    holds the largest dominant share above its minimum gives a step back. Only
    minimums that don't fit together may leave the sum above the room.
    """
    rest = Room(room)
    kept = [one.below(size) for one, size in zip(asks, units, strict=True)]
    costs = [rest.cost(one.unit) for one in asks]
    shares = [rest.share(one.unit) for one in asks]
    for cost, size in zip(costs, kept, strict=True):
        rest.take(cost, size)
    while not rest.holds():
        giving = [at for at, one in enumerate(asks) if kept[at] > one.min]
        if not giving:
            break
        at = max(giving, key=lambda i: (shares[i] * kept[i], i))
        smaller = asks[at].below(kept[at] - 1)
        rest.take(costs[at], smaller - kept[at])
        kept[at] = smaller
    return kept
