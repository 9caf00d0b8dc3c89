"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaqd.cli.output import duration, print_fields, print_json, print_table, text

NASTY = [
    "\x1b[31mred",
    "a\nb",
    "\x9b2J",
    "\u202eevil",
    "\x07",
    "\x00",
    "\ud800",
    "\ue000",
    "a\u2028b",
    "a\u2029b",
]


@pytest.mark.parametrize("name", NASTY)
def test_nothing_that_could_steer_a_terminal_gets_through(name: str) -> None:
    assert text(name).isprintable()


@given(st.text())
def test_any_text_is_shown_in_one_printable_line(value: str) -> None:
    shown = text(value)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", shown)
    assert shown


@given(st.text(st.characters(categories=("L", "N", "P")), min_size=1))
def test_letters_of_any_script_stay_as_they_are(value: str) -> None:
    assert text(value) == value


def test_values_are_short_and_nothing_is_a_dash() -> None:
    assert [text(value) for value in (None, "", 0, 0.0, 1 / 3, 12345678.0)] == [
        "-",
        "-",
        "0",
        "0",
        "0.3333",
        "1.235e+07",
    ]


def test_a_table_that_goes_into_a_pipe_has_whole_rows_and_no_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why = "because " * 60
    print_table(["JOB", "WHY"], [(1, why), (22, "[red]:fire: x[/red]"), (333, "\x1b[31m")], "none")
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert len(lines) == 4
    assert why.strip() in lines[1]
    assert "[red]:fire: x[/red]" in lines[2]
    assert "\x1b" not in out
    assert "\\x1b[31m" in lines[3]


def test_numbers_stand_right_words_left(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["N", "NAME"], [(1, "a"), (1000, "bb")], "none")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("   1  a")
    assert lines[2].startswith("1000  bb")


def test_an_empty_table_says_so_on_stderr_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["JOB"], [], "no jobs here")
    assert capsys.readouterr() == ("", "no jobs here\n")


def test_fields_leave_out_what_is_empty_and_escape_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("job", "7"), ("note", ""), ("loss", None), ("long name", "a\x1b")])
    assert capsys.readouterr().out == "job        7\nlong name  a\\x1b\n"


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"a": float("nan"), "b": "\x1b"}])
    assert json.loads(capsys.readouterr().out) == [{"a": None, "b": "\x1b"}]


def test_json_says_the_same_without_what_could_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    said = ["\x9b2J\u202e\u2028\u2029\x7f", "\U000e0001 \N{SNAKE} снег"]
    print_json(said)
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert "\N{SNAKE} снег" in out
    assert json.loads(out) == said


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "00:00:00"), (59.9, "00:00:59"), (3661, "01:01:01"), (90_061, "1-01:01:01"), (-5, "00:00:00")],
)
def test_durations_look_as_slurms_do(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
