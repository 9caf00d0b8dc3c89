"""What one job asks of the planner: its bounds, its unit, its lever's cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from slaqd.adapter import Capabilities, LeverSpec
from slaqd.tag import LEAST_WEIGHT, MOST_UNITS, MOST_WEIGHT
from slaqd.types import Job, JobKey, Lever, Resources, State


@dataclass(frozen=True)
class Ask:
    """One job of one pool, as the policies see it.

    ``index`` is its row in the forecast. ``min`` and ``max`` already hold what can't
    be changed now; ``top`` says in words what stops the job at ``max``. ``free`` tells
    that a change costs the job nothing.
    """

    index: int
    key: JobKey
    min: int
    max: int
    unit: Resources
    grain: int = 1
    allowed: tuple[int, ...] = ()
    weight: float = 1.0
    held: int = 0
    overhead: Resources = field(default_factory=dict)
    lever: LeverSpec = field(default_factory=LeverSpec)
    waiting: bool = False
    submitted: float = 0.0
    known: bool = False
    top: str = "at its maximum"

    @property
    def free(self) -> bool:
        """Tell whether a change costs nothing: no pause, no lost work."""
        return self.lever.pause_s <= 0.0 and not self.lever.loses_work

    @property
    def movable(self) -> bool:
        """Tell whether a size can be chosen without cost: a job that starts has no size to lose."""
        return self.free or self.waiting

    def next(self, units: int) -> int | None:
        """Give the next size above ``units`` that the job can hold, or None."""
        steps = self.ladder(units, 1)
        return steps[0] if steps else None

    def ladder(self, units: int, count: int) -> list[int]:
        """Give up to ``count`` sizes above ``units`` that the job can hold, ascending."""
        if self.allowed:
            start = bisect_right(self.allowed, max(units, self.min - 1))
            return [size for size in self.allowed[start : start + count] if size <= self.max]
        first = max(self.min, units + self.grain)
        return list(range(first, min(self.max, first + self.grain * (count - 1)) + 1, self.grain))

    def below(self, units: int) -> int:
        """Give the largest size possible that is not above ``units``; its minimum where there is none.

        What the job holds already is possible too, whatever its grain.
        """
        top = min(units, self.max)
        if self.min <= top == self.held:
            return top
        if self.allowed:
            at = bisect_right(self.allowed, top)
            return max(self.min, self.allowed[at - 1] if at else self.min)
        return self.min + max(0, top - self.min) // self.grain * self.grain


def ask(index: int, job: Job, capabilities: Capabilities, *, known: bool) -> Ask:
    """Build a job's ask from its row in the snapshot."""
    low, high, top = _bounds(job)
    return Ask(
        index=index,
        key=job.key,
        min=low,
        max=high,
        grain=max(1, job.sizes.grain),
        allowed=job.sizes.allowed,
        weight=_weight(job.tag.weight),
        held=job.held,
        unit=job.unit,
        overhead=job.overhead,
        lever=capabilities.levers.get(job.lever, LeverSpec()),
        waiting=job.state is State.WAITING,
        submitted=job.submitted,
        known=known,
        top=top,
    )


def untouchable(job: Job, capabilities: Capabilities, pools: Mapping[str, Resources]) -> str | None:
    """Say why a job's units can't be planned, or None where they can."""
    if job.state is State.ENDED:
        return "it has ended"
    if job.gap is not None:
        return f"left as it is: {job.gap}"
    if job.lever is Lever.NONE:
        return "advised only: it has no lever"
    if job.lever not in capabilities.levers:
        return f"advised only: lever {job.lever.value} is not to be had here"
    if job.pool not in pools:
        return f"left as it is: nothing is known of the pool {job.pool!r}"
    beyond = f"left as it is: it holds more than {MOST_UNITS} units, the most that is planned"
    return beyond if job.held > MOST_UNITS else None


def _weight(said: float | None) -> float:
    """Bound a weight as the tag's grammar does; an adapter or an older journal may hold any."""
    return min(max(said, LEAST_WEIGHT), MOST_WEIGHT) if said is not None and said > 0.0 else 1.0


def _bounds(job: Job) -> tuple[int, int, str]:
    """Narrow a job's sizes to what can be done now, and say what stops its growth."""
    sizes = job.sizes
    low = min(sizes.allowed) if sizes.allowed else max(1, sizes.min)
    most = min(sizes.max, MOST_UNITS)
    high = max(sizes.allowed) if sizes.allowed else max(low, most)
    low, high = _within(sizes.allowed, sizes.min, low), max(low, min(high, most))
    top = "at its maximum"
    if job.wants is not None and job.wants < high:
        high, top = max(low, job.wants), "has all that it wants"
    if job.state is not State.RUNNING:
        return low, high, top
    if job.cannot_grow is not None and job.held < high:
        high, top = job.held, f"can't grow: {job.cannot_grow}"
        low = min(low, high)
    if job.cannot_shrink is not None and job.held > low:
        low = job.held
        high = max(low, high)
    return low, high, top


def _within(allowed: tuple[int, ...], floor: int, low: int) -> int:
    """Give the smallest allowed size that is not under the floor."""
    return next((size for size in allowed if size >= floor), low)
