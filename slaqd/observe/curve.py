"""A job's loss history, cleaned: steps that rise, losses that are numbers."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left

from slaqd.types import Curve, Health

MAX_POINTS = 10_000
"""Points kept, unless a `History` is told otherwise. Beyond it every second one of the older half goes."""
LARGEST = 1e150
"""A loss beyond this counts as infinite: its square would not fit a float."""
LARGEST_STEP = 2.0**53
"""Steps beyond this can't be told apart in a float."""


class History:
    """Holds the points that the roll-back rule keeps.

    When the step falls, the job has started again: earlier points at or past the new
    step go; of equal steps the last one counts. Beside each point stand the count,
    the lowest loss and the largest change up to it, thinned-out points included, so
    that nothing has to be looked at again when points go. Every call costs a
    constant time, averaged over the calls. At most ``most`` points are kept, and never
    fewer than the newest half of that.
    """

    def __init__(self, most: int = MAX_POINTS) -> None:
        self._most = most
        self._lent = False
        self.steps = array("d")
        self.losses = array("d")
        self.seconds = array("d")
        self._counts = array("d")
        self._lowest = array("d")
        self._changes = array("d")
        self.first = 0.0

    def __len__(self) -> int:
        """Count the points kept."""
        return len(self.steps)

    def add(self, step: float, loss: float, second: float) -> None:
        """Append a point. ``loss`` is finite; ``second`` may be NaN."""
        self.roll_back(step)
        self._take_back()
        if not self.steps:
            self.first = loss
            count, lowest, change = 1.0, loss, 0.0
        else:
            count = self._counts[-1] + 1
            lowest = min(self._lowest[-1], loss)
            change = max(self._changes[-1], abs(loss - self.losses[-1]))
        self.steps.append(step)
        self.losses.append(loss)
        self.seconds.append(second)
        self._counts.append(count)
        self._lowest.append(lowest)
        self._changes.append(change)
        if len(self.steps) > self._most:
            self._thin()

    def roll_back(self, step: float) -> bool:
        """Drop the points at ``step`` and past it. True if the step fell below the last one."""
        if not self.steps or step > self.steps[-1]:
            return False
        fell = step < self.steps[-1]
        self._take_back()
        keep = bisect_left(self.steps, step)
        for values in self._all():
            del values[keep:]
        return fell

    def clear(self) -> None:
        """Forget everything."""
        self._take_back()
        for values in self._all():
            del values[:]

    def forget_seconds(self) -> None:
        """Take back what a column said that turned out not to be a clock."""
        self.seconds = array("d", [math.nan]) * len(self.steps)

    def curve(self, health: Health, path: str, note: str) -> Curve:
        """Give the points out. Later ones don't change them: the next change is made on a copy."""
        if not self.steps:
            return Curve(health=health, path=path, note=note)
        self._lent = True
        return Curve(
            steps=self.steps,
            losses=self.losses,
            seconds=self.seconds,
            count=int(self._counts[-1]),
            first=self.first,
            lowest=self._lowest[-1],
            largest_change=self._changes[-1],
            health=health,
            path=path,
            note=note,
        )

    def _take_back(self) -> None:
        """Leave what a curve shows to that curve, and go on with a copy."""
        if self._lent:
            self.steps, self.losses, self.seconds = self.steps[:], self.losses[:], self.seconds[:]
            self._lent = False

    def _all(self) -> tuple[array[float], ...]:
        """List the columns."""
        return (self.steps, self.losses, self.seconds, self._counts, self._lowest, self._changes)

    def _thin(self) -> None:
        """Drop every second point of the older half; the very first stays."""
        half = len(self.steps) // 2
        for values in self._all():
            values[:half] = values[:half:2]


class Counter:
    """Turns a count that starts again in every epoch into one that goes on.

    Old mmcv logs and many loops of one's own write ``epoch`` and ``iter``, the second
    from 1 in each epoch: no restart, though it falls. The last ``most`` epochs are
    remembered; a job that goes back further than that counts from its own number.
    """

    def __init__(self, most: int = MAX_POINTS) -> None:
        self._most = most
        self._epoch = -math.inf
        self._raw = -math.inf
        self._step = 0.0
        self._bases: list[tuple[float, float]] = []

    def step(self, raw: float, epoch: float | None) -> float:
        """Tell the step that a row with this count and this epoch (None: as before) stands for."""
        if epoch is None or math.isnan(epoch):
            epoch = self._epoch
        if epoch < self._epoch:
            self._bases = [base for base in self._bases if base[0] <= epoch]
        elif epoch > self._epoch and raw <= self._raw:
            del self._bases[: -self._most]
            self._bases.append((epoch, self._step + (1 if raw <= 0 else 0)))
        self._epoch, self._raw = epoch, raw
        self._step = raw + (self._bases[-1][1] if self._bases else 0.0)
        return self._step
