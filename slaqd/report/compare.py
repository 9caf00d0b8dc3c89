"""Fair share against SLAQ, row by row: what the terminal and the page both show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from slaqd.report import measure
from slaqd.report.record import PolicyResult, Result, Run

BASELINE = "fair"
"""The policy that the others are compared with."""

NAMES = {"fair": "Fair share", "slaq": "SLAQ"}
"""The policies' names for people; any other goes by its own."""

DOUBLE = 2.0
"""From this ratio on, per cent are harder to read than times."""

NOTHING = "\N{EN DASH}"
"""Stands where there is no number."""

_SMALL = 0.001
"""Below this, a share is shown to two digits, not as zero."""


class Row(NamedTuple):
    """One line of the comparison: a cell for each policy, and their ratio in words."""

    label: str
    cells: tuple[str, ...]
    ratio: str


class Slowdown(NamedTuple):
    """How much longer the job that loses most takes from arrival to end: ``ratio`` times."""

    job: str
    base: float
    other: float

    @property
    def ratio(self) -> float:
        """Divide the second completion by the first."""
        return self.other / self.base


def name(policy: str) -> str:
    """Name a policy for people."""
    return NAMES.get(policy, policy)


def inside(policy: str) -> str:
    """Name a policy within a sentence: SLAQ stays SLAQ, fair share is small."""
    return name(policy) if name(policy).isupper() else name(policy).lower()


def policies(result: Result) -> tuple[str, ...]:
    """List the policies, the baseline first."""
    return tuple(sorted(result.policies, key=lambda policy: policy != BASELINE))


def failed(runs: Mapping[str, Run]) -> bool:
    """Tell whether any run failed. Then there are no ratios."""
    return any(run.error for run in runs.values())


def ratio(values: Sequence[float | None]) -> float | None:
    """Divide the last of two or more values by the first; None where that says nothing."""
    first, last = values[0], values[-1]
    if len(values) <= 1 or first is None or last is None or first <= 0:
        return None
    return last / first if last / first < math.inf else None


def change(factor: float | None) -> str:
    """Write a ratio, and up to double what it means in per cent: 0.62 (-38 %)."""
    if factor is None:
        return NOTHING
    return f"{factor:.2f} ({percent(factor)})" if factor < DOUBLE else f"{factor:.2f}"


def percent(factor: float) -> str:
    """Write a ratio as a change in whole per cent, with a true minus; from double on, as times."""
    whole = round(100 * (factor - 1))
    if factor >= DOUBLE:
        return f"{factor:.1f} \N{MULTIPLICATION SIGN}"
    return f"{whole:+d} %".replace("-", "\N{MINUS SIGN}") if whole else "0 %"


def worst(runs: Mapping[str, Run], order: Sequence[str]) -> Slowdown | None:
    """Find the job whose completion grew most from the first to the last policy."""
    if len(order) <= 1:
        return None
    base, other = (_completions(runs[policy]) for policy in (order[0], order[-1]))
    both = [Slowdown(job, base[job], other[job]) for job in base if ratio([base[job], other.get(job)])]
    return max(both, key=lambda slowdown: slowdown.ratio, default=None)


def rows(result: Result, runs: Mapping[str, Run]) -> list[Row]:
    """Make the rows of the comparison, in the order in which they matter."""
    order = policies(result)
    valid = not failed(runs)

    def row(label: str, form: str, value: Callable[[PolicyResult], float | None]) -> Row:
        values = [value(result.policies[policy]) for policy in order]
        return Row(label, tuple(cell(x, form) for x in values), change(ratio(values) if valid else None))

    return [
        *(row(f"time to {100 * float(q):g} %, mean", "s", _reader(q)) for q in _qualities(result)),
        row("completion, mean", "s", lambda p: p.mean_completion),
        _worst_row(runs, order, valid=valid),
        row("normalised loss, mean", "", lambda p: p.mean_loss),
        row("CPU spent past 99 %", "%", lambda p: p.after_99),
        row("forecast error, +10 iterations", "%", lambda p: p.forecast_error),
        _range_row("CPU measured / granted", [_grants(runs[policy]) for policy in order]),
        _startup_row([runs[policy] for policy in order]),
    ]


def table(result: Result, runs: Mapping[str, Run]) -> Table:
    """Lay the comparison out for the terminal. A failed run is named under it."""
    order = policies(result)
    out = Table(
        box=SIMPLE_HEAD, title=f"{len(_first(runs).jobs)} jobs, load {result.load:.1f}, seed {result.seed}"
    )
    out.add_column("")
    for policy in order:
        out.add_column(name(policy), justify="right")
    out.add_column(f"{name(order[-1])} / {inside(order[0])}", justify="right")
    for row in rows(result, runs):
        out.add_row(row.label, *row.cells, row.ratio)
    out.caption = " ".join(f"{name(p)} failed: {runs[p].error}." for p in order if runs[p].error) or None
    return out


def cell(value: float | None, form: str) -> str:
    """Write a number as seconds (``s``), per cent of 1 (``%``), or plainly; a dash for None."""
    if value is None:
        return NOTHING
    if form == "s":
        return f"{value:.1f}\N{NO-BREAK SPACE}s"
    if form == "%":
        shown = f"{100 * value:.1f}" if abs(value) >= _SMALL else f"{100 * value:.2g}"
        return f"{shown}\N{NO-BREAK SPACE}%"
    return f"{value:.3f}"


def seconds(value: float | None) -> str:
    """Write seconds to a tenth."""
    return cell(value, "s")


def _reader(q: str) -> Callable[[PolicyResult], float | None]:
    return lambda numbers: numbers.time_to[q]


def _first(runs: Mapping[str, Run]) -> Run:
    return next(iter(runs.values()))


def _qualities(result: Result) -> list[str]:
    return list(next(iter(result.policies.values())).time_to)


def _completions(run: Run) -> dict[str, float]:
    times = {trace.job: measure.completion(trace) for trace in run.jobs}
    return {job: time for job, time in times.items() if time is not None}


def _worst_row(runs: Mapping[str, Run], order: Sequence[str], *, valid: bool) -> Row:
    found = worst(runs, order) if valid else None
    if found is None:
        return Row("completion, worst job", (NOTHING,) * len(order), NOTHING)
    cells = (seconds(found.base), *[""] * (len(order) - 2), seconds(found.other))
    return Row(f"completion, worst job ({found.job})", cells, change(found.ratio))


def _grants(run: Run) -> list[float]:
    shares = (measure.share_of_grant(trace, run.unit_cores) for trace in run.jobs)
    return [share for share in shares if share is not None]


def _range_row(label: str, values: Sequence[list[float]]) -> Row:
    return Row(label, tuple(f"{min(v):.2f} … {max(v):.2f}" if v else NOTHING for v in values), "")


def _startup_row(runs: Sequence[Run]) -> Row:
    means = [measure.mean([trace.startup_cpu_seconds for trace in run.jobs]) for run in runs]
    return Row("start-up CPU, mean", tuple(NOTHING if m is None else f"{m:.2f} s" for m in means), "")
