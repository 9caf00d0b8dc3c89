"""Work-conserving max-min fair share: SLAQ's baseline, and what young jobs get."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Falls, Room, start
from slaqd.types import Resources


def fill(asks: Sequence[Ask], units: list[int], room: Room, take_part: Sequence[bool]) -> None:
    """Raise the lowest first, in place, until the room is used or nobody can take more.

    What is levelled is the dominant share divided by the weight; ties go to the
    earlier job.
    """
    costs = [room.cost(one.unit) for one in asks]
    slopes = [max(room.share(one.unit), 1e-12) / one.weight for one in asks]
    heap = [(units[at] * slopes[at], at) for at, part in enumerate(take_part) if part]
    heapify(heap)
    while heap:
        at = heap[0][1]
        size = asks[at].next(units[at])
        if size is None or not room.fits(costs[at], size - units[at]):
            heappop(heap)
            continue
        room.take(costs[at], size - units[at])
        units[at] = size
        heapreplace(heap, (size * slopes[at], at))


class Fair:
    """Everyone alike, whatever their loss does."""

    name = "fair"

    def split(self, asks: Sequence[Ask], forecast: Falls, room: Resources) -> list[int]:
        """Level the shares; the forecast is not read."""
        del forecast
        rest = Room(room)
        units = start(asks, rest)
        fill(asks, units, rest, [True] * len(asks))
        return units
