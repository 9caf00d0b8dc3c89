"""What others wrote, as it is shown."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from slaqd.cli.output import text as in_a_table
from slaqd.text import LONGEST, show


def test_what_is_shown_is_never_longer_than_it_may_be_escapes_and_all() -> None:
    assert show("x" * 200) == "x" * 200
    assert show("x" * 201) == "x" * 199 + "…"
    assert len(show("\x1b" * 150)) == 200
    assert len(show("\N{SNAKE}" * 999, 50)) == 50


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31m\n\u202eb", r"a\x1b[31m\n\u202eb"),
        ("\udcff", r"\udcff"),
        ("снег \N{SNAKE} 雪", "снег \N{SNAKE} 雪"),
    ],
)
def test_what_steers_a_terminal_is_escaped_and_other_scripts_stay_readable(text: str, shown: str) -> None:
    assert show(text) == shown
    assert len(shown) <= LONGEST


@pytest.mark.parametrize("category", ["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])
def test_no_sign_of_a_category_that_isnt_printable_gets_through_in_a_log_or_in_a_table(category: str) -> None:
    signs = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) == category]
    said = "".join(signs)
    shown = in_a_table(said)
    assert signs
    assert shown.isascii()
    assert shown.isprintable()
    assert show(said, sys.maxsize) == shown
