"""What others wrote, made fit for a terminal and for a line of a log."""

from __future__ import annotations

LONGEST = 200


def show(text: str, longest: int = LONGEST) -> str:
    """Escape what is not printable, and end with an ellipsis what is longer than ``longest``.

    Not printable are control characters, line ends of every kind, the marks that turn
    the direction of writing (U+202E and its kin), and bytes that are no UTF-8
    (`str.isprintable`). The result never has more than ``longest`` characters.
    """
    shown = visible(text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def visible(text: str) -> str:
    """Escape what is not printable, as `show` does, and cut nothing."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]
