"""What others wrote, as it is shown."""

from __future__ import annotations

import pytest

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
