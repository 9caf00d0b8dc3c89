"""What holds of every forecast, whatever the curve."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaqd.predict import Pace, forecast, predict_curve
from slaqd.predict.families import Family
from slaqd.predict.speed import thetas
from slaqd.types import Curve, Health

UNITS = np.arange(0, 65)
WIDEST = 1e307

finite = st.floats(-WIDEST, WIDEST, allow_nan=False)
tame = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 6))


def curve_of(steps: Any, losses: Any, health: Health = Health.OK) -> Curve:
    changes = [abs(b / 2 - a / 2) * 2 for a, b in pairwise(losses)]
    return Curve(
        steps=tuple(map(float, steps)),
        losses=tuple(map(float, losses)),
        count=len(losses),
        first=losses[0] if losses else 0.0,
        lowest=min(losses, default=0.0),
        largest_change=min(max(changes, default=0.0), 1e308),
        health=health,
    )


def pace_of(units: float = 2, seconds: float = 0.5) -> Pace:
    pace = Pace()
    pace.add(units, seconds)
    return pace


@st.composite
def any_curve(draw: Any, losses: Any = finite, most: int = 120) -> Curve:
    points = draw(st.lists(losses, max_size=most))
    gaps = draw(st.lists(st.floats(1e-3, 1e6), min_size=len(points), max_size=len(points)))
    return curve_of(np.cumsum(gaps), points)


@st.composite
def any_pace(draw: Any) -> Pace:
    pace = Pace()
    seen = st.tuples(st.floats(0.01, 1e4), st.floats(1e-9, 1e9), st.floats(1e-3, 1e6))
    for units, seconds, weight in draw(st.lists(seen, max_size=6)):
        pace.add(units, seconds, weight)
    return pace


@given(st.lists(st.tuples(any_curve(), any_pace()), max_size=4), st.floats(1e-3, 1e6))
@pytest.mark.filterwarnings("error")
def test_any_finite_curve_gives_a_finite_forecast_without_a_warning(
    jobs: list[tuple[Curve, Pace]], epoch_s: float
) -> None:
    cast = forecast([curve for curve, _ in jobs], [pace for _, pace in jobs], epoch_s)
    rows = np.arange(len(jobs))[:, None]
    low, high = cast.interval(rows, UNITS)
    for shown in (cast.fall(rows, UNITS), low, high, cast.iterations(rows, UNITS)):
        assert np.isfinite(shown).all()
    assert (low <= cast.fall(rows, UNITS)).all()
    assert (cast.fall(rows, UNITS) <= high).all()
    assert [not words for words in cast.reason] == cast.known.tolist()


@given(any_curve(), any_pace(), st.floats(1e-3, 1e6), st.sampled_from(["change", "range"]))
def test_a_fall_is_zero_at_no_units_never_negative_and_never_less_for_more(
    curve: Curve, pace: Pace, epoch_s: float, normaliser: Any
) -> None:
    cast = forecast([curve], [pace], epoch_s, normaliser)
    falls = cast.fall(np.zeros(len(UNITS), dtype=int), UNITS)
    assert falls[0] == 0.0
    assert (np.diff(falls) >= -1e-12 * falls.max()).all()
    assert cast.known[0] or not falls.any()


@given(any_curve(tame, most=80), st.floats(0.1, 100.0))
def test_each_next_unit_brings_no_more_than_the_one_before(curve: Curve, epoch_s: float) -> None:
    pace = pace_of(1, 1.0)
    pace.add(4, 0.5)
    falls = forecast([curve], [pace], epoch_s).fall(np.zeros(len(UNITS), dtype=int), UNITS)
    assert (np.diff(falls, 2) <= 1e-9 * max(1.0, falls.max())).all()


@given(
    any_curve(tame, most=80),
    st.floats(-20, 20).map(lambda power: 2.0 ** round(power)),
    st.floats(-10, 10).map(lambda power: 2.0 ** round(power)),
)
def test_a_forecast_does_not_depend_on_the_units_of_loss_and_step(
    curve: Curve, loss_scale: float, step_scale: float
) -> None:
    """The scales are powers of two, so that both curves are the same to the last bit."""
    scaled = curve_of([s * step_scale for s in curve.steps], [x * loss_scale for x in curve.losses])
    paces = [pace_of(2, 0.5), pace_of(2, 0.5 / step_scale)]
    cast = forecast([curve, scaled], paces, 3.0)
    one, other = cast.fall(np.array([[0], [1]]), UNITS)
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9 * (1.0 + one.max()))
    values = cast.value_at(np.array([0, 1]), np.array([10.0, 10.0 * step_scale]))
    if len(curve.losses) >= 3:
        size = max(1e-9, *map(abs, curve.losses))
        assert values[1] / loss_scale == pytest.approx(values[0], abs=1e-6 * size)


@given(any_curve(tame, most=60), any_curve(tame, most=60))
def test_a_job_is_predicted_alike_alone_and_among_others(one: Curve, other: Curve) -> None:
    alone = forecast([one], [pace_of()], 3.0).fall(0, UNITS)
    among = forecast([other, one], [pace_of(8, 0.1), pace_of()], 3.0).fall(1, UNITS)
    np.testing.assert_allclose(alone, among, rtol=1e-9, atol=1e-12)


@given(st.lists(st.floats(0.0, 1e3), min_size=3, max_size=60).map(sorted), st.floats(0.1, 1e3))
def test_a_rising_loss_is_predicted_to_fall_by_nothing(losses: list[float], epoch_s: float) -> None:
    cast = forecast([curve_of(range(len(losses)), losses)], [pace_of()], epoch_s)
    assert cast.known[0]
    assert cast.fits.family[0] == Family.FLAT
    assert not cast.fall(0, UNITS).any()


@given(any_curve(tame), st.lists(st.floats(0.0, 1e6), min_size=1, max_size=5).map(sorted))
def test_the_prediction_for_people_falls_towards_its_asymptote(curve: Curve, ahead: list[float]) -> None:
    told = predict_curve(curve, ahead)
    assert told.known == (len(curve.losses) >= 3)
    if not told.known:
        assert told.reason
        return
    assert told.asymptote is not None
    slack = 1e-9 * (1.0 + max(map(abs, curve.losses)))
    assert all(b <= a + slack for a, b in pairwise(told.losses))
    assert all(value >= told.asymptote - slack for value in told.losses)
    assert all(
        low <= value <= high for low, value, high in zip(told.low, told.losses, told.high, strict=True)
    )


@given(st.floats(0.0, 10.0), st.floats(0.01, 10.0), st.sampled_from([(1, 2), (1, 8), (2, 16)]))
def test_two_sizes_well_apart_tell_amdahls_law(
    serial: float, parallel: float, sizes: tuple[int, int]
) -> None:
    pace = Pace()
    for units in sizes * 20:
        pace.add(units, serial + parallel / units)
    theta = thetas([pace])[0]
    assert (theta >= 0.0).all()
    for units in sizes:
        true = serial + parallel / units
        assert theta[0] + theta[1] / units == pytest.approx(true, rel=0.1)


@given(any_pace(), st.integers(1, 1000))
def test_more_units_never_take_longer(pace: Pace, units: int) -> None:
    serial, parallel = thetas([pace])[0]
    assert np.isfinite([serial, parallel]).all()
    assert serial >= 0.0
    assert parallel >= 0.0
    assert (serial + parallel / units > 0.0) == pace.known
