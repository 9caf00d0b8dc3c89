"""The measures, each checked by hand on a run small enough to do so."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest

from slaqd.report.measure import (
    Span,
    after_99,
    integral,
    learns,
    mean,
    mean_loss,
    measure,
    share_of_grant,
    spans,
    time_to,
)
from slaqd.report.record import JobTrace, Result, Run

NAN = math.nan


def trace(
    losses: Sequence[float],
    *,
    job: str = "a",
    arrived: float = 10.0,
    ended: float | None = 20.0,
    units: Sequence[tuple[float, float]] = ((10.0, 2.0),),
    cpu: float = 1.0,
) -> JobTrace:
    times = [arrived + 1 + i for i in range(len(losses))]
    return JobTrace(job, "mlp", arrived, ended, times, losses, units, 20.0, cpu)


def run(*jobs: JobTrace, policy: str = "fair", ended: float = 100.0, error: str | None = None) -> Run:
    return Run(policy, 0.0, ended, 30.0, 0.05, [(0.0, 10.0)], 2.0, jobs, error)


def measured(**runs: Run) -> Result:
    return measure(runs, manager="local", seed=3, order=list(runs), forecast_errors={"fair": 0.02})


UNIT = Span(1.0, 0.0)


def test_first_and_lowest_are_those_of_both_runs() -> None:
    both = [run(trace([3.0, 2.0])), run(trace([3.0, 1.0, 4.0]))]
    assert spans(both) == {"a": Span(3.0, 1.0)}


def test_where_the_first_losses_differ_the_higher_counts() -> None:
    assert spans([run(trace([2.5, 1.0])), run(trace([3.0]))]) == {"a": Span(3.0, 1.0)}


def test_losses_that_are_not_finite_are_neither_first_nor_lowest() -> None:
    assert spans([run(trace([NAN, 3.0, -math.inf, 2.0]))]) == {"a": Span(3.0, 2.0)}


def test_a_job_without_a_finite_loss_has_no_span() -> None:
    assert spans([run(trace([]), trace([NAN, math.inf], job="b"))]) == {}


@pytest.mark.parametrize(
    ("losses", "seconds"),
    [
        ([1.0, 0.5, 0.25, 0.0], 3.0),  # exactly at the threshold is there
        ([1.0, 0.1, 0.5, 0.1, 0.0], 4.0),  # the first dip was taken back by the next line
        ([1.0, 0.1, NAN, 0.1, 0.1], 4.0),  # a line without a number breaks the succession
        ([1.0, 0.5, 0.05], 3.0),  # the last line of an ended job counts alone
        ([0.05, 0.05], 1.0),
        ([1.0, 0.5, 0.3], None),
        ([], None),
    ],
)
def test_time_to_a_share_is_that_of_the_first_of_two_successive_losses(
    losses: list[float], seconds: float | None
) -> None:
    assert time_to(trace(losses), UNIT, 0.75) == seconds


def test_the_last_line_of_a_job_that_still_runs_does_not_count_alone() -> None:
    assert time_to(trace([1.0, 0.5, 0.05], ended=None), UNIT, 0.9) is None
    assert time_to(trace([1.0, 0.05, 0.05], ended=None), UNIT, 0.9) == 2.0


def test_a_line_that_was_read_after_the_end_counts_as_of_the_end() -> None:
    assert time_to(trace([1.0, 0.0], ended=11.5), UNIT, 0.9) == 1.5


@pytest.mark.parametrize("span", [None, Span(1.0, 1.0), Span(1e308, -1e308)])
def test_without_a_reduction_there_is_no_time_to_a_share_of_it(span: Span | None) -> None:
    assert not learns(span)
    assert time_to(trace([1.0, 1.0]), span, 0.5) is None


def test_a_job_that_ended_short_counts_with_its_completion_and_says_so() -> None:
    result = measured(fair=run(trace([1.0, 0.5, 0.4])), slaq=run(trace([1.0, 0.4, 0.0])))
    fair = result.policies["fair"]
    assert fair.jobs[0].reached == {"0.5": 2.0, "0.75": None, "0.9": None, "0.95": None}
    assert fair.time_to == {"0.5": 2.0, "0.75": 10.0, "0.9": 10.0, "0.95": 10.0}
    assert result.policies["slaq"].time_to["0.9"] == 3.0


def test_a_run_with_a_job_that_never_got_there_nor_ended_has_no_mean() -> None:
    fair = measured(fair=run(trace([1.0, 0.0, 0.0]), trace([1.0, 0.0], job="b", ended=None))).policies["fair"]
    assert fair.time_to["0.9"] is None
    assert fair.mean_completion is None
    assert fair.jobs[1].ended is None


def test_a_job_without_a_reduction_counts_in_the_completion_alone() -> None:
    flat = trace([0.7, 0.7], job="b", ended=14.0)
    silent = trace([], job="c", ended=12.0)
    fair = measured(fair=run(trace([1.0, 0.0, 0.0]), flat, silent)).policies["fair"]
    assert fair.time_to["0.9"] == 2.0
    assert fair.mean_completion == pytest.approx((10 + 4 + 2) / 3)
    assert fair.mean_loss == mean_loss(run(trace([1.0, 0.0, 0.0])), {"a": UNIT})
    assert [(job.first, job.lowest) for job in fair.jobs] == [(1.0, 0.0), (0.7, 0.7), (None, None)]


def test_mean_loss_is_one_before_the_first_line_and_a_step_after_each() -> None:
    one = run(trace([1.0, 0.5, 0.0], ended=14.0))  # 1 until 12, 0.5 until 13, 0 until 14
    assert mean_loss(one, {"a": UNIT}) == pytest.approx((2 * 1 + 0.5 + 0) / 4)


def test_mean_loss_averages_over_the_jobs_at_work_and_then_over_time() -> None:
    late = trace([1.0, 0.0], job="b", arrived=12.0, ended=15.0)  # 1 until 14, 0 until 15
    both = run(trace([1.0, 0.5, 0.0], ended=14.0), late)
    by_second = [1, 1, (0.5 + 1) / 2, (0 + 1) / 2, 0]  # from 10 to 15
    assert mean_loss(both, {"a": UNIT, "b": UNIT}) == pytest.approx(sum(by_second) / 5)


def test_times_without_a_job_at_work_are_left_out_of_mean_loss() -> None:
    late = trace([1.0, 0.0], job="b", arrived=50.0, ended=52.0)  # 1 throughout
    both = run(trace([1.0, 0.0], ended=14.0), late)  # 1 until 12, 0 until 14
    assert mean_loss(both, {"a": UNIT, "b": UNIT}) == pytest.approx((2 + 0 + 2) / 6)


def test_a_loss_that_is_not_finite_leaves_mean_loss_where_it_was() -> None:
    gap = run(trace([1.0, 0.5, NAN, 0.0], ended=15.0))
    assert mean_loss(gap, {"a": UNIT}) == pytest.approx((2 * 1 + 2 * 0.5 + 0) / 5)


def test_mean_loss_counts_a_rise_above_the_first_loss_as_it_is() -> None:
    assert mean_loss(run(trace([1.0, 3.0, 0.0], ended=14.0)), {"a": UNIT}) == pytest.approx((2 + 3 + 0) / 4)


def test_a_job_that_has_not_ended_is_at_work_until_the_run_ends() -> None:
    open_end = run(trace([1.0, 0.0], ended=None), ended=22.0)
    assert mean_loss(open_end, {"a": UNIT}) == pytest.approx(2 / 12)


def test_mean_loss_of_nothing_is_nothing() -> None:
    assert mean_loss(run(), {}) is None


def test_integral_of_a_step_function_is_zero_before_its_first_step() -> None:
    steps = [(2.0, 1.0), (4.0, 3.0)]
    assert integral(steps, 0.0, 6.0) == 2 * 1 + 2 * 3
    assert integral(steps, 3.0, 5.0) == 1 + 3
    assert integral(steps, 5.0, 5.0) == 0
    assert integral([], 0.0, 6.0) == 0


def test_after_99_spreads_the_cpu_of_a_job_over_its_units() -> None:
    # at 99 % after 2 s; one unit for 2 s, then two for 8 s: 16 of 18 unit-seconds come after
    units = [(10.0, 1.0), (12.0, 2.0)]
    busy = trace([1.0, 0.0, 0.0], units=units, cpu=9.0)
    learning = trace([1.0, 0.5], job="b", cpu=3.0)
    both = run(busy, learning)
    assert after_99(both, {"a": UNIT, "b": UNIT}) == pytest.approx(9 * 16 / 18 / 12)


def test_after_99_of_no_cpu_is_nothing() -> None:
    assert after_99(run(trace([1.0, 0.0], cpu=0.0)), {"a": UNIT}) is None


def test_after_99_of_a_job_that_held_no_units_is_zero() -> None:
    assert after_99(run(trace([1.0, 0.0, 0.0], units=[])), {"a": UNIT}) == 0


def test_the_share_of_the_grant_leaves_out_units_that_the_job_did_not_want() -> None:
    life = trace([1.0], cpu=0.9)  # 20 unit-seconds of 0.05 core: one CPU second
    assert share_of_grant(life, 0.05) == pytest.approx(0.9)
    assert share_of_grant(msgspec.structs.replace(life, wanted_unit_seconds=18.0), 0.05) == pytest.approx(1.0)
    assert share_of_grant(msgspec.structs.replace(life, unit_seconds=0.0), 0.05) is None


def test_a_mean_with_a_missing_value_is_none() -> None:
    assert mean([1.0, 3.0]) == 2.0
    assert mean([1.0, None]) is None
    assert mean([]) is None


def test_result_json_has_the_form_that_all_managers_share() -> None:
    result = measured(fair=run(trace([1.0, 0.5, 0.0])), slaq=run(trace([1.0, 0.0, 0.0])))
    written = msgspec.json.decode(msgspec.json.encode(result))
    assert list(written) == ["v", "manager", "seed", "order", "load", "policies"]
    assert [written[key] for key in ("v", "manager", "seed", "order", "load")] == [
        1, "local", 3, ["fair", "slaq"], 2.0,
    ]  # fmt: skip
    assert list(written["policies"]) == ["fair", "slaq"]
    fair = written["policies"]["fair"]
    assert list(fair) == ["time_to", "mean_loss", "mean_completion", "after_99", "forecast_error", "jobs"]
    assert list(fair["time_to"]) == ["0.5", "0.75", "0.9", "0.95"]
    assert fair["forecast_error"] == 0.02
    assert written["policies"]["slaq"]["forecast_error"] is None
    job = fair["jobs"][0]
    assert list(job) == [
        "job", "arrived", "ended", "reached", "first", "lowest", "unit_seconds", "cpu_seconds",
    ]  # fmt: skip
    assert list(job["reached"]) == ["0.5", "0.75", "0.9", "0.95"]


def test_result_json_is_read_back_as_it_was_written() -> None:
    result = measured(fair=run(trace([1.0, 0.5, 0.0]), trace([NAN], job="b")))
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
