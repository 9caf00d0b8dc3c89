"""The hand tools: ticks, paths and what may be thrown away."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slaqd.report.picture import Frame, band, safe, sample, stairs, thin, ticks

FRAME = Frame(100, 100, 0, 0, 0, 0, 100.0, 100.0)


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (154.0, [0, 50, 100, 150]),
        (84.0, [0, 20, 40, 60, 80]),
        (0.0, [0.0]),
        (math.nan, [0.0]),
        (math.inf, [0.0]),
    ],
)
def test_ticks_are_round_and_few(top: float, expected: list[float]) -> None:
    assert ticks(top) == pytest.approx(expected)


def test_stairs_go_across_at_the_old_value_then_to_the_new_one() -> None:
    assert stairs(FRAME, [(0, 100), (10, 100), (20, 50)]) == "M0.0 0.0H10.0H20.0V50.0"


def test_thinning_keeps_the_extremes_and_the_last_of_a_column() -> None:
    points = [(1.0, 5.0), (1.01, 9.0), (1.02, 1.0), (1.03, 4.0), (1.04, 3.0), (7.0, 2.0)]
    assert thin(FRAME, points) == [(1.01, 9.0), (1.02, 1.0), (1.04, 3.0), (7.0, 2.0)]


def test_a_step_function_is_zero_before_its_first_step() -> None:
    at = np.array([0.0, 2.0, 3.0])
    assert sample([(2.0, 7.0)], at).tolist() == [0, 7, 7]
    assert sample([], at).tolist() == [0, 0, 0]


def test_a_band_goes_along_its_top_and_back_along_its_bottom() -> None:
    edges = np.array([0.0, 10.0, 20.0, 30.0])
    low, high = np.array([0.0, 10.0, 0.0]), np.array([20.0, 30.0, 0.0])
    path = band(FRAME, edges, low, high)
    assert path == "M0.0 80.0H10.0V70.0H20.0H20.0V90.0H10.0V100.0H0.0Z"


def test_an_empty_band_has_no_path() -> None:
    assert band(FRAME, np.array([0.0, 1.0]), np.array([3.0]), np.array([3.0])) == ""


def test_what_cannot_be_encoded_becomes_a_question_mark() -> None:
    assert safe("a\udcffb<") == "a?b&lt;"
