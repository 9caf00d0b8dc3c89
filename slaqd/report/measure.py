"""From what the runs recorded to the numbers in ``result.json``. Pure.

The definitions, once and for all:

* L0 and L∞ of a job are the first and the lowest finite loss over all runs. The runs
  start from one seed, so their first losses agree; where they don't, the higher counts.
* The *time to q* of a job runs from its arrival to the first of two successive logged
  losses that are both at or below L0 - q (L0 - L∞). The last line of a job that has
  ended counts alone: nothing after it could take it back.
* Where a job ended without getting there, its completion time enters the mean in
  place of the time to q, and its own ``reached`` is None. Where it neither got there
  nor ended, the run has no mean.
* A job without a reduction (no finite loss, or L0 = L∞) has no time to q and no
  normalised loss. It is left out of both means and counts in the completion alone.
* *mean_loss* is the mean over time of the mean over the arrived, unfinished jobs of
  (loss - L∞) / (L0 - L∞). The loss is a step function, 1 before the first line; times
  without such a job are left out.
* *after_99* is the share of all consumed CPU seconds that fell after a job's time to
  99 %. A job's CPU seconds are spread over its life in proportion to its units.

These are the measures of SLAQ (SoCC 2017, section 6) on the loss's own reduction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slaqd.report.record import JobResult, JobTrace, PolicyResult, Result, Run, Steps

QUALITIES = (0.5, 0.75, 0.9, 0.95)
"""The shares of a job's reduction whose times are reported."""

NEARLY_ALL = 0.99
"""Past this share of its reduction a job has nearly nothing left to learn."""

Floats = NDArray[np.float64]


class Span(NamedTuple):
    """A job's first and lowest loss over all runs: L0 and L∞."""

    first: float
    lowest: float

    def left(self, losses: Floats) -> Floats:
        """Normalise losses: 1 at L0, 0 at L∞, above 1 where a loss rose past L0."""
        with np.errstate(over="ignore"):  # a loss that ran away may be past any float
            return (losses - self.lowest) / (self.first - self.lowest)


def measure(
    runs: Mapping[str, Run],
    *,
    manager: str,
    seed: int,
    order: Sequence[str],
    forecast_errors: Mapping[str, float | None],
) -> Result:
    """Measure the runs against one another.

    Parameters
    ----------
    runs
        By policy. L0 and L∞ are taken over all of them, so measure them together.
    manager, seed, order
        As they are to stand in ``result.json``.
    forecast_errors
        By policy: the median relative error ten iterations ahead, None if unknown.

    Returns
    -------
    Result
        ``load`` is the mean over the runs.
    """
    ends = spans(runs.values())
    policies = {name: _policy(run, ends, forecast_errors.get(name)) for name, run in runs.items()}
    load = mean([run.load for run in runs.values()]) or 0.0
    return Result(v=1, manager=manager, seed=seed, order=list(order), load=load, policies=policies)


def spans(runs: Iterable[Run]) -> dict[str, Span]:
    """Find L0 and L∞ of each job that logged a finite loss in any of the runs."""
    found: dict[str, Span] = {}
    for trace in (trace for run in runs for trace in run.jobs):
        finite = [loss for loss in trace.losses if math.isfinite(loss)]
        if finite:
            before = found.get(trace.job, Span(finite[0], finite[0]))
            found[trace.job] = Span(max(before.first, finite[0]), min(before.lowest, *finite))
    return found


def learns(span: Span | None) -> bool:
    """Tell whether there is a reduction to speak of: L0 above L∞, by a finite number."""
    return span is not None and 0 < span.first - span.lowest < math.inf


def time_to(trace: JobTrace, span: Span | None, q: float) -> float | None:
    """Tell the seconds from arrival to the share ``q`` of the reduction; None if never.

    A line read only after the job had ended was written before: its time is the end's.
    """
    if span is None or not learns(span):
        return None
    threshold = span.first - q * (span.first - span.lowest)
    below = np.asarray(trace.losses, dtype=np.float64) <= threshold
    last_counts = trace.ended is not None
    holds = below & np.append(below[1:], last_counts) if below.size else below
    if not holds.any():
        return None
    at = trace.times[int(np.argmax(holds))]
    return (at if trace.ended is None else min(at, trace.ended)) - trace.arrived


def completion(trace: JobTrace) -> float | None:
    """Tell the seconds from arrival to end; None while the job has not ended."""
    return None if trace.ended is None else trace.ended - trace.arrived


def mean(values: Sequence[float | None]) -> float | None:
    """Average; None where nothing is given or any one is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def left_over_time(trace: JobTrace, span: Span, at: Floats) -> Floats:
    """Give the normalised loss at each time of ``at``: 1 before the first finite loss."""
    times, losses = (np.asarray(x, dtype=np.float64) for x in (trace.times, trace.losses))
    finite = np.isfinite(losses)
    values = np.concatenate(([1.0], span.left(losses[finite])))
    return values[np.searchsorted(times[finite], at, side="right")]


def mean_left(run: Run, ends: Mapping[str, Span]) -> tuple[Floats, Floats]:
    """Give the mean normalised loss of the jobs at work, as a step function.

    Returns
    -------
    (edges, values)
        Seconds, shape (n + 1,), and the mean from each edge to the next, shape (n,);
        NaN where no job is at work.
    """
    traces = [trace for trace in run.jobs if learns(ends.get(trace.job))]
    edges = _edges(run, traces)
    total, count = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for trace in traces:
        active = (edges[:-1] >= trace.arrived) & (edges[:-1] < _end(trace, run))
        total[active] += left_over_time(trace, ends[trace.job], edges[:-1][active])
        count += active
    return edges, np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def mean_loss(run: Run, ends: Mapping[str, Span]) -> float | None:
    """Average the normalised loss over the jobs at work, then over time."""
    edges, values = mean_left(run, ends)
    known, widths = ~np.isnan(values), np.diff(edges)
    if not widths[known].sum():
        return None
    return float((values * widths)[known].sum() / widths[known].sum())


def integral(steps: Steps, start: float, end: float) -> float:
    """Integrate a step function from ``start`` to ``end``; it is 0 before its first step."""
    times = [max(start, time) for time, _ in steps] + [max(start, end)]
    widths = (min(later, end) - now for now, later in itertools.pairwise(times))
    return sum(max(0.0, width) * value for width, (_, value) in zip(widths, steps, strict=True))


def after_99(run: Run, ends: Mapping[str, Span]) -> float | None:
    """Tell the share of the consumed CPU that went to jobs past 99 % of their reduction."""
    total = sum(trace.cpu_seconds for trace in run.jobs)
    if total <= 0:
        return None
    return sum(_cpu_after(trace, run, ends.get(trace.job)) for trace in run.jobs) / total


def share_of_grant(trace: JobTrace, unit_cores: float) -> float | None:
    """Tell consumed CPU over granted CPU while the job wanted it; None if nothing was granted."""
    units = trace.unit_seconds if trace.wanted_unit_seconds is None else trace.wanted_unit_seconds
    granted = units * unit_cores
    return trace.cpu_seconds / granted if granted > 0 else None


def key(q: float) -> str:
    """Write a share as ``result.json`` does: 0.5, 0.75, 0.9, 0.95."""
    return f"{q:g}"


def _end(trace: JobTrace, run: Run) -> float:
    return run.duration if trace.ended is None else trace.ended


def _edges(run: Run, traces: Sequence[JobTrace]) -> Floats:
    bounds = [time for trace in traces for time in (trace.arrived, _end(trace, run))]
    lines = [time for trace in traces for time in trace.times]
    return np.unique(np.asarray([0.0, *bounds, *lines], dtype=np.float64))


def _cpu_after(trace: JobTrace, run: Run, span: Span | None) -> float:
    reached, end = time_to(trace, span, NEARLY_ALL), _end(trace, run)
    held = integral(trace.units, trace.arrived, end)
    if reached is None or held <= 0:
        return 0.0
    return trace.cpu_seconds * integral(trace.units, trace.arrived + reached, end) / held


def _policy(run: Run, ends: Mapping[str, Span], forecast_error: float | None) -> PolicyResult:
    jobs = [_job(trace, ends.get(trace.job)) for trace in run.jobs]
    learning = [trace for trace in run.jobs if learns(ends.get(trace.job))]
    return PolicyResult(
        time_to={key(q): mean([_time_in_mean(t, ends[t.job], q) for t in learning]) for q in QUALITIES},
        mean_loss=mean_loss(run, ends),
        mean_completion=mean([completion(trace) for trace in run.jobs]),
        after_99=after_99(run, ends),
        forecast_error=forecast_error,
        jobs=jobs,
    )


def _time_in_mean(trace: JobTrace, span: Span, q: float) -> float | None:
    reached = time_to(trace, span, q)
    return completion(trace) if reached is None else reached


def _job(trace: JobTrace, span: Span | None) -> JobResult:
    return JobResult(
        job=trace.job,
        arrived=trace.arrived,
        ended=trace.ended,
        reached={key(q): time_to(trace, span, q) for q in QUALITIES},
        first=span.first if span else None,
        lowest=span.lowest if span else None,
        unit_seconds=trace.unit_seconds,
        cpu_seconds=trace.cpu_seconds,
    )
