"""The numbers of a forecast against the formulas that they are said to follow."""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from slaqd.predict import Forecast, Pace, forecast, predict_curve
from slaqd.predict.families import FAR, Family, exponential, lost, sublinear
from slaqd.predict.fit import fit
from slaqd.predict.forecast import DOUBT, SPREAD
from slaqd.predict.series import from_curves
from slaqd.predict.speed import LONGEST, thetas
from slaqd.types import Curve, Health

K = np.arange(1.0, 31.0)
NOISE = np.random.default_rng(1).normal(0.0, 0.02, len(K))


def curve_of(losses: np.ndarray, steps: np.ndarray = K) -> Curve:
    told = losses.tolist()
    return Curve(
        steps=steps[: len(told)].tolist(),
        losses=told,
        count=len(told),
        first=told[0],
        lowest=min(told),
        largest_change=max((abs(after - before) for before, after in pairwise(told)), default=0.0),
        health=Health.OK,
    )


def paced(*seen: tuple[float, float]) -> Pace:
    pace = Pace()
    for units, seconds in seen:
        pace.add(units, seconds)
    return pace


def cast_of(losses: np.ndarray, *, pace: Pace | None = None, steps: np.ndarray = K) -> Forecast:
    return forecast([curve_of(losses, steps)], [pace or paced((1, 1.0))], 5.0)


def wide(cast: Forecast, steps: float, coverage: float) -> float:
    """Give half the width of an interval, in heights of the window, as the module's words say it."""
    ahead = steps / cast.span
    moved = cast.fits.amplitude * lost(ahead, cast.fits.family, cast.fits.first, cast.fits.second)
    error = SPREAD * cast.fits.error * np.sqrt(1.0 + ahead)
    return float((NormalDist().inv_cdf(0.5 + 0.5 * coverage) * np.hypot(error, DOUBT * moved))[0])


def test_a_job_whose_steps_are_fast_makes_as_many_as_its_time_allows() -> None:
    cast = cast_of(1.0 / K, pace=paced((1, 0.01)))
    assert cast.iterations(0, [0, 1, 4]).tolist() == pytest.approx([0.0, 500.0, 2000.0])


def test_a_job_that_was_never_timed_makes_no_step() -> None:
    assert cast_of(1.0 / K, pace=Pace()).iterations(0, [1, 4]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("coverage", [0.5, 0.8])
def test_an_interval_of_a_loss_grows_with_the_distance_as_it_is_written(coverage: float) -> None:
    cast = cast_of(3.0 / K + NOISE)
    for steps in (1.0, 20.0, 300.0):
        low, high = cast.value_interval(0, steps, coverage)
        middle, half = cast.value_at(0, steps), wide(cast, steps, coverage) * float(cast.unit[0])
        assert [float(low), float(high)] == pytest.approx([float(middle) - half, float(middle) + half])


def test_an_interval_of_a_fall_is_that_of_the_steps_that_the_units_buy() -> None:
    cast = cast_of(3.0 / K + NOISE)
    low, high = cast.interval(0, 4, 0.5)
    middle, half = float(cast.fall(0, 4)), wide(cast, 20.0, 0.5) * float(cast.worth[0])
    assert float(high) == pytest.approx(middle + half)
    assert float(low) == pytest.approx(max(middle - half, 0.0))


def test_four_of_five_falls_are_covered_where_nothing_else_is_asked_for() -> None:
    cast = cast_of(3.0 / K + NOISE)
    np.testing.assert_array_equal(cast.interval(0, 4), cast.interval(0, 4, 0.8))
    np.testing.assert_array_equal(cast.value_interval(0, 4.0), cast.value_interval(0, 4.0, 0.8))
    assert np.isfinite(cast.interval(0, 4, 1.5)).all()


def test_steps_ahead_may_be_whole_numbers() -> None:
    cast = cast_of(3.0 / K)
    assert float(cast.value_at(0, [7])[0]) == float(cast.value_at(0, 7.0))


def test_a_smooth_curve_goes_on_from_its_newest_point_and_a_noisy_one_from_the_fit() -> None:
    smooth = 1.0 / K + 0.5 / K**0.3
    rough = 3.0 / K + NOISE
    for losses in (smooth, rough):
        cast, series = cast_of(losses), from_curves([curve_of(losses)])
        fits = fit(series)
        newest = float(losses[-1])
        left = float(fits.residual[0] * (1.0 - fits.drift[0]) * series.height[0] * series.scale[0])
        assert float(cast.level[0]) == pytest.approx(newest - left, rel=1e-12)
        assert left != 0.0


def test_a_constant_loss_is_the_level_and_has_no_height() -> None:
    cast = cast_of(np.full(5, 7.0))
    assert (float(cast.level[0]), float(cast.unit[0]), float(cast.worth[0])) == (7.0, 0.0, 0.0)
    assert float(cast.fall(0, 3)) == 0.0


@pytest.mark.parametrize(("normaliser", "whole"), [("change", 40.0 - 20.0), ("range", 40.0 - 40.0 / 30.0)])
def test_one_height_of_the_window_is_worth_its_share_of_what_was_seen(normaliser: str, whole: float) -> None:
    losses = 40.0 / K
    cast = forecast([curve_of(losses)], [paced((1, 1.0))], 5.0, normaliser)  # type: ignore[arg-type]
    assert float(cast.worth[0]) == pytest.approx((losses[0] - losses[-1]) / whole)


def test_a_change_that_only_an_older_part_of_the_log_shows_counts() -> None:
    curve = curve_of(1.0 / K)
    before = Curve(
        **{**{name: getattr(curve, name) for name in curve.__struct_fields__}, "largest_change": 10.0}
    )
    cast = forecast([before], [paced((1, 1.0))], 5.0)
    assert float(cast.worth[0]) == pytest.approx((1.0 - 1.0 / 30.0) / 10.0)


def test_a_change_that_is_no_number_is_passed_over_for_what_the_window_shows() -> None:
    curve = curve_of(1.0 / K)
    fields = {name: getattr(curve, name) for name in curve.__struct_fields__}
    cast = forecast([Curve(**{**fields, "largest_change": np.inf})], [paced((1, 1.0))], 5.0)
    assert float(cast.worth[0]) == pytest.approx((1.0 - 1.0 / 30.0) / 0.5)


def test_as_many_curves_as_paces_are_asked_for() -> None:
    with pytest.raises(ValueError, match="zip"):
        forecast([curve_of(1.0 / K)], [], 5.0)


@pytest.mark.parametrize(
    ("curve", "pace", "words"),
    [
        (Curve(health=Health.DIVERGED), Pace(), "its loss has diverged"),
        (curve_of(3.0 / K[:1]), Pace(), "only 1 iteration logged"),
        (
            curve_of(np.array([3.0, np.nan, 1.0])),
            Pace(),
            "its log holds points that no curve fits: not finite, or out of order",
        ),
        (curve_of(1.0 / K), Pace(), "no step has been timed yet"),
        (curve_of(1.0 / K), paced((1, 1.0)), ""),
    ],
)
def test_why_nothing_is_known_is_said_in_these_words(curve: Curve, pace: Pace, words: str) -> None:
    cast = forecast([curve], [pace], 5.0)
    assert cast.reason == (words,)
    assert cast.known.dtype == bool


def test_of_no_jobs_nothing_is_said() -> None:
    cast = forecast([], [], 5.0)
    assert (cast.reason, cast.known.dtype) == ((), bool)
    assert {values.shape for values in vars(cast.fits).values()} == {(0,)}
    assert cast.fits.family.dtype == np.int64


def test_a_prediction_of_what_is_not_known_is_empty() -> None:
    told = predict_curve(curve_of(3.0 / K[:2]), [1.0])
    assert (told.known, told.family, told.parameters, told.asymptote) == (False, "none", {}, None)
    assert (told.ahead, told.losses, told.low, told.high) == ((), (), (), ())


def test_a_prediction_holds_its_interval_around_its_losses() -> None:
    curve = curve_of(3.0 / K + NOISE)
    told = predict_curve(curve, [1, 10])
    cast = forecast([curve], [paced((1, 1.0))], 1.0)
    low, high = cast.value_interval(np.zeros(2, dtype=np.int64), [1.0, 10.0], 0.8)
    assert (told.known, told.reason, told.ahead) == (True, "", (1.0, 10.0))
    assert (told.low, told.high) == (tuple(low.tolist()), tuple(high.tolist()))
    narrow = predict_curve(curve, [1, 10], coverage=0.5)
    assert narrow.losses == told.losses
    assert all(inner > outer for inner, outer in zip(narrow.low, told.low, strict=True))


@pytest.mark.parametrize(
    ("losses", "names"),
    [(sublinear(K, 0.01, 0.5, 1.0, 2.0), "abcd"), (exponential(K, 0.9, 3.0, 2.0), ("mu", "b", "c"))],
)
def test_parameters_bear_slaqs_letters(losses: np.ndarray, names: str) -> None:
    assert list(predict_curve(curve_of(losses), [1.0]).parameters) == list(names)


@pytest.mark.parametrize("family", [Family.SUBLINEAR, Family.EXPONENTIAL])
def test_what_lies_behind_has_lost_nothing_and_what_lies_past_the_horizon_no_more(family: Family) -> None:
    kind, rate = np.array([family] * 4), np.full(4, 1e-10)
    behind, now, far, farther = lost(np.array([-5.0, 0.0, FAR, 2 * FAR]), kind, rate, np.zeros(4))
    assert behind == now == 0.0
    assert far == farther > 0.0


def test_a_measurement_at_either_end_of_what_is_one_counts_and_beyond_it_does_not() -> None:
    for seconds in (1.0 / LONGEST, LONGEST):
        assert paced((2, seconds)).known
    for seconds in (0.99 / LONGEST, 1.01 * LONGEST, 0.0):
        assert not paced((2, seconds)).known


def test_a_measurement_weighs_one_unless_it_says_otherwise_and_none_is_none() -> None:
    said, silent = Pace(), Pace()
    said.add(2, 0.5, 1.0)
    silent.add(2, 0.5)
    silent.add(2, 0.1, 0.0)
    assert silent.sums == said.sums


def test_a_job_that_more_units_slow_down_is_taken_for_steady_at_its_mean() -> None:
    serial, parallel = thetas([paced(*[(1, 0.5), (8, 1.0)] * 20)])[0]
    assert parallel == 0.0
    assert 0.5 < serial < 1.0


def test_a_job_that_speeds_up_more_than_its_units_has_no_serial_part() -> None:
    serial, parallel = thetas([paced(*[(1, 4.0), (8, 0.25)] * 20)])[0]
    assert serial == 0.0
    assert 2.0 < parallel < 4.0


def test_jobs_fitted_together_are_fitted_as_each_alone() -> None:
    curves = [curve_of(each) for each in (1.0 / K, K + np.sin(K), 0.8**K, K**2, np.full(30, 2.0))]
    together = fit(from_curves(curves))
    for row, curve in enumerate(curves):
        alone = fit(from_curves([curve]))
        for name, values in vars(alone).items():
            np.testing.assert_allclose(vars(together)[name][row], values[0], rtol=1e-9, err_msg=name)
