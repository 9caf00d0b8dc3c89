"""The grammar of numbers."""

from __future__ import annotations

import math

import pytest

from slaqd.observe.formats import number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-0.5", -0.5),
        ("+2.5e-3", 0.0025),
        (".5", 0.5),
        ("5.", 5.0),
        (" 1.5 ", 1.5),
        ("1E+02", 100.0),
    ],
)
def test_ordinary_spellings_are_numbers(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["nan", "NaN", "-nan", "NAN", "nan(ind)", "-nan(snan)", " nan"])
def test_all_spellings_of_nan_are_nan(text: str) -> None:
    value = number(text)
    assert value is not None
    assert math.isnan(value)


@pytest.mark.parametrize("text", ["inf", "Infinity", "+INF", "1e309", "9" * 400])
def test_what_no_float_holds_is_infinite(text: str) -> None:
    assert number(text) == math.inf


def test_the_sign_of_an_infinity_is_kept() -> None:
    assert number("-inf") == -math.inf
    assert number(-(10**400)) == -math.inf
    assert number(10**400) == math.inf


@pytest.mark.parametrize(
    "text",
    ["1_000", "٣", "1,5", "0x10", "", " ", "1e", "--1", "1.2.3", "infinite", "nanny", "1" * 401, "½", "1 2"],
)
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize("value", [None, True, False, [], {}, b"1"])
def test_values_of_other_kinds_are_no_numbers(value: object) -> None:
    assert number(value) is None


def test_a_long_run_of_digits_does_not_take_long_to_refuse() -> None:
    """A grammar that backtracks would need 400² steps for each of these."""
    assert all(number("1" * 399 + "x") is None for _ in range(1000))
