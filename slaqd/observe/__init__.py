"""A job's log -> its curve. Imports no numpy: it also runs in the small processes that read users' files."""

from __future__ import annotations

from slaqd.observe.curve import MAX_POINTS, History
from slaqd.observe.log import Log
from slaqd.observe.reader import DirectReader, FileId, Reader, SourceMissing
from slaqd.observe.tail import Lines, Tail
from slaqd.observe.whole import read_log

__all__ = [
    "MAX_POINTS",
    "DirectReader",
    "FileId",
    "History",
    "Lines",
    "Log",
    "Reader",
    "SourceMissing",
    "Tail",
    "read_log",
]
