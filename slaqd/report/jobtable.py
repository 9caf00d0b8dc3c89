"""The page's table of jobs: a row for each, a pair of columns for each number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from slaqd.report import compare, measure, panels
from slaqd.report.panels import Cast
from slaqd.report.picture import safe
from slaqd.report.record import JobTrace, Run

Life = tuple[JobTrace | None, Run]
"""A job in a run; None: it was not there."""


class Column(NamedTuple):
    """A number of each job under each policy: its head, and how it is written."""

    head: str
    value: Callable[[JobTrace, Run], float | None]
    form: str = ".1f"

    def cell(self, trace: JobTrace | None, run: Run) -> str:
        """Write the number; a dash where there is none."""
        value = None if trace is None else self.value(trace, run)
        return compare.NOTHING if value is None else format(value, self.form)


def jobs(runs: Mapping[str, Run], who: Cast, order: Sequence[str]) -> str:
    """Lay out the table. Each row can be pointed at and stepped to, and carries its sentence."""
    columns = _columns(who)
    traces = [({trace.job: trace for trace in runs[policy].jobs}, runs[policy]) for policy in order]
    body = [
        _row(job, [(by_job.get(job), run) for by_job, run in traces], columns, who) for job in who.numbers
    ]
    return f"<table>{_head(columns, order)}<tbody>{''.join(body)}</tbody></table>"


def _columns(who: Cast) -> list[Column]:
    return [
        *(Column(f"to {100 * q:g} %", _to(who, q)) for q in measure.QUALITIES),
        Column("ended after", lambda trace, _: measure.completion(trace)),
        Column("unit-seconds", lambda trace, _: trace.unit_seconds, ".0f"),
        Column("CPU seconds", lambda trace, _: trace.cpu_seconds, ".2f"),
        Column("CPU / granted", lambda trace, run: measure.share_of_grant(trace, run.unit_cores), ".2f"),
    ]


def _to(who: Cast, q: float) -> Callable[[JobTrace, Run], float | None]:
    return lambda trace, _: measure.time_to(trace, who.spans.get(trace.job), q)


def _head(columns: Sequence[Column], order: Sequence[str]) -> str:
    wide = "".join(f'<th class="begins" colspan="{len(order)}">{safe(c.head)}</th>' for c in columns)
    names = [compare.name(policy).split()[0] for policy in order]
    each = "".join(_cells(names, "th")) * len(columns)
    return (
        '<thead><tr><th class="name">job</th><th class="name">kind</th><th>arrived</th>'
        f"{wide}</tr><tr><th></th><th></th><th>s</th>{each}</tr></thead>"
    )


def _row(job: str, lives: Sequence[Life], columns: Sequence[Column], who: Cast) -> str:
    pairs = [[column.cell(*life) for life in lives] for column in columns]
    arrived = next(trace.arrived for trace, _ in lives if trace is not None)
    note = _note(job, arrived, dict(zip((c.head for c in columns), pairs, strict=True)), who)
    colour = who.colours.get(who.kinds[job], panels.COLOURS)
    return (
        f'<tr tabindex="0" class="k{colour}" data-job="{who.numbers[job]}" data-note="{safe(note)}">'
        f'<th class="name" scope="row"><span class="swatch"></span>{safe(job)}</th>'
        f'<td class="name">{safe(who.kinds[job])}</td><td>{arrived:.1f}</td>'
        f"{''.join(cell for pair in pairs for cell in _cells(pair, 'td'))}</tr>"
    )


def _cells(texts: Sequence[str], tag: str) -> list[str]:
    return [f"<{tag}{'' if i else ' class=begins'}>{safe(text)}</{tag}>" for i, text in enumerate(texts)]


def _note(job: str, arrived: float, cells: Mapping[str, Sequence[str]], who: Cast) -> str:
    to_90, ended = (" → ".join(cells[head]) for head in ("to 90 %", "ended after"))
    return (
        f"{job}, {who.kinds[job]}: arrived at {arrived:.1f} s, 90 % of its reduction after {to_90} s, "
        f"ended after {ended} s"
    )
