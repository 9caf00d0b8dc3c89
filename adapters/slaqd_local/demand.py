"""What a job could use: one that leaves its quota unused gives the rest back."""

from __future__ import annotations

import math
from typing import NamedTuple

from slaqd_local.means import Seen

_SHORTEST_S = 0.9
_CLEARLY = 0.7
_CLEARLY_IN_A_CROWD = 0.1
_THROTTLED = 0.1
_LOOKS = 2


class _Look(NamedTuple):
    at: float
    cpu_seconds: float
    periods: int
    throttled: int


class Demand:
    """Watches one job's use from look to look."""

    def __init__(self) -> None:
        self._last: _Look | None = None
        self._spare: list[float] = []

    def look(
        self, at: float, cpu_seconds: float | None, seen: Seen, *, crowded: bool = False
    ) -> float | None:
        """Give the cores that the job uses if it clearly leaves some unused, else None.

        It does if in each of the last two intervals (of a second or so) it used less
        than 70 % of its quota and was cut short in at most one quota period of ten. On
        a ``crowded`` machine it may have been waiting for a CPU: then it must be 10 %.
        """
        if cpu_seconds is None or seen.milli is None:
            self._last, self._spare = None, []
            return None
        now = _Look(at, cpu_seconds, seen.periods, seen.throttled)
        if self._last is None:
            self._last = now
        elif at - self._last.at >= _SHORTEST_S:
            use = (now.cpu_seconds - self._last.cpu_seconds) / (at - self._last.at)
            least = _CLEARLY_IN_A_CROWD if crowded else _CLEARLY
            idle = use < least * seen.milli / 1000 and not _cut_short(self._last, now)
            self._spare = [*self._spare, use][-_LOOKS:] if idle else []
            self._last = now
        return max(self._spare) if len(self._spare) == _LOOKS else None


def _cut_short(before: _Look, now: _Look) -> bool:
    return now.throttled - before.throttled > _THROTTLED * max(1, now.periods - before.periods)


def units(cores: float, unit_milli: int, least: int, most: int) -> int:
    """Turn a use into the units a job wants: one more than it uses, within its bounds."""
    return min(most, max(least, math.ceil(cores * 1000 / unit_milli) + 1))
