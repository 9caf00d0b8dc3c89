"""Seconds per step as a function of units."""

from __future__ import annotations

import math

import pytest

from slaqd.predict.speed import Pace, thetas


def pace_of(*seen: tuple[float, float]) -> Pace:
    pace = Pace()
    for units, seconds in seen:
        pace.add(units, seconds)
    return pace


def time_at(pace: Pace, units: float) -> float:
    serial, parallel = thetas([pace])[0]
    return float(serial + parallel / units)


def test_one_size_seen_means_time_shrinks_as_units_grow() -> None:
    pace = pace_of(*[(4, 0.5)] * 7)
    assert time_at(pace, 4) == pytest.approx(0.5)
    assert time_at(pace, 8) == pytest.approx(0.25)


def test_two_sizes_show_the_serial_part() -> None:
    pace = pace_of(*[(1, 1.2), (8, 0.325)] * 10)
    assert time_at(pace, 4) == pytest.approx(0.2 + 1.0 / 4, rel=0.05)
    assert time_at(pace, 64) == pytest.approx(0.2 + 1.0 / 64, rel=0.2)


def test_a_job_that_no_unit_speeds_up_is_seen_as_such() -> None:
    pace = pace_of(*[(1, 0.5), (8, 0.6)] * 10)
    assert time_at(pace, 100) == pytest.approx(time_at(pace, 1))


def test_noise_at_sizes_close_together_is_not_taken_for_a_law() -> None:
    pace = pace_of((100, 0.100), (101, 0.101), (100, 0.102), (101, 0.100))
    assert time_at(pace, 200) < 0.75 * time_at(pace, 100)


def test_better_than_linear_is_taken_as_linear() -> None:
    serial, parallel = thetas([pace_of((1, 1.0), (2, 0.3))])[0]
    assert serial == 0.0
    assert parallel > 0.0


def test_a_job_that_has_become_slower_is_found_out() -> None:
    pace = pace_of(*[(2, 0.5)] * 50, *[(2, 1.0)] * 150)
    assert time_at(pace, 2) == pytest.approx(1.0, rel=0.05)


def test_weights_count() -> None:
    pace = Pace()
    pace.add(1, 1.0, weight=1000.0)
    pace.add(1, 2.0, weight=1.0)
    assert time_at(pace, 1) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(
    ("units", "seconds", "weight"),
    [(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, math.nan, 1), (1, math.inf, 1), (1, 1, 0), (math.nan, 1, 1)],
)
def test_nonsense_is_no_measurement(units: float, seconds: float, weight: float) -> None:
    pace = Pace()
    pace.add(units, seconds, weight)
    assert not pace.known
    assert thetas([pace]).tolist() == [[0.0, 0.0]]


def test_no_jobs_have_no_speeds() -> None:
    assert thetas([]).shape == (0, 2)
