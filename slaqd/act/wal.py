"""Looks at a write-ahead log that a killed slaqd left, before SQLite does.

SQLite stops at the first frame whose sum is wrong and forgets what follows. After a
kill in the middle of a write that is right: nobody was told that those frames are on
disk. But frames behind a later commit were acknowledged (synchronous FULL syncs before
the next write), so there a wrong sum is damage. Forms: SQLite's documents
fileformat2 (section 4) and walformat.
"""

from __future__ import annotations

import struct
from pathlib import Path

from slaqd.types import Struct

_HEADER = 32
_FRAME = 24
_IN_USE = 16
_MAGIC = 0x377F0682
_SMALLEST, _LARGEST = 512, 65_536
_WORD = 0xFFFFFFFF


class Left(Struct, frozen=True):
    """What is left, by numbers of frames from 1 on: ends of transactions, the last, holes before it."""

    commits: tuple[int, ...] = ()
    last: int = 0
    holes: tuple[int, ...] = ()
    flaw: str | None = None

    def lost_beyond(self, valid: int) -> bool:
        """Tell whether a transaction after the first ``valid`` frames was acknowledged: others follow it.

        Frames are written one after the other, so one that is no longer known as ours,
        with ours behind it, was one.
        """
        return any(valid < number < self.last for number in (*self.commits, *self.holes))


def look(path: Path) -> Left:
    """Look at a log; none, or an empty one, has lost nothing. OSError where it can't be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Left()
    if len(data) <= _HEADER:
        return Left()
    size = _page_size(data)
    if size is None:
        return Left(flaw="the head of its log is damaged")
    salts = data[16:24]
    frames = range(1, (len(data) - _HEADER) // (_FRAME + size) + 1)
    heads = {number: data[_HEADER + (number - 1) * (_FRAME + size) :][:_FRAME] for number in frames}
    ours = {number: head for number, head in heads.items() if head[8:16] == salts}
    commits = tuple(number for number, head in ours.items() if any(head[4:8]))
    last = max(ours, default=0)
    holes = tuple(number for number in range(1, last) if number not in ours)
    return Left(commits=commits, last=last, holes=holes)


def frames_in_use(shared: Path) -> int:
    """Tell how many frames SQLite found whole, from the index that it keeps beside an open log.

    The index is in the machine's own byte order. OSError where there is none.
    """
    return int(struct.unpack("=I", shared.read_bytes()[_IN_USE : _IN_USE + 4])[0])


def _page_size(data: bytes) -> int | None:
    """Give the size of a page, None where the log's head (synced before any frame) is not whole."""
    magic, _form, size, *_rest, one, two = struct.unpack(">8I", data[:_HEADER])
    if magic & ~1 != _MAGIC or not _SMALLEST <= size <= _LARGEST or size & (size - 1):
        return None
    words = struct.unpack(f"{'>' if magic & 1 else '<'}6I", data[:24])
    sums = (0, 0)
    for first, second in zip(words[::2], words[1::2], strict=True):
        left = (sums[0] + first + sums[1]) & _WORD
        sums = (left, (sums[1] + second + left) & _WORD)
    return size if sums == (one, two) else None
