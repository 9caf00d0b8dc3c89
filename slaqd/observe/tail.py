"""Follows a growing file line by line, whatever its writer and its file system do to it.

What is met for real: half lines; files cut off, replaced or rewritten from the
start; blocks of NUL bytes where a network file system has not written yet; lines
without end. A `Tail` holds no descriptor and not the file's bytes: only how far it
has read and what it saw at the beginning and just before that place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from slaqd.observe.reader import FileId, Reader

CHUNK = 256 * 1024
"""Bytes of one read."""
CHUNKS = 4
"""Reads of one poll: 1 MiB, some ten thousand lines. What is left comes with the next poll."""
MAX_LINE = 64 * 1024
"""Bytes of the longest line; longer ones are skipped and counted."""
PRINT = 256
"""Bytes at the beginning and before the offset by which a file is known again."""
MAX_BEHIND = 64 * 1024 * 1024
"""Bytes unread beyond which a tail leaps forward instead of working through them."""
LEAP_TO = 8 * 1024 * 1024
"""Bytes before the end where it lands."""


class Lines(NamedTuple):
    """Successive whole lines without their newlines; skipped ones are empty. ``first`` counts from 1."""

    first: int
    lines: list[bytes]


class Tail:
    """Reads what is new in one file.

    ``generation`` grows when the file turns out to be another one, or to have been
    written anew: reading then starts at 0. A file that was replaced by a longer copy
    of itself is the same one. ``behind`` says that the last poll left something
    unread, ``half`` is the beginning of the line that was not whole. ``long_lines``,
    ``nul_lines`` and ``leapt`` (bytes) count what was skipped in this generation,
    ``looks`` the polls that found anything changed.
    """

    def __init__(self, path: str, reader: Reader) -> None:
        self.path = path
        self.generation = 0
        self.behind = False
        self.looks = 0
        self._reader = reader
        self._status: FileId | None = None
        self._start()

    def _start(self) -> None:
        """Stand at the beginning of a file."""
        self.offset = 0
        self.long_lines = self.nul_lines = self.leapt = 0
        self._line = 1
        self._head = self._last = b""
        self._drop = False
        self._ahead = 0
        self.half = b""

    @property
    def size(self) -> int:
        """Bytes that the file had when last seen."""
        return self._status.size if self._status else 0

    def poll(self) -> Iterator[Lines]:
        """Hand out the lines that are new and whole.

        Raises
        ------
        SourceRefused
            The file can't be read now; what is known of it stays.
        """
        status = self._reader.stat(self.path)
        if status == self._status and not self.behind:
            return
        self.looks += 1
        if not self._same_as_before(status.size):
            self.generation += 1
            self._start()
        elif self.offset + self._ahead and status.size - self.offset > MAX_BEHIND:
            self._leap(status.size)
        self._status, self.behind = status, True
        for _ in range(CHUNKS):
            data = self._reader.read(self.path, self.offset, CHUNK)
            lines = self._cut(data)
            if lines is not None:
                yield lines
            elif len(data) < CHUNK or not self._pass(data):
                self.behind, self.half = False, data[:PRINT].rstrip(b"\0")
                return

    def _same_as_before(self, size: int) -> bool:
        """Tell whether the file still holds what was read, as far as the prints show."""
        if size < self.offset:
            return False
        if self._head and self._reader.read(self.path, 0, len(self._head)) != self._head:
            return False
        before = self.offset - len(self._last)
        return not self._last or self._reader.read(self.path, before, len(self._last)) == self._last

    def _leap(self, size: int) -> None:
        """Leave the middle of a file out that is too long to be worked through."""
        place = size - LEAP_TO
        self.leapt += place - self.offset
        self.offset = place
        self._last, self._drop, self._ahead = b"", True, 0

    def _consume(self, data: bytes) -> None:
        """Go past these bytes for good."""
        if self.offset == len(self._head):
            self._head += data[: PRINT - len(self._head)]
        self._last = data[-PRINT:] if len(data) >= PRINT else (self._last + data)[-PRINT:]
        self.offset += len(data)
        self._ahead = 0

    def _cut(self, data: bytes) -> Lines | None:
        """Take the whole lines off the front; None if there is none."""
        end = data.rfind(b"\n") + 1
        if not end:
            return None
        whole = data[:end]
        self._consume(whole)
        lines = whole.split(b"\n")
        lines.pop()
        if self._drop:
            lines[0], self._drop = b"", False
        if len(whole) > MAX_LINE or b"\0" in whole:
            self._blank(lines)
        first, self._line = self._line, self._line + len(lines)
        return Lines(first, lines)

    def _blank(self, lines: list[bytes]) -> None:
        """Empty the lines that are too long or touch a hole, and count them."""
        for place, line in enumerate(lines):
            if len(line) > MAX_LINE:
                self.long_lines += 1
                lines[place] = b""
            elif b"\0" in line:
                self.nul_lines += 1
                lines[place] = b""

    def _pass(self, data: bytes) -> bool:
        """Deal with a full chunk that has no newline. False: nothing to do but wait."""
        if data.endswith(b"\0"):
            return self._pass_hole(len(data))
        if not self._drop:
            self.long_lines += 1
        self._consume(data)
        self._drop = True
        return True

    def _pass_hole(self, length: int) -> bool:
        """Look for the end of a run of NULs: text may still come in its place while nothing follows it."""
        place = self.offset + max(self._ahead, length)
        probe = self._reader.read(self.path, place, CHUNK)
        hole = len(probe) - len(probe.lstrip(b"\0"))
        self._ahead = place + hole - self.offset
        if hole == len(probe):
            return len(probe) == CHUNK
        self.nul_lines += 1
        self.offset += self._ahead
        self._last, self._drop, self._ahead = b"", True, 0
        return True
