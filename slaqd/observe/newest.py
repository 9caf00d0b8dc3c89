"""Which file a glob stands for just now."""

from __future__ import annotations

from hashlib import blake2b

from slaqd.errors import SourceRefused
from slaqd.observe.reader import MOST_MATCHES, Reader


class Newest:
    """Finds the newest file that matches; one that was left is not taken up again.

    Of the files left only marks are kept, and of the last `MOST_MATCHES` alone.
    """

    def __init__(self, pattern: str, reader: Reader) -> None:
        self._pattern = pattern
        self._reader = reader
        self._left: dict[int, None] = {}

    def find(self) -> str | None:
        """Find the youngest regular file that was not left before; on equal times the last by name."""
        youngest: tuple[int, str] | None = None
        for path in self._reader.glob(self._pattern):
            if _mark(path) in self._left:
                continue
            try:
                candidate = (self._reader.stat(path).mtime_ns, path)
            except SourceRefused:
                continue
            youngest = max(youngest or candidate, candidate)
        return youngest[1] if youngest else None

    def leave(self, path: str) -> None:
        """Remember not to take this file up again."""
        self._left[_mark(path)] = None
        if len(self._left) > MOST_MATCHES:
            del self._left[next(iter(self._left))]


def _mark(path: str) -> int:
    """Stand for a path where many are kept."""
    return int.from_bytes(blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest())
