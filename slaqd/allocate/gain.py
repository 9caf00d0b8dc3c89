"""What the policies read: predicted falls, and room counted in whole resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slaqd.allocate.ask import Ask
from slaqd.types import Resources

Floats = NDArray[np.float64]


class Falls(Protocol):
    """As much of a `slaqd.predict.Forecast` as the policies use."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """(J,) whether anything is predicted of a job."""
        ...

    @property
    def reason(self) -> tuple[str, ...]:
        """(J,) why nothing is."""
        ...

    def fall(self, jobs: ArrayLike, units: ArrayLike) -> Floats:
        """Predict the fall of the normalised loss over the coming epoch."""
        ...


class Room:
    """What is left of a pool, resource by resource. Taking is the only way to change it.

    A resource that a unit has and the pool does not count is not limited.
    """

    __slots__ = ("_cost", "_left", "_names", "_nothing", "_share", "_unit", "_whole")

    def __init__(self, whole: Resources) -> None:
        self._names = tuple(whole)
        self._left = [whole[name] for name in self._names]
        self._whole = [max(1, amount) for amount in self._left]
        self._unit: Resources | None = None
        self._nothing = (0,) * len(self._names)

    def cost(self, unit: Resources) -> tuple[int, ...]:
        """Write a unit, or an overhead, in this pool's resources."""
        if not unit:  # most overheads: they must not push the unit out of what is remembered
            return self._nothing
        self._look_at(unit)
        return self._cost

    def share(self, unit: Resources) -> float:
        """Give a unit's dominant share of the whole pool (Ghodsi et al., DRF, NSDI 2011)."""
        self._look_at(unit)
        return self._share

    def _look_at(self, unit: Resources) -> None:
        # Most jobs of a pool have the same unit, and each is asked about many times.
        if unit is not self._unit and unit != self._unit:
            self._unit = unit
            self._cost = tuple([unit.get(name, 0) for name in self._names])
            shares = [need / have for need, have in zip(self._cost, self._whole, strict=True)]
            self._share = max(shares, default=0.0)

    def fits(self, cost: tuple[int, ...], units: int) -> bool:
        """Tell whether so many units are still there."""
        return all(units * need <= left for need, left in zip(cost, self._left, strict=True) if need)

    def most(self, cost: tuple[int, ...], beside: tuple[int, ...] | None = None) -> int | None:
        """Give how many units are still there once ``beside`` is taken; None if nothing limits them."""
        first = beside or self._nothing
        rooms = zip(cost, first, self._left, strict=True)
        limits = [
            (left - extra) // need if need else -(left < extra)
            for need, extra, left in rooms
            if need or extra > left
        ]
        return max(0, min(limits)) if limits else None

    def take(self, cost: tuple[int, ...], units: int) -> None:
        """Take units out, also those that are not there: what is held is held."""
        self._left = [left - units * need for need, left in zip(cost, self._left, strict=True)]

    def copy(self) -> Room:
        """Give a room of its own with the same left in it."""
        twin = Room(dict(zip(self._names, self._whole, strict=True)))
        twin._left = list(self._left)
        return twin

    def part(self, count: int) -> Room:
        """Give a room of its own with one of ``count`` even parts of what is left in it."""
        return Room({name: amount // count for name, amount in self.left().items()})

    def holds(self) -> bool:
        """Tell whether no more was taken than was there."""
        return all(left >= 0 for left in self._left)

    def left(self) -> Resources:
        """Give what is left, nothing below zero."""
        return {name: max(0, left) for name, left in zip(self._names, self._left, strict=True)}


def start(asks: Sequence[Ask], room: Room) -> list[int]:
    """Give everyone their minimum and take it out of the room."""
    for one in asks:
        room.take(room.cost(one.unit), one.min)
    return [one.min for one in asks]
