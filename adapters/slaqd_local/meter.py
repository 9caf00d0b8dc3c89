"""The CPU time of a set of processes that come and go. Standard library only: the keepers load this.

A parent's count takes over its child's when it waits for it, so the sum of what the
living have used and have reaped never loses a child that ends between two looks.
A child that nobody in the set waits for does vanish with its count: the meter keeps
what it saw of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Reading(NamedTuple):
    """CPU seconds of one process, by itself and by the children it waited for."""

    own: float
    reaped: float


Key = tuple[int, int]
"""Pid and start: numbers are used again."""


class Meter:
    """Adds up what a changing set of processes uses. The first look is the zero."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last: Mapping[Key, Reading] | None = None

    def look(self, now: Mapping[Key, Reading]) -> float:
        """Take in the present readings; give the CPU seconds since the look before."""
        before, self._last = self._last, dict(now)
        if before is None or before == now:
            return 0.0
        used = _used(before, now)
        self.seconds += used
        return used


def _used(before: Mapping[Key, Reading], now: Mapping[Key, Reading]) -> float:
    zero = Reading(0.0, 0.0)
    own = sum(max(0.0, reading.own - before.get(key, zero).own) for key, reading in now.items())
    reaped = sum(max(0.0, reading.reaped - before.get(key, zero).reaped) for key, reading in now.items())
    gone = sum(sum(reading) for key, reading in before.items() if key not in now)
    return own + max(0.0, reaped - gone)
