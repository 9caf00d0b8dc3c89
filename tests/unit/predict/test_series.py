"""Curves become aligned, normalised rows."""

from __future__ import annotations

import numpy as np

from slaqd.predict.series import WINDOW, from_curves
from slaqd.types import Curve, Health


def curve(steps: list[float], losses: list[float]) -> Curve:
    return Curve(steps=steps, losses=losses, count=len(steps), health=Health.OK)


def test_rows_end_at_the_newest_point_and_padding_weighs_nothing() -> None:
    series = from_curves([curve([10, 20, 30], [4.0, 2.0, 3.0])])
    assert series.count[0] == 3
    np.testing.assert_allclose(series.x[0, -3:], [-1.0, -0.5, 0.0])
    np.testing.assert_allclose(series.y[0, -3:], [1.0, 0.0, 0.5])
    assert not series.weights[0, :-3].any()
    np.testing.assert_allclose(series.weights.sum(), 1.0)


def test_losses_and_steps_are_regained() -> None:
    losses = [5e6, 4e6, 3.5e6]
    series = from_curves([curve([100, 110, 150], losses)])
    back = series.scale * (series.offset + series.height * series.y[0, -3:])
    np.testing.assert_allclose(back, losses)
    np.testing.assert_allclose(series.last + series.span * series.x[0, -3:], [100, 110, 150])


def test_only_the_newest_points_are_looked_at() -> None:
    steps = list(range(1000))
    losses = [1.0 / (1 + k) for k in steps]
    whole = from_curves([curve(steps, losses)])
    tail = from_curves([curve(steps[-WINDOW:], losses[-WINDOW:])])
    for name in ("x", "y", "weights", "last", "span", "height"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(tail, name))


def test_newer_points_weigh_more_than_older_ones_as_far_away() -> None:
    series = from_curves([curve(list(range(8)), [1.0, 0.0] * 4)])
    falling = series.weights[0, -8:]
    assert (np.diff(falling[::2]) > 0).all()
    assert (np.diff(falling[1::2]) > 0).all()


def test_one_huge_first_fall_weighs_next_to_nothing() -> None:
    series = from_curves([curve(list(range(12)), [1e6, *(1.0 / k for k in range(1, 12))])])
    assert series.weights[0, -12] < 1e-6


def test_a_constant_curve_is_flat_and_one_out_of_order_is_not_sound() -> None:
    series = from_curves(
        [
            curve([1, 2, 3], [7.0, 7.0, 7.0]),
            curve([1, 3, 2], [3.0, 2.0, 1.0]),
            curve([1, 2, 3], [3.0, float("nan"), 1.0]),
            curve([1, 2, 3], [3.0, 2.0, 1.0]),
        ]
    )
    assert series.flat.tolist() == [True, True, True, False]
    assert series.sound.tolist() == [True, False, False, True]


def test_no_curves_make_no_rows() -> None:
    assert from_curves([]).x.shape == (0, WINDOW)
