"""Tables with a header: CSV, TSV, semicolons with decimal commas.

Met for real: a BOM, CRLF, padded names, sparse columns, a header repeated in the
middle after a resume (with more columns than before), rows of another length.
"""

from __future__ import annotations

import csv
import zlib

from slaqd.observe.formats.base import BadLine, Row
from slaqd.observe.formats.number import number
from slaqd.observe.names import known, matches

DELIMITERS = "\t;,"
"""In this order: a tab in a header is never part of a name, a comma may be."""

PLAIN = 4096
"""Names up to this length together are pickled as they are."""


class Table:
    """Reads the rows below ``header``."""

    name = "csv"

    def __init__(self, header: str) -> None:
        self._delimiter = next((mark for mark in DELIMITERS if mark in header), ",")
        self._take(_cells(header.lstrip("# "), self._delimiter))

    def __getstate__(self) -> tuple[str, list[str] | bytes]:
        """Give what a pickle holds; a line of bytes that are no text would be three times as long."""
        text = "\n".join(self._names)
        return self._delimiter, self._names if len(text) <= PLAIN else zlib.compress(text.encode(), 1)

    def __setstate__(self, state: tuple[str, list[str] | bytes]) -> None:
        """Take up what a pickle held."""
        self._delimiter, names = state
        self._take(names if isinstance(names, list) else zlib.decompress(names).decode().split("\n"))

    def _take(self, names: list[str]) -> None:
        """Make this the header from now on."""
        self._names = names
        self._width = len(names)

    def row(self, line: str) -> Row | None:
        """See `Format.row`."""
        if not line or line.isspace() or line.startswith("#"):
            return None
        cells = self._split(line)
        if self._is_header(cells):
            self._take(_cells(line, self._delimiter))
            return None
        if len(cells) > self._width and not any(cells[self._width :]):
            cells = cells[: self._width]
        if len(cells) != self._width:
            why = f"has {len(cells)} fields under {self._width} names"
            raise BadLine(why)
        return dict(zip(self._names, cells, strict=True))

    def fits(self, line: str) -> bool:
        """Tell whether ``line`` is a row of numbers as wide as the header."""
        try:
            row = self.row(line)
        except BadLine:
            return False
        return row is not None and any(number(cell) is not None for cell in row.values())

    def names_are_known(self, key: str | None) -> bool:
        """Tell whether the header has the tag's key or a name that loggers use."""
        return any(
            known(name) or (key is not None and matches(key, name) is not None) for name in self._names
        )

    def looks_like_names(self) -> bool:
        """Tell whether no cell of the header is a number."""
        return any(self._names) and all(number(name) is None for name in self._names)

    def _split(self, line: str) -> list[str]:
        """Cut a row, with points for decimal commas where the comma isn't the delimiter."""
        if self._delimiter != "," and "," in line and '"' not in line:
            line = line.replace(",", ".")
        return _cells(line, self._delimiter) if '"' in line or " " in line else line.split(self._delimiter)

    def _is_header(self, cells: list[str]) -> bool:
        """Tell whether a line is a header again: names alone, one of them known."""
        head = cells[0][:1]
        if head.isdigit() or (len(cells) > 1 and cells[1][:1].isdigit()):
            return False
        names = [cell.strip() for cell in cells]
        if names == self._names:
            return True
        return all(number(name) is None for name in names) and all(names[1:]) and any(map(known, names))


def claim(previous: str | None, line: str, key: str | None, *, forced: bool) -> Table | None:
    """Recognise a table by a header and a row of numbers below it; see `Claim`."""
    if previous is None or line.startswith("#"):
        return None
    table = _below(previous)
    if table is None or not table.looks_like_names() or not (forced or table.names_are_known(key)):
        return None
    return table if table.fits(line) else None


def could_be_header(line: str, key: str | None) -> bool:
    """Tell whether a lone line looks like the header of a table that is still to come."""
    table = _below(line)
    return table is not None and table.looks_like_names() and table.names_are_known(key)


def _below(header: str) -> Table | None:
    """Make a table of its header, if that can be cut into cells."""
    try:
        return Table(header)
    except BadLine:
        return None


def _cells(line: str, delimiter: str) -> list[str]:
    """Cut a line with quotes, as spreadsheets write it, and strip the cells."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter)]
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True))
    except csv.Error as error:
        why = f"has a quote out of place ({error})"
        raise BadLine(why) from error
    return [cell.strip() for cell in rows[0]] if rows else []
