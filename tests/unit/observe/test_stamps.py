"""Which time columns are clocks."""

from __future__ import annotations

import math

import pytest

from slaqd.observe.when import Stamps, instant

T = 1772424000.0


@pytest.mark.parametrize(
    "value",
    [
        T,
        "1772424000",
        T * 1e3,
        T * 1e6,
        int(T) * 10**9,
        "2026-03-02T04:00:00Z",
        "2026-03-02 04:00:00",
        "2026-03-02T05:00:00+01:00",
        " 2026-03-02 04:00:00,000",
    ],
)
def test_one_moment_is_the_same_in_all_spellings(value: object) -> None:
    assert instant(value) == pytest.approx(T)


@pytest.mark.parametrize("value", [None, "", "yesterday", math.nan, "inf", "2026" * 20, [], True])
def test_what_is_no_time_is_nan(value: object) -> None:
    assert math.isnan(instant(value))


def test_the_duration_of_an_iteration_is_not_a_clock() -> None:
    stamps = Stamps()
    for value in (0.014, 0.0065, 0.0061, 0.0257):
        stamps.read(value)
    assert not stamps.trusted


def test_a_stopwatch_goes_on_after_a_restart() -> None:
    stamps = Stamps()
    seconds = [stamps.read(value) for value in (1, 2, 3)]
    stamps.restarts()
    stamps.restarts()
    seconds += [stamps.read(value) for value in (1, 2)]
    assert seconds == [1, 2, 3, 4, 5]
    assert stamps.trusted


def test_a_stopwatch_may_fall_once_in_many_lines() -> None:
    stamps = Stamps()
    for value in range(20):
        stamps.read(value)
    assert stamps.read(1) == 20
    assert stamps.trusted


def test_a_line_without_a_time_says_nothing_of_the_clock() -> None:
    stamps = Stamps()
    assert math.isnan(stamps.read(""))
    assert stamps.trusted
