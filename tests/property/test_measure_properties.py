"""What holds of the measures for any runs."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaqd.report.measure import QUALITIES, integral, mean_loss, measure, spans, time_to
from slaqd.report.page import render
from slaqd.report.record import JobTrace, Result, Run

finite = st.floats(-1e6, 1e6, allow_nan=False, width=32)
losses = st.lists(st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf])), max_size=12)


@st.composite
def traces(draw: st.DrawFn, job: str, *, ends: bool = True) -> JobTrace:
    arrived = draw(st.floats(0, 50))
    values = draw(losses)
    gaps = draw(st.lists(st.floats(0, 9), min_size=len(values), max_size=len(values)))
    times = [arrived + sum(gaps[: i + 1]) for i in range(len(values))]
    ended = max([arrived, *times]) + draw(st.floats(0, 9)) if ends or draw(st.booleans()) else None
    units = [(arrived, draw(st.integers(0, 9))), (arrived + 1.5, draw(st.integers(0, 9)))]
    return JobTrace(job, "svm", arrived, ended, times, values, units, 5.0, draw(st.floats(0, 9)))


@st.composite
def two_runs(draw: st.DrawFn, *, ends: bool = True) -> dict[str, Run]:
    jobs = [f"job-{i}" for i in range(draw(st.integers(0, 4)))]
    made = {}
    for policy in ("fair", "slaq"):
        lives = [draw(traces(job, ends=ends)) for job in jobs]
        last = max([1.0, *(time for life in lives for time in [*life.times, life.ended or 0.0])])
        made[policy] = Run(policy, 3.0, 3.0 + last, 20.0, 0.02, [(0.0, 10.0)], 2.0, lives)
    return made


def measured(runs: dict[str, Run]) -> Result:
    return measure(runs, manager="local", seed=1, order=["fair", "slaq"], forecast_errors={})


@given(two_runs(ends=False))
def test_a_larger_share_is_never_reached_earlier(runs: dict[str, Run]) -> None:
    ends = spans(runs.values())
    for life in (life for run in runs.values() for life in run.jobs):
        reached = [time_to(life, ends.get(life.job), q) for q in QUALITIES]
        known = [time for time in reached if time is not None]
        assert known == sorted(known)
        assert reached[: len(known)] == known  # once out of reach, out of reach for good


@given(two_runs())
def test_no_time_to_a_share_is_negative_or_past_the_completion(runs: dict[str, Run]) -> None:
    for policy in measured(runs).policies.values():
        for job in policy.jobs:
            assert job.ended is not None
            assert all(
                0 <= time <= job.ended - job.arrived for time in job.reached.values() if time is not None
            )


@given(two_runs())
def test_where_all_jobs_ended_there_is_a_mean_if_any_job_learned(runs: dict[str, Run]) -> None:
    result = measured(runs)
    for policy in result.policies.values():
        learned = any(job.first is not None and job.first > (job.lowest or 0.0) for job in policy.jobs)
        assert all((time is not None) == learned for time in policy.time_to.values())


@given(two_runs(ends=False))
def test_first_and_lowest_are_the_same_under_both_policies(runs: dict[str, Run]) -> None:
    fair, slaq = ([(j.job, j.first, j.lowest) for j in p.jobs] for p in measured(runs).policies.values())
    assert fair == slaq


@given(two_runs())
def test_shares_stay_between_none_and_all(runs: dict[str, Run]) -> None:
    for policy in measured(runs).policies.values():
        assert policy.mean_loss is None or policy.mean_loss >= 0
        assert policy.after_99 is None or 0 <= policy.after_99 <= 1 + 1e-9


@given(two_runs(), st.floats(0.5, 100))
def test_the_scale_of_the_losses_does_not_matter(runs: dict[str, Run], scale: float) -> None:
    ends = spans(runs.values())
    scaled = {
        policy: msgspec.structs.replace(
            run,
            jobs=[msgspec.structs.replace(t, losses=[scale * loss for loss in t.losses]) for t in run.jobs],
        )
        for policy, run in runs.items()
    }
    before, after = mean_loss(runs["fair"], ends), mean_loss(scaled["fair"], spans(scaled.values()))
    assert after == pytest.approx(before, rel=1e-6) if before is not None else after is None


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9)), max_size=6).map(sorted),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0, 100),
)
def test_an_integral_is_the_sum_of_its_parts(
    steps: list[tuple[float, float]], a: float, b: float, c: float
) -> None:
    start, middle, end = sorted((a, b, c))
    parts = integral(steps, start, middle) + integral(steps, middle, end)
    assert parts == pytest.approx(integral(steps, start, end), abs=1e-6)


@settings(max_examples=25)  # each makes a whole page
@given(two_runs(ends=False))
def test_any_runs_make_a_page_and_a_file_that_reads_back(runs: dict[str, Run]) -> None:
    result = measured(runs)
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
    assert render(runs, result).endswith("</html>")
