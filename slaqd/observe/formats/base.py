"""What every format of a log is: a reader of lines that hands out rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from slaqd.errors import SlaqdError

LONGEST_NAME = 512
"""Characters of the longest name of a column that is looked at."""

Row = Mapping[str, object]
"""One line's values by name, as written: text, numbers, None where the log says null."""


class BadLine(SlaqdError):
    """A line can't be read; its text says why."""


class Format(Protocol):
    """Reads the lines of one log, one after the other."""

    @property
    def name(self) -> str:
        """Tell what the tag calls this format: ``format=NAME``."""
        ...

    def row(self, line: str) -> Row | None:
        """Read a line; None if it says nothing (blank, a comment, a header).

        Raises
        ------
        BadLine
            The line has no place in this format.
        """
        ...


class Claim(Protocol):
    """How a format is recognised."""

    def __call__(self, previous: str | None, line: str, key: str | None, *, forced: bool) -> Format | None:
        """Make a reader if these two successive lines are of this format, else None.

        ``key`` is the tag's; ``forced`` says that the tag names this format, so that
        weaker signs do. The reader has taken in ``previous``; ``line`` is its first row.
        """
        ...
