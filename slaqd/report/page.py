"""The report as one self-contained HTML file: no network, no font, readable without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template

from slaqd.report import compare, jobtable, measure, panels
from slaqd.report.compare import NOTHING, seconds
from slaqd.report.panels import Cast, Pair
from slaqd.report.picture import safe
from slaqd.report.record import JobTrace, Result, Run


def render(runs: Mapping[str, Run], result: Result) -> str:
    """Make the page from what was recorded and what was measured of it.

    Parameters
    ----------
    runs, result
        By policy; ``result`` is what `slaqd.report.measure` made of these ``runs``.

    Returns
    -------
    str
        The whole file, to be written as UTF-8.
    """
    order, who = compare.policies(result), panels.cast(runs)
    words = {
        "title": " and ".join(compare.name(policy) for policy in order) + ": the same jobs, side by side"
    }
    escaped = {key: safe(text) for key, text in {**words, **_sentences(runs, result, order)}.items()}
    parts = {
        **escaped,
        "css": _file("page.css"),
        "js": _file("page.js"),
        "alert": _alert(runs, order),
        "tiles": "".join(_tiles(runs, result, order)),
        "legend": _legend(who),
        "runs": "".join(_run_figures(runs, who, order)),
        "policies": _policy_keys(order),
        "means": _means(result, order, who),
        "mean_curves": panels.mean_curves(runs, who, order),
        "reached": _each(runs, who, order, _to_90(who), "seconds from submission to 90 %"),
        "completed": _each(runs, who, order, measure.completion, "seconds from submission to the end"),
        "jobs": jobtable.jobs(runs, who, order),
        "comparison": _comparison(runs, result, order),
    }
    return Template(_file("page.html")).substitute(parts)


def _file(name: str) -> str:
    return resources.files("slaqd.report").joinpath(name).read_text(encoding="utf-8").strip()


def _sentences(runs: Mapping[str, Run], result: Result, order: Sequence[str]) -> dict[str, str]:
    return {
        "headline": _headline(runs, result, order),
        "facts": _facts(runs, result),
        "order_arrow": " → ".join(compare.name(policy) for policy in order),
        "order_words": " / ".join(compare.name(policy) for policy in order),
    }


def _headline(runs: Mapping[str, Run], result: Result, order: Sequence[str]) -> str:
    times = [result.policies[policy].time_to["0.9"] for policy in order]
    factor = None if compare.failed(runs) else compare.ratio(times)
    if factor is None:
        return "There is no comparison: a run is missing, failed, or its jobs learned nothing."
    return (
        f"Under {compare.name(order[-1])} a job reaches 90 % of its loss reduction {seconds(times[-1])} "
        f"after its submission, on average. Under {compare.inside(order[0])} it takes {seconds(times[0])}. "
        f"That is {_faster(factor)}."
    )


def _faster(factor: float) -> str:
    whole = round(100 * abs(factor - 1))
    return f"{whole} % {'less' if factor < 1 else 'more'} time" if whole else "the same time"


def _facts(runs: Mapping[str, Run], result: Result) -> str:
    run = next(iter(runs.values()))
    firsts = ", then ".join(compare.inside(policy) for policy in result.order)
    return (
        f"{len(run.jobs)} training jobs, the same in each run, arriving over {run.window:.0f} s. They need "
        f"{result.load:.1f} times the CPU there is in that time. Units of {run.unit_cores:g} core. "
        f"Manager: {result.manager}. Seed {result.seed}. Order of the runs: {firsts}."
    )


def _alert(runs: Mapping[str, Run], order: Sequence[str]) -> str:
    errors = [f"The run under {compare.name(p)} failed: {runs[p].error}" for p in order if runs[p].error]
    return "".join(f'<p class="alert" role="alert">{safe(error)}</p>' for error in errors)


def _tiles(runs: Mapping[str, Run], result: Result, order: Sequence[str]) -> list[str]:
    numbers = [result.policies[policy] for policy in order]

    def tile(title: str, values: Sequence[float | None], form: str, more: str = "") -> str:
        factor = None if compare.failed(runs) else compare.ratio(values)
        big = NOTHING if factor is None else compare.percent(factor)
        cells = " → ".join(compare.cell(value, form) for value in values)
        return (
            f'<div class="tile"><h3>{safe(title)}</h3><div class="big">{safe(big)}</div>'
            f'<div class="from">{safe(cells)}{safe(more)}</div></div>'
        )

    lost = compare.worst(runs, order)
    worst_values = (lost.base, lost.other) if lost else (None, None)
    return [
        tile("Time to 90 %, mean", [n.time_to["0.9"] for n in numbers], "s"),
        tile("Loss while at work, mean", [n.mean_loss for n in numbers], "%"),
        tile("CPU spent past 99 %", [n.after_99 for n in numbers], "%"),
        tile("Cost: completion, mean", [n.mean_completion for n in numbers], "s"),
        tile("Cost: completion, worst job", worst_values, "s", f", {lost.job}" if lost else ""),
    ]


def _legend(who: Cast) -> str:
    members: dict[str, list[str]] = {}
    for job, kind in who.kinds.items():
        members.setdefault(kind, []).append(str(who.numbers[job]))
    keys = [
        f'<span class="key k{who.colours.get(kind, panels.COLOURS)}" tabindex="0" '
        f'data-kind="{" ".join(jobs)}"><i></i>{safe(kind)}</span>'
        for kind, jobs in sorted(members.items())
    ]
    tints = '<svg viewBox="0 0 26 12"><rect class="early" width="13" height="12"/>'
    tints += '<rect class="late" x="13" width="13" height="12"/></svg>before and after 90 % of its reduction'
    mean = '<svg viewBox="0 0 26 12"><path class="mean" d="M1 6H25"/></svg>mean of the jobs at work'
    limit = '<svg viewBox="0 0 26 12"><path class="capacity" d="M1 6H25"/></svg>capacity'
    return "".join((*keys, *(f'<span class="key">{text}</span>' for text in (tints, mean, limit))))


def _policy_keys(order: Sequence[str]) -> str:
    marks = [
        f'<svg viewBox="0 0 26 12" class="row"><path class="policy p{min(i, 1)}" d="M0 6H26"/>'
        f"{panels.mark(13, 6, last=i == len(order) - 1)}</svg>"
        for i in range(len(order))
    ]
    named = zip(marks, order, strict=True)
    return "".join(f'<span class="key">{mark}{safe(compare.name(p))}</span>' for mark, p in named)


def _run_figures(runs: Mapping[str, Run], who: Cast, order: Sequence[str]) -> list[str]:
    def figure(policy: str, what: str, picture: str) -> str:
        caption = f"{safe(compare.name(policy))}: {what}"
        head = f'<figure data-policy="{safe(policy)}"><figcaption>{caption}</figcaption>'
        return f"{head}{picture}</figure>"

    curves = [figure(p, "loss of each job", panels.losses(runs[p], who)) for p in order]
    units = [figure(p, "who held the CPU", panels.stack(runs[p], who)) for p in order]
    return [*curves, *units]


def _means(result: Result, order: Sequence[str], who: Cast) -> str:
    numbers = [result.policies[policy] for policy in order]
    rows = [Pair(f"{100 * float(q):g} %", [n.time_to[q] for n in numbers]) for q in numbers[0].time_to]
    rows.append(Pair("completion", [n.mean_completion for n in numbers]))
    title = "seconds from submission, mean over jobs"
    return panels.pairs(rows, title, "Mean time to each share of the reduction", who, pitch=40)


def _to_90(who: Cast) -> panels.TimeOf:
    return lambda trace: measure.time_to(trace, who.spans.get(trace.job), 0.9)


def _each(
    runs: Mapping[str, Run], who: Cast, order: Sequence[str], time_of: panels.TimeOf, title: str
) -> str:
    traces = _traces(runs, order)
    rows = [
        Pair(job, [time_of(trace) if (trace := traces[p].get(job)) else None for p in order], job)
        for job in who.numbers
    ]
    return panels.pairs(rows, title, f"Each job: {title}", who, pitch=17)


def _traces(runs: Mapping[str, Run], order: Sequence[str]) -> dict[str, dict[str, JobTrace]]:
    return {policy: {trace.job: trace for trace in runs[policy].jobs} for policy in order}


def _comparison(runs: Mapping[str, Run], result: Result, order: Sequence[str]) -> str:
    against = f"{compare.name(order[-1])} / {compare.inside(order[0])}"
    heads = "".join(f"<th>{safe(text)}</th>" for text in (*map(compare.name, order), against))
    body = "".join(
        f'<tr><th class="name">{safe(row.label)}</th>'
        + "".join(f"<td>{safe(text)}</td>" for text in (*row.cells, row.ratio))
        + "</tr>"
        for row in compare.rows(result, runs)
    )
    return f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>"
