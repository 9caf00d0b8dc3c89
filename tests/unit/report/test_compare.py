"""The comparison: rows, ratios, and when there must be none."""

from __future__ import annotations

import io

import msgspec
import pytest
import recorded
from rich.console import Console

from slaqd.report import compare
from slaqd.report.measure import measure
from slaqd.report.record import Result, Run


def result_of(runs: dict[str, Run]) -> Result:
    return measure(runs, manager="local", seed=1, order=["slaq", "fair"], forecast_errors={"slaq": 0.03})


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return dict(recorded.runs(jobs=6, window=10.0))


def printed(runs: dict[str, Run]) -> str:
    console = Console(file=io.StringIO(), width=90, no_color=True)
    console.print(compare.table(result_of(runs), runs))
    return console.file.getvalue()  # type: ignore[attr-defined] # the StringIO above


def test_fair_share_comes_first_whichever_ran_first(runs: dict[str, Run]) -> None:
    assert compare.policies(result_of(runs)) == ("fair", "slaq")
    assert compare.policies(result_of(dict(reversed(runs.items())))) == ("fair", "slaq")


def test_each_row_of_times_is_what_result_json_says(runs: dict[str, Run]) -> None:
    result = result_of(runs)
    rows = {row.label: row for row in compare.rows(result, runs)}
    for q, label in (("0.5", "time to 50 %, mean"), ("0.9", "time to 90 %, mean")):
        times = [result.policies[policy].time_to[q] for policy in ("fair", "slaq")]
        assert rows[label].cells == tuple(compare.seconds(time) for time in times)
        assert rows[label].ratio.startswith(f"{times[1] / times[0]:.2f} ")  # type: ignore[operator] # all ended


def test_the_worst_job_is_the_one_whose_completion_grew_most(runs: dict[str, Run]) -> None:
    worst = compare.worst(runs, ("fair", "slaq"))
    ended = {p: {t.job: (t.ended or 0) - t.arrived for t in runs[p].jobs} for p in runs}
    grown = {job: ended["slaq"][job] / ended["fair"][job] for job in ended["fair"]}
    assert worst is not None
    assert (worst.job, worst.ratio) == (max(grown, key=lambda job: grown[job]), max(grown.values()))


def test_the_table_shows_the_costs_beside_the_gain(runs: dict[str, Run]) -> None:
    text = printed(runs)
    for label in ("time to 90 %", "completion, mean", "completion, worst job", "CPU spent past 99 %"):
        assert label in text
    assert "SLAQ / fair share" in text


def test_a_failed_run_has_its_error_under_the_table_and_no_ratio(runs: dict[str, Run]) -> None:
    error = "not ended after ten times the window"
    broken = {**runs, "slaq": msgspec.structs.replace(runs["slaq"], error=error)}
    rows = compare.rows(result_of(broken), broken)
    assert all(row.ratio in {compare.NOTHING, ""} for row in rows)
    assert "SLAQ failed" in printed(broken)


def test_a_single_run_has_no_ratio(runs: dict[str, Run]) -> None:
    alone = {"fair": runs["fair"]}
    assert all(row.ratio in {compare.NOTHING, ""} for row in compare.rows(result_of(alone), alone))
    assert compare.worst(alone, ("fair",)) is None


def test_a_run_without_jobs_has_dashes(runs: dict[str, Run]) -> None:
    empty = {p: msgspec.structs.replace(run, jobs=[]) for p, run in runs.items()}
    rows = {row.label: row for row in compare.rows(result_of(empty), empty)}
    assert rows["completion, mean"].cells == (compare.NOTHING, compare.NOTHING)
    assert rows["CPU measured / granted"].cells == (compare.NOTHING, compare.NOTHING)


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (0.62, "\N{MINUS SIGN}38 %"),
        (1.3, "+30 %"),
        (1.001, "0 %"),
        (0.999, "0 %"),
        (8.77, "8.8 \N{MULTIPLICATION SIGN}"),
    ],
)
def test_a_ratio_is_written_as_people_say_it(factor: float, text: str) -> None:
    assert compare.percent(factor) == text


def test_a_ratio_has_its_per_cent_beside_it_up_to_double() -> None:
    assert compare.change(0.62) == "0.62 (\N{MINUS SIGN}38 %)"
    assert compare.change(8.77) == "8.77"
    assert compare.change(None) == compare.NOTHING


def test_nothing_divided_is_no_ratio() -> None:
    assert compare.ratio([0.0, 1.0]) is None
    assert compare.ratio([None, 1.0]) is None
    assert compare.ratio([1.0, None]) is None
    assert compare.ratio([5e-324, 1.0]) is None
    assert compare.ratio([2.0, 1.0]) == 0.5


def test_a_small_share_is_not_shown_as_nothing() -> None:
    shown = [compare.cell(share, "%").replace("\N{NO-BREAK SPACE}", " ") for share in (0.4449, 0.0, 2.49e-5)]
    assert shown == ["44.5 %", "0 %", "0.0025 %"]
