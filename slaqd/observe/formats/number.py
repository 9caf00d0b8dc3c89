"""The grammar of numbers in logs: ASCII, no underscores, and the spellings of not-a-number."""

from __future__ import annotations

import math
import re

LONGEST = 400
"""Characters of the longest text that is tried as a number."""

_FINITE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"([+-]?)(nan|inf|infinity)(?:\([a-z0-9]*\))?", re.IGNORECASE | re.ASCII)


def number(value: object) -> float | None:
    """Read a value of a log as a number; None if it is none.

    Python's own ``float`` also takes ``1_000`` and digits of other scripts, which
    no program means when it logs a loss. Spaces round a number are allowed, as
    are C's ``-nan`` and ``nan(ind)``. What is too large for a float is infinite.
    """
    if type(value) is float:
        return value
    if type(value) is str:
        return _from_text(value) if value else None
    if type(value) is not int:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _from_text(text: str) -> float | None:
    """Read a number written as text."""
    if len(text) > LONGEST:
        return None
    if _FINITE.fullmatch(text):
        return float(text)
    text = text.strip(" \t")
    if _FINITE.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special is None:
        return None
    if special[2].lower() == "nan":
        return math.nan
    return -math.inf if special[1] == "-" else math.inf
