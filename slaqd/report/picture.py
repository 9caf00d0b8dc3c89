"""The hand tools of the pictures: text that is safe, scales, paths, axes. All SVG, made of strings."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slaqd.report.record import Steps

Floats = NDArray[np.float64]


def safe(text: object) -> str:
    """Escape text for HTML, attributes included; what can't be encoded becomes a question mark."""
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"), quote=True)


class Frame(NamedTuple):
    """A picture's size, the margins round its plot (SVG units), and the data at its far ends."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_max: float
    y_max: float

    def x(self, value: float) -> float:
        """Place a value on the horizontal axis."""
        return self.left + (self.width - self.left - self.right) * value / self.x_max

    def y(self, value: float) -> float:
        """Place a value on the vertical axis, which points up."""
        return self.floor - (self.floor - self.top) * value / self.y_max

    @property
    def floor(self) -> float:
        """Tell where the vertical axis begins."""
        return self.height - self.bottom

    @property
    def wall(self) -> float:
        """Tell where the horizontal axis ends."""
        return self.width - self.right


def svg(frame: Frame, label: str, *parts: str) -> str:
    """Wrap a picture. ``label`` says what it shows to those who don't see it."""
    head = f'<svg viewBox="0 0 {frame.width:g} {frame.height:g}" role="img" aria-label="{safe(label)}">'
    return "\n".join((head, *parts, "</svg>"))


def ticks(top: float, count: int = 6) -> list[float]:
    """Choose 0 and at most ``count`` more round numbers up to ``top``: steps of 1, 2 or 5 times 10^n."""
    if not 0 < top < math.inf:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(top / count))
    step = next(power * m for m in (1, 2, 5, 10) if top / (power * m) <= count)
    return [step * i for i in range(int(top / step) + 1)]


def words(x: float, y: float, text: str, kind: str = "tick", anchor: str = "middle") -> str:
    """Write text at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{safe(text)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    """Draw a straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def x_axis(frame: Frame, title: str, *, grid: bool = False) -> str:
    """Draw the horizontal axis with its ticks and its title, units in it."""
    at = ticks(frame.x_max)
    lines = [rule(frame.x(t), frame.top, frame.x(t), frame.floor) for t in at] if grid else []
    labels = [words(frame.x(t), frame.floor + 17, f"{t:g}") for t in at]
    middle = (frame.left + frame.wall) / 2
    base = rule(frame.left, frame.floor, frame.wall, frame.floor, "axis")
    return "".join((*lines, base, *labels, words(middle, frame.height - 4, title, "title")))


def y_axis(frame: Frame, title: str, at: Sequence[tuple[float, str]]) -> str:
    """Draw the vertical axis as grid lines with labels, and its title above the plot's corner."""
    lines = [rule(frame.left, frame.y(v), frame.wall, frame.y(v)) for v, _ in at]
    labels = [words(frame.left - 7, frame.y(v) + 4, text, anchor="end") for v, text in at]
    return "".join((*lines, *labels, words(2, 12, title, "title", "start")))


def stairs(frame: Frame, points: Iterable[tuple[float, float]]) -> str:
    """Give the path of a step function: across at the old value, then to the new one."""
    path, last = "", ("", "")
    for x, y in points:
        at = (f"{frame.x(x):.1f}", f"{frame.y(y):.1f}")
        if not path:
            path = f"M{at[0]} {at[1]}"
        else:
            path += f"H{at[0]}" if at[0] != last[0] else ""
            path += f"V{at[1]}" if at[1] != last[1] else ""
        last = at
    return path


def thin(frame: Frame, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the extremes and the last of the points that fall on one column of the picture, in their order."""
    kept: list[tuple[float, float]] = []
    for _, column in itertools.groupby(points, key=lambda point: round(frame.x(point[0]))):
        group = list(column)
        values = [y for _, y in group]
        chosen = {values.index(max(values)), values.index(min(values)), len(group) - 1}
        kept += [group[i] for i in sorted(chosen)]
    return kept


def sample(steps: Steps, at: Floats) -> Floats:
    """Read a step function at the given times; 0 before its first step."""
    if not steps:
        return np.zeros(len(at))
    times, values = np.asarray(steps, dtype=np.float64).T
    return np.concatenate(([0.0], values))[np.searchsorted(times, at, side="right")]


def band(frame: Frame, edges: Floats, low: Floats, high: Floats) -> str:
    """Give the outline of one layer of a stack: along its top, back along its bottom; "" if it is empty."""
    there = np.flatnonzero(high > low)
    if not there.size:
        return ""
    a, b = int(there[0]), int(there[-1]) + 1
    starts, ends = edges[a:b], edges[a + 1 : b + 1]
    top = _levels(starts, ends, high[a:b])
    bottom = _levels(starts, ends, low[a:b])
    return stairs(frame, top) + _back(frame, bottom) + "Z"


def _levels(starts: Floats, ends: Floats, values: Floats) -> list[tuple[float, float]]:
    changes = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    points = [(float(starts[i]), float(values[i])) for i in changes]
    return [*points, (float(ends[-1]), float(values[-1]))]


def _back(frame: Frame, points: list[tuple[float, float]]) -> str:
    path = ""
    for (x, _), (_, before) in zip(points[:0:-1], points[-2::-1], strict=True):
        path += f"H{frame.x(x):.1f}V{frame.y(before):.1f}"
    return path + f"H{frame.x(points[0][0]):.1f}"
