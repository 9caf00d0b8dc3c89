"""The pictures of the report: one function each, from runs to SVG.

Every mark of a job stands in a group with the job's number in ``data-job`` and its
kind's colour in its class, so that the page can light one job up in all pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slaqd.report import compare, measure
from slaqd.report.measure import Floats, Span
from slaqd.report.picture import (
    Frame,
    band,
    rule,
    safe,
    sample,
    stairs,
    svg,
    thin,
    ticks,
    words,
    x_axis,
    y_axis,
)
from slaqd.report.record import JobTrace, Run

SECONDS = "seconds since the run began"
TimeOf = Callable[[JobTrace], float | None]
"""Reads one time off a job's trace, None where there is none."""

COLOURS = 8
"""How many kinds have a colour of their own; those beyond share a grey."""

MOSTLY = 0.9
"""Past this share of its reduction a job's layer turns pale."""

CEILING = 2.0
"""Where the loss pictures are cut off, for losses that rise far above the first one."""


class Cast(NamedTuple):
    """Who is in the pictures: each job's number and kind, and what the axes must hold."""

    numbers: Mapping[str, int]
    kinds: Mapping[str, str]
    colours: Mapping[str, int]
    spans: Mapping[str, Span]
    longest: float
    units: float
    highest: float

    def group(self, job: str, inside: str, note: str = "") -> str:
        """Wrap the marks of one job. ``note`` shows on hovering, even without scripts."""
        colour = self.colours.get(self.kinds[job], COLOURS)
        title = f"<title>{safe(job)}{safe(note)}</title>"
        return f'<g class="job k{colour}" data-job="{self.numbers[job]}">{title}{inside}</g>'


def cast(runs: Mapping[str, Run]) -> Cast:
    """Give the jobs numbers in order of arrival, the kinds their colours, the axes their ends."""
    traces = sorted((t for run in runs.values() for t in run.jobs), key=lambda trace: trace.arrived)
    kinds = {trace.job: trace.kind for trace in traces}
    named = sorted(set(kinds.values()))[:COLOURS]
    ends = measure.spans(runs.values())
    tops = [_highest(trace, ends) for trace in traces]
    return Cast(
        numbers={job: number for number, job in enumerate(kinds)},
        kinds=kinds,
        colours={kind: number for number, kind in enumerate(named)},
        spans=ends,
        longest=max((run.duration for run in runs.values()), default=0) or 1.0,
        units=max((_most_units(run) for run in runs.values()), default=0) or 1.0,
        highest=min(CEILING, max(tops, default=1.0)),
    )


def losses(run: Run, who: Cast) -> str:
    """Draw each job's normalised loss over time; a dot marks where the job ended."""
    frame = Frame(640, 290, 44, 10, 26, 40, who.longest, who.highest)
    at = [(share, f"{100 * share:g}") for share in ticks(who.highest, 5)]
    cut = ", cut off" if who.highest == CEILING else ""
    mean = f'<path class="mean" d="{_mean_path(frame, run, who)}"/>'
    curves = [_curve(frame, trace, who, run) for trace in run.jobs]
    axes = y_axis(frame, f"loss still to fall, % of the job's own reduction{cut}", at) + x_axis(
        frame, SECONDS
    )
    label = f"Normalised loss of each job over time, {compare.name(run.policy)}"
    return svg(frame, label, axes, '<g class="curves">', *curves, "</g>", mean)


def stack(run: Run, who: Cast) -> str:
    """Draw the units that the jobs held, on top of one another in order of arrival.

    A job's layer is pale once the job is past 90 % of its reduction.
    """
    frame = Frame(640, 250, 44, 10, 26, 40, who.longest, who.units)
    turns = _turns(run, who)
    edges = _unit_edges(run, *(turn for turn in turns.values() if turn < run.duration))
    low = np.zeros(len(edges) - 1)
    layers = []
    for trace in sorted(run.jobs, key=lambda trace: who.numbers[trace.job]):
        high = low + _held(trace, run, edges)
        layers.append(who.group(trace.job, _layer(frame, edges, (low, high), turns[trace.job])))
        low = high
    title = f"units held, {run.unit_cores:g} core each"
    axes = y_axis(frame, title, [(v, f"{v:g}") for v in ticks(who.units, 5)]) + x_axis(frame, SECONDS)
    limit = f'<path class="capacity" d="{_capacity_path(frame, run)}"/>'
    label = f"Units held by each job over time, {compare.name(run.policy)}"
    return svg(frame, label, axes, '<g class="layers">', *layers, "</g>", limit)


def mean_curves(runs: Mapping[str, Run], who: Cast, order: Sequence[str]) -> str:
    """Draw the mean normalised loss of the jobs at work, all policies in one picture."""
    frame = Frame(640, 250, 44, 10, 26, 40, who.longest, who.highest)
    at = [(share, f"{100 * share:g}") for share in ticks(who.highest, 5)]
    lines = [
        f'<path class="policy p{i}" d="{_mean_path(frame, runs[policy], who)}"/>'
        for i, policy in enumerate(order)
    ]
    axes = y_axis(frame, "mean loss still to fall of the jobs at work, %", at) + x_axis(frame, SECONDS)
    return svg(frame, "Mean normalised loss over time under each policy", axes, *lines)


class Pair(NamedTuple):
    """A row of a picture of pairs: one time for each policy, None where there is none."""

    label: str
    values: Sequence[float | None]
    job: str | None = None


def pairs(rows: Sequence[Pair], title: str, label: str, who: Cast, *, pitch: float) -> str:
    """Draw a ring for the first policy and a dot for the last, joined, in each row.

    ``title`` names the axis, ``label`` the picture; ``pitch`` is the height of a row.
    """
    known = [value for row in rows for value in row.values if value is not None]
    height = 8 + pitch * len(rows) + 40
    frame = Frame(640, height, 108, 84, 8, 40, max(known, default=0) * 1.02 or 1.0, 1.0)
    drawn = [_pair(frame, row, frame.top + pitch * (i + 0.5), who) for i, row in enumerate(rows)]
    return svg(frame, label, x_axis(frame, title, grid=True), *drawn)


def mark(x: float, y: float, *, last: bool) -> str:
    """Draw a ring, or for the last policy a dot that fits into the ring."""
    kind, radius = ("dot", 3.5) if last else ("ring", 5.5)
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _highest(trace: JobTrace, ends: Mapping[str, Span]) -> float:
    span = ends.get(trace.job)
    if span is None or not measure.learns(span):
        return 1.0
    finite = [loss for loss in trace.losses if math.isfinite(loss)]
    return float(span.left(np.asarray([span.first, *finite])).max())


def _most_units(run: Run) -> float:
    held = sum(_held(trace, run, _unit_edges(run)) for trace in run.jobs)
    return max([float(np.max(held)) if run.jobs else 0.0, *(units for _, units in run.capacity)])


def _curve(frame: Frame, trace: JobTrace, who: Cast, run: Run) -> str:
    span = who.spans.get(trace.job)
    if span is None or not measure.learns(span):
        return who.group(trace.job, "", ": no reduction of the loss")
    end = run.duration if trace.ended is None else trace.ended
    at = np.asarray([trace.arrived, *(t for t in trace.times if trace.arrived < t < end), end])
    values = np.minimum(measure.left_over_time(trace, span, at), frame.y_max)
    points = list(zip(at.tolist(), values.tolist(), strict=True))
    path = stairs(frame, thin(frame, points))
    dot = f'<circle cx="{frame.x(end):.1f}" cy="{frame.y(points[-1][1]):.1f}" r="2.5"/>'
    reach = f'<path class="reach" d="{path}"/>'  # a wider, unseen line is easier to point at
    return who.group(trace.job, f'{reach}<path d="{path}"/>{dot if trace.ended is not None else ""}')


def _mean_path(frame: Frame, run: Run, who: Cast) -> str:
    edges, values = measure.mean_left(run, who.spans)
    path = ""
    bounds = np.flatnonzero(np.diff(np.isnan(values).astype(int), prepend=1, append=1))
    for a, b in zip(bounds[::2], bounds[1::2], strict=True):  # each stretch with jobs at work
        inside = np.minimum(values[a:b], frame.y_max)
        times, levels = edges[a : b + 1].tolist(), np.append(inside, inside[-1]).tolist()
        path += stairs(frame, thin(frame, list(zip(times, levels, strict=True))))
    return path


def _unit_edges(run: Run, *more: float) -> Floats:
    times = [time for trace in run.jobs for time, _ in trace.units if 0 < time < run.duration]
    ends = [trace.ended for trace in run.jobs if trace.ended is not None]
    return np.unique(np.asarray([0.0, *times, *ends, *more, max(run.duration, *ends, 1e-9)]))


def _held(trace: JobTrace, run: Run, edges: Floats) -> Floats:
    end = run.duration if trace.ended is None else trace.ended
    return np.where(edges[:-1] < end, sample(trace.units, edges[:-1]), 0.0)


def _layer(frame: Frame, edges: Floats, between: tuple[Floats, Floats], turn: float) -> str:
    low, high = between
    early, late = (np.where(side, high, low) for side in (edges[:-1] < turn, edges[:-1] >= turn))
    paths = (("early", band(frame, edges, low, early)), ("late", band(frame, edges, low, late)))
    return "".join(f'<path class="{tint}" d="{path}"/>' for tint, path in paths if path)


def _turns(run: Run, who: Cast) -> dict[str, float]:
    reached = {t.job: (t.arrived, measure.time_to(t, who.spans.get(t.job), MOSTLY)) for t in run.jobs}
    return {
        job: arrived + (math.inf if after is None else after) for job, (arrived, after) in reached.items()
    }


def _capacity_path(frame: Frame, run: Run) -> str:
    if not run.capacity:
        return ""
    points = [(time, units) for time, units in run.capacity if time < run.duration]
    return stairs(frame, [*points, (run.duration, run.capacity[-1][1])])


def _pair(frame: Frame, row: Pair, y: float, who: Cast) -> str:
    known = [frame.x(value) for value in row.values if value is not None]
    join = rule(min(known), y, max(known), y, "join") if known else ""
    last = len(row.values) - 1
    dots = [mark(frame.x(v), y, last=i == last) for i, v in enumerate(row.values) if v is not None]
    factor = compare.ratio(row.values)
    said = compare.percent(factor) if factor is not None else "" if known else "not reached"
    label = words(frame.left - 10, y + 4, _short(row.label), "tick", "end")
    reach = f'<rect class="reach" x="0" y="{y - 7:.1f}" width="{frame.width}" height="14"/>'
    inside = "".join((reach, label, join, *dots, words(frame.wall + 12, y + 4, said, "tick", "start")))
    note = ": " + ", ".join(compare.seconds(value) for value in row.values)
    return who.group(row.job, inside, note) if row.job else f'<g class="row">{inside}</g>'


def _short(label: str, room: int = 16) -> str:
    return label if len(label) <= room else label[: room - 1] + "…"
