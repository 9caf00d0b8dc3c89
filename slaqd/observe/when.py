"""The clock of a log: what its time column says, in seconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from slaqd.observe.formats.number import number

ABSOLUTE = 5e8
"""From here on a number is taken as seconds since 1970 (this is 1985), below as seconds since the start."""
_UNITS = ((3e17, 1e9), (3e14, 1e6), (3e11, 1e3))
"""Since 1970 in ns, µs and ms: from where on, and how many make a second."""
LATEST = 1e19
"""From here on a number is no time in any unit."""
LONGEST = 40
"""Characters of the longest date."""


def instant(value: object) -> float:
    """Read a time: a number or a date as in ISO 8601. NaN if it is none.

    A date without a zone is taken as UTC: only differences are used.
    """
    read = number(value)
    if read is not None:
        return _seconds(read)
    if not isinstance(value, str) or len(value) > LONGEST:
        return math.nan
    try:
        when = datetime.fromisoformat(value.strip())
    except ValueError:
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _seconds(read: float) -> float:
    """Bring nano-, micro- and milliseconds since 1970 to seconds."""
    if not abs(read) < LATEST:
        return math.nan
    for above, each in _UNITS:
        if read > above:
            return read / each
    return read


class Stamps:
    """Follows one time column and tells whether it is a clock at all.

    mmengine and detectron2 call the duration of one iteration ``time``: it falls as
    often as it rises. A stopwatch only falls when the job starts again; it is then
    carried on from where it stood.
    """

    def __init__(self) -> None:
        self._raw = -math.inf
        self._carried = 0.0
        self._read = 0
        self._falls = 0

    @property
    def trusted(self) -> bool:
        """False once the column has fallen in more than a tenth of the lines."""
        return self._falls * 10 <= self._read

    def read(self, value: object) -> float:
        """Tell the seconds of the next line; NaN if it has none."""
        raw = instant(value)
        if math.isnan(raw):
            return raw
        self._read += 1
        if raw < ABSOLUTE and raw < self._raw:
            self._falls += 1
            self._carried += self._raw
        if raw >= ABSOLUTE:
            return raw
        self._raw = raw
        return raw + self._carried

    def restarts(self) -> None:
        """Know that the job has started again, so that a stopwatch may fall now."""
        if self._raw > 0:
            self._carried += self._raw
        self._raw = -math.inf
