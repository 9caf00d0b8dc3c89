"""What is said of a job, and what is not."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from slaqd.predict import Forecaster, Pace, forecast, predict_curve
from slaqd.predict.families import exponential, sublinear
from slaqd.predict.fit import Fits, fit
from slaqd.predict.series import Series
from slaqd.types import Curve, Health

K = np.arange(1.0, 31.0)


def curve_of(losses: np.ndarray | list[float], steps: np.ndarray | list[float] | None = None) -> Curve:
    losses = np.asarray(losses, dtype=float)
    changes = np.abs(np.diff(losses))
    return Curve(
        steps=np.arange(1.0, len(losses) + 1.0).tolist() if steps is None else list(steps),
        losses=losses.tolist(),
        count=len(losses),
        first=float(losses[0]),
        lowest=float(losses.min()),
        largest_change=float(changes.max()) if len(changes) else 0.0,
        health=Health.OK,
    )


def pace_of(units: float = 1, seconds: float = 1.0) -> Pace:
    pace = Pace()
    pace.add(units, seconds)
    return pace


def test_the_fall_is_that_of_the_iterations_the_units_buy() -> None:
    curve = curve_of(exponential(K, 0.9, 0.0, 2.0))
    cast = forecast([curve], [pace_of(2, 0.5)], 3.0)
    assert float(cast.iterations(0, 4)) == pytest.approx(12.0)
    fall = 0.9**30 - 0.9**42
    assert float(cast.fall(0, 4)) == pytest.approx(fall / (0.9 - 0.81), rel=0.02)


def test_a_forecaster_says_the_same_whatever_it_has_fitted_before() -> None:
    rng = np.random.default_rng(5)
    curves = [
        curve_of(rng.uniform(1, 5) / (0.2 * K + 1.0) + rng.normal(1.0, 1e-3, len(K))) for _ in range(9)
    ] + [Curve()]
    paces = [pace_of(2, 0.5) for _ in curves]
    forecaster = Forecaster()
    for chosen in ([0, 1, 2], [2, 1, 0, 9], [3, 4, 2], [2, 2, 5, 6, 7, 8], [], [8, 1]):
        some = [curves[at] for at in chosen]
        found = forecaster.forecast(some, paces[: len(chosen)], 3.0)
        expected = forecast(some, paces[: len(chosen)], 3.0)
        rows = np.arange(len(chosen))
        assert found.reason == expected.reason
        np.testing.assert_allclose(found.fall(rows, 4), expected.fall(rows, 4), rtol=1e-9)
        np.testing.assert_allclose(found.value_at(rows, 5.0), expected.value_at(rows, 5.0), rtol=1e-9)


def test_a_forecaster_fits_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[int] = []

    def counted(series: Series) -> Fits:
        fitted.append(len(series.x))
        return fit(series)

    monkeypatch.setattr(sys.modules["slaqd.predict.forecast"], "fit", counted)
    forecaster, old, new = Forecaster(), curve_of(1.0 / K), curve_of(2.0 / K)
    del fitted[:]
    for curves in ([old], [old], [new, old], [old, new]):
        forecaster.forecast(curves, [pace_of() for _ in curves], 3.0)
    assert fitted == [1, 1]


def test_the_other_normaliser_divides_by_the_range_seen() -> None:
    curve = curve_of(exponential(K, 0.9, 0.0, 2.0))
    change = forecast([curve], [pace_of()], 3.0, "change").fall(0, 4)
    whole = forecast([curve], [pace_of()], 3.0, "range").fall(0, 4)
    assert float(whole / change) == pytest.approx((0.9 - 0.81) / (0.9 - 0.9**30))


def test_part_of_an_iteration_counts() -> None:
    cast = forecast([curve_of(1.0 / K)], [pace_of(1, 10.0)], 1.0)
    assert 0.0 < float(cast.fall(0, 1)) < float(cast.fall(0, 2))


@pytest.mark.parametrize(
    ("curve", "paced", "words"),
    [
        (Curve(), True, "its log is empty"),
        (Curve(health=Health.MISSING), True, "its log is missing"),
        (
            Curve(health=Health.DIVERGED, steps=[1, 2, 3], losses=[3.0, 2.0, 1.0]),
            True,
            "its loss has diverged",
        ),
        (curve_of([3.0]), True, "only 1 iteration logged"),
        (curve_of([3.0, 2.0]), True, "only 2 iterations logged"),
        (curve_of([3.0, 2.0, 1.0]), False, "no step has been timed yet"),
        (curve_of([3.0, math.nan, 1.0]), True, "not finite"),
        (curve_of([3.0, 2.0, 1.0], [1.0, 1.0, 1.0]), True, "out of order"),
    ],
)
def test_what_is_not_known_is_named(curve: Curve, paced: bool, words: str) -> None:  # noqa: FBT001 - a parameter of the table
    cast = forecast([curve], [pace_of() if paced else Pace()], 1.0)
    assert not cast.known[0]
    assert words in cast.reason[0]
    assert float(cast.fall(0, 5)) == 0.0
    assert [float(end) for end in cast.interval(0, 5)] == [0.0, 0.0]


def test_one_bad_job_leaves_the_others_as_they_are() -> None:
    good = curve_of(1.0 / K)
    alone = forecast([good], [pace_of()], 1.0).fall(0, 3)
    cast = forecast([Curve(health=Health.UNREADABLE), good], [Pace(), pace_of()], 1.0)
    assert cast.known.tolist() == [False, True]
    assert float(cast.fall(1, 3)) == pytest.approx(float(alone))


def test_rows_and_units_broadcast() -> None:
    cast = forecast([curve_of(1.0 / K), curve_of(0.8**K)], [pace_of(), pace_of()], 1.0)
    table = cast.fall(np.arange(2)[:, None], np.arange(5))
    assert table.shape == (2, 5)
    assert float(table[1, 3]) == float(cast.fall(1, 3))


def test_a_wider_interval_covers_more() -> None:
    rng = np.random.default_rng(0)
    cast = forecast([curve_of(3.0 / K + rng.normal(0, 0.01, len(K)))], [pace_of()], 5.0)
    low, high = cast.interval(0, 4, 0.5)
    lower, higher = cast.interval(0, 4, 0.9)
    assert lower <= low < cast.fall(0, 4) < high < higher


def test_a_converged_job_is_predicted_to_fall_less_than_a_young_one() -> None:
    long = np.arange(1.0, 301.0)
    cast = forecast([curve_of(1.0 / long), curve_of(1.0 / long[:6])], [pace_of(), pace_of()], 3.0)
    assert float(cast.fall(1, 1)) > 20 * float(cast.fall(0, 1))


def test_ten_iterations_ahead_are_told_within_five_percent() -> None:
    losses = [
        sublinear(np.arange(1.0, 41.0), 0.001, 0.3, 0.5, 0.2),
        exponential(np.arange(1.0, 41.0), 0.93, 0.0, 0.5),
    ]
    cast = forecast([curve_of(loss[:30]) for loss in losses], [pace_of(), pace_of()], 1.0)
    told = cast.value_at(np.arange(2), 10.0)
    for shown, loss in zip(told, losses, strict=True):
        assert shown == pytest.approx(loss[39], rel=0.05)


def test_steps_logged_by_tens_are_counted_in_steps() -> None:
    steps = 10.0 * K
    told = predict_curve(curve_of(exponential(steps, 0.99, 0.0, 1.0), steps), [100.0])
    assert told.losses[0] == pytest.approx(1.0 + 0.99**400, rel=0.01)


@pytest.mark.parametrize("family", ["sublinear", "exponential"])
def test_the_parameters_for_people_are_those_of_slaqs_forms(family: str) -> None:
    form = {"sublinear": sublinear, "exponential": exponential}[family]
    given = {"sublinear": (0.01, 0.5, 1.0, 2.0), "exponential": (0.9, 3.0, 2.0)}[family]
    told = predict_curve(curve_of(form(K, *given)), [1.0, 10.0])
    assert told.family == family
    again = form(K[-1] + np.array(told.ahead), *told.parameters.values())
    np.testing.assert_allclose(again, told.losses, rtol=1e-9)
    assert told.asymptote == pytest.approx(2.0, rel=0.02)


def test_a_constant_loss_is_known_to_stay() -> None:
    told = predict_curve(curve_of([4.0, 4.0, 4.0]), [1.0, 100.0])
    assert told.known
    assert (told.family, told.losses, told.parameters) == ("flat", (4.0, 4.0), {"level": 4.0})


def test_a_curve_too_short_is_told_to_be() -> None:
    told = predict_curve(curve_of([4.0, 3.0]), [1.0])
    assert not told.known
    assert told.reason == "only 2 iterations logged"
    assert told.losses == ()
