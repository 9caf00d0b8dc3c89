"""A log that is read once, from end to end."""

from __future__ import annotations

import math
from contextlib import suppress
from glob import escape

from slaqd.errors import SourceRefused
from slaqd.observe.log import Log
from slaqd.observe.reader import DirectReader, Reader
from slaqd.types import Curve, Health, Tag


def read_log(path: str, tag: Tag | None = None, reader: Reader | None = None) -> Curve:
    """Read a log from end to end, once. Seconds are NaN where the log has no clock.

    A file that is there is meant, whatever its name looks like; only else is ``path`` a glob.
    """
    reader = reader or DirectReader()
    with suppress(SourceRefused):
        reader.stat(path)
        path = escape(path)
    log = Log(path, tag or Tag(), reader)
    curve = log.poll(math.nan)
    while log.behind and curve.health not in {Health.MISSING, Health.UNREADABLE}:
        curve = log.poll(math.nan)
    return curve
