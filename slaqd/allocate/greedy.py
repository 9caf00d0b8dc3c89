"""SLAQ's greedy: each next unit to the largest predicted fall (SoCC 2017, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

import numpy as np

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Falls, Room

FIRST = 8
"""Sizes ahead that are priced at once for every job; a job that climbs on prices twice as many."""

LARGEST = 4096
"""Most sizes priced at once for one job."""


class _Climb:
    """One job's way up: its next sizes and what each would bring per dominant share."""

    __slots__ = ("ask", "at", "cost", "densities", "share", "sizes")

    def __init__(self, ask: Ask, room: Room) -> None:
        self.ask = ask
        self.cost = room.cost(ask.unit)
        self.share = max(room.share(ask.unit), 1e-12)
        self.sizes: list[int] = []
        self.densities: list[float] = []
        self.at = 0


def greedy(
    asks: Sequence[Ask], falls: Falls, units: list[int], room: Room, take_part: Sequence[bool]
) -> None:
    """Hand out room from ``units`` upwards, in place, until nobody gains from more.

    Each step goes to the job whose next size brings the largest fall, times its
    weight, per dominant share of the pool; ties go to the earlier job. For falls
    that are concave in the units, as those of `slaqd.predict` are, and units of one
    shape this is the best split there is.
    """
    climbs = [_Climb(one, room) for one in asks]
    ready = [at for at, part in enumerate(take_part) if part]
    for at in ready:
        climbs[at].sizes = _ladder(climbs[at], units[at], FIRST, room)
    _price(climbs, falls, units, [at for at in ready if climbs[at].sizes])
    heap = [(-c.densities[0], at) for at, c in enumerate(climbs) if c.densities and c.densities[0] > 0.0]
    heapify(heap)
    while heap:
        at = heap[0][1]
        climb = climbs[at]
        size = climb.sizes[climb.at]
        if not room.fits(climb.cost, size - units[at]):
            heappop(heap)
            continue
        room.take(climb.cost, size - units[at])
        units[at] = size
        gain = _next_density(climb, at, falls, units, room)
        if gain > 0.0:
            heapreplace(heap, (-gain, at))
        else:
            heappop(heap)


def _next_density(climb: _Climb, at: int, falls: Falls, units: list[int], room: Room) -> float:
    climb.at += 1
    if climb.at == len(climb.sizes):
        count = min(2 * len(climb.sizes), LARGEST)
        _price_one(climb, falls, units[at], count, room)
    return climb.densities[climb.at] if climb.at < len(climb.densities) else 0.0


def _ladder(climb: _Climb, units: int, count: int, room: Room) -> list[int]:
    most = room.most(climb.cost)
    return climb.ask.ladder(units, count if most is None else min(count, most + 1))


def _price_one(climb: _Climb, falls: Falls, units: int, count: int, room: Room) -> None:
    climb.at, climb.sizes = 0, _ladder(climb, units, count, room)
    if climb.sizes:
        sizes = np.array([units, *climb.sizes])
        gains = np.diff(falls.fall(np.full(len(sizes), climb.ask.index), sizes))
        climb.densities = (gains * climb.ask.weight / (np.diff(sizes) * climb.share)).tolist()
    else:
        climb.densities = []


def _price(climbs: list[_Climb], falls: Falls, units: list[int], who: list[int]) -> None:
    """Price the next sizes of many jobs in one go: a table, padded with each job's last size."""
    if not who:
        return
    rows = [[units[at], *climbs[at].sizes] for at in who]
    wide = max(len(row) for row in rows)
    sizes = np.array([row + row[-1:] * (wide - len(row)) for row in rows])
    jobs = np.array([climbs[at].ask.index for at in who])
    worth = np.array([climbs[at].ask.weight / climbs[at].share for at in who])
    gains = np.diff(falls.fall(jobs[:, None], sizes), axis=1) * worth[:, None]
    densities = gains / np.maximum(np.diff(sizes, axis=1), 1)
    for at, row in zip(who, densities.tolist(), strict=True):
        climbs[at].densities = row[: len(climbs[at].sizes)]
