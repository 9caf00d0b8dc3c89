"""JSON lines and tables, line by line."""

from __future__ import annotations

import math

import pytest

from slaqd.observe.formats import BadLine, Format, number, recognise
from slaqd.observe.formats.jsonl import JsonLines
from slaqd.observe.formats.table import Table


def test_nested_names_are_joined_with_dots() -> None:
    row = JsonLines().row('{"step": 3, "metrics": {"loss": 0.5, "eval": {"loss": 0.6}}}')
    assert row == {"step": 3, "metrics.loss": 0.5, "metrics.eval.loss": 0.6}


def test_bare_nan_and_infinity_are_read_though_json_has_none() -> None:
    row = JsonLines().row('{"loss": NaN, "a": -Infinity, "b": 1e309}')
    assert row is not None
    assert math.isnan(number(row["loss"]) or 0)
    assert number(row["a"]) == -math.inf
    assert number(row["b"]) == math.inf


@pytest.mark.parametrize("line", ["", "  ", "# resized to 2 at step 29"])
def test_blank_lines_and_comments_say_nothing(line: str) -> None:
    assert JsonLines().row(line) is None
    assert Table("step,loss").row(line) is None


@pytest.mark.parametrize(
    "line", ['{"loss": 0.3', "{'loss': 1}", "[1, 2]", "text", '{"a":' * 5000, '{"n": ' + "9" * 5000 + "}"]
)
def test_what_is_no_object_is_a_bad_line(line: str) -> None:
    with pytest.raises(BadLine):
        JsonLines().row(line)


def test_objects_nested_too_deep_are_left_out() -> None:
    assert JsonLines().row('{"a":' * 9 + "1" + "}" * 9) == {}


def test_a_row_has_its_values_under_stripped_names() -> None:
    assert Table(" epoch,  train/loss ").row(" 1,  0.5") == {"epoch": "1", "train/loss": "0.5"}


def test_decimal_commas_are_points_where_the_comma_is_not_the_delimiter() -> None:
    assert Table("step;loss").row("1;0,880717") == {"step": "1", "loss": "0.880717"}
    assert Table("step\tloss").row("1\t0,5") == {"step": "1", "loss": "0.5"}


def test_quoted_cells_may_hold_the_delimiter() -> None:
    assert Table('step,"loss, mean"').row('1,"0.5"') == {"step": "1", "loss, mean": "0.5"}


def test_a_quote_out_of_place_is_a_bad_line() -> None:
    with pytest.raises(BadLine, match="quote"):
        Table("step,loss").row('1,"0.5')


def test_a_row_of_another_length_is_a_bad_line() -> None:
    with pytest.raises(BadLine, match="has 3 fields under 2 names"):
        Table("step,loss").row("1,2,3")


def test_empty_cells_past_the_last_name_do_no_harm() -> None:
    assert Table("step,loss").row("1,2,,") == {"step": "1", "loss": "2"}


def test_a_header_in_the_middle_is_the_header_from_there_on() -> None:
    """A resumed DeepLabCut run repeats its header, with more columns than before."""
    table = Table("step,loss")
    assert table.row("step,loss") is None
    assert table.row("step,loss,lr") is None
    assert table.row("1,0.5,0.1") == {"step": "1", "loss": "0.5", "lr": "0.1"}


def test_a_row_of_nan_is_not_a_header() -> None:
    assert Table("loss,val_loss").row("nan,nan") == {"loss": "nan", "val_loss": "nan"}


def recognised(*lines: str, key: str | None = None, name: str | None = None) -> Format | None:
    previous: str | None = None
    for line in lines:
        found = recognise(previous, line, key=key, name=name)
        if found is not None:
            return found
        previous = line
    return None


@pytest.mark.parametrize(
    "lines",
    [
        ("step,loss", "1,0.5"),
        ("step;loss", "1;0,5"),
        ("iter\tLogloss\tAccuracy", "0\t0.58\t0.93"),
        ("# step,loss", "1,0.5"),
        (",epoch,loss", "0,1,0.5"),
        ("loss", "0.5"),
        ("epoch,reward", "1,-3"),
        ("some preamble", "step,loss", "1,0.5"),
    ],
)
def test_a_known_name_above_a_row_of_numbers_is_a_table(lines: tuple[str, ...]) -> None:
    found = recognised(*lines)
    assert found is not None
    assert found.name == "csv"


def test_a_name_from_the_tag_makes_a_table_too() -> None:
    assert recognised("a,foo", "1,2") is None
    assert recognised("a,foo", "1,2", key="foo") is not None
    assert recognised("a,b", "1,2", name="tsv") is not None


@pytest.mark.parametrize(
    "lines",
    [
        ("Iteration 1, loss = 2.35", "Iteration 2, loss = 2.2"),
        ("{'loss': 2.288, 'epoch': 0.25}", "{'loss': 2.1, 'epoch': 0.5}"),
        ("step,loss", "step,loss"),
        ("1,2", "3,4"),
        ('step,"loss', "1,2"),
        ("loss: 3", "# 4"),
    ],
)
def test_free_text_is_in_no_format(lines: tuple[str, ...]) -> None:
    assert recognised(*lines) is None


def test_one_json_object_is_enough_to_know_json_lines() -> None:
    found = recognised("starting up", '{"loss": 1}')
    assert found is not None
    assert found.name == "jsonl"
    assert recognised('{"loss": ') is None
    assert recognised("starting up", name="json") is not None
