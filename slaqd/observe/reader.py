"""How a user's file is reached: directly here, through the agent elsewhere.

The file belongs to somebody else. It may not be there yet, may be a directory or a
pipe, may be replaced between two looks. Nothing is held open between two calls: on
NFS, only a fresh open is promised to see what another machine wrote and closed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import iglob
from itertools import islice
from typing import NamedTuple, Protocol

from slaqd.errors import SourceRefused
from slaqd.text import show

MOST_MATCHES = 1000
"""Files that one glob may match."""


class SourceMissing(SourceRefused):
    """There is no such file, perhaps not yet."""


class FileId(NamedTuple):
    """Which file it is, and how far it has grown. ``mtime_ns`` is nanoseconds since 1970."""

    dev: int
    ino: int
    size: int
    mtime_ns: int


class Reader(Protocol):
    """Reaches a user's file. Errors are `SourceRefused`, in words for that user."""

    def stat(self, path: str) -> FileId:
        """Tell which file is at ``path``.

        Raises
        ------
        SourceMissing
            Nothing is there.
        SourceRefused
            It can't be read, or is no regular file.
        """
        ...

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Read up to ``limit`` bytes from ``offset`` on; fewer only at the file's end. Errors as `stat`."""
        ...

    def glob(self, pattern: str) -> Sequence[str]:
        """List the paths that match, in no order."""
        ...


class DirectReader:
    """Reads with the rights of this process.

    How a file is opened and what else is asked of it, other readers may say otherwise:
    `open` and `judge` are theirs to replace, ``words`` theirs to add to.
    """

    words: Mapping[int, str] = {
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.ENXIO: "is not a regular file",
        errno.ENOTDIR: "not there: a part of its path is no directory",
        errno.ELOOP: "symbolic links that lead in a circle",
    }

    def stat(self, path: str) -> FileId:
        """See `Reader.stat`."""
        with self._opened(path) as descriptor:
            return self._identify(descriptor, path)

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """See `Reader.read`."""
        with self._opened(path) as descriptor:
            self._identify(descriptor, path)
            return os.pread(descriptor, limit, offset)

    def glob(self, pattern: str) -> Sequence[str]:
        """See `Reader.glob`."""
        # Not recursive: ** would walk whole trees in every cycle.
        return list(islice(iglob(pattern), MOST_MATCHES))  # noqa: PTH207 - Path.glob takes no absolute pattern

    def open(self, path: str) -> int:
        """Open without waiting for a pipe's writer and without becoming a terminal's owner."""
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def judge(self, status: os.stat_result) -> str | None:
        """Say why a regular file may not be read; None if it may."""
        del status
        return None

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        try:
            descriptor = self.open(path)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._refusal(path, error) from error
        except ValueError as error:
            message = f"{show(path)}: not a possible file name"
            raise SourceRefused(message) from error

    def _identify(self, descriptor: int, path: str) -> FileId:
        """Look at what was opened, not at the path, which may name another file by now."""
        status = os.fstat(descriptor)
        why = _no_log(status) or self.judge(status)
        if why is not None:
            message = f"{show(path)}: {why}"
            raise SourceRefused(message)
        return FileId(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def _refusal(self, path: str, error: OSError) -> SourceRefused:
        """Put a system error into words. A stale NFS handle means that the file was replaced."""
        number = error.errno or 0
        if number in {errno.ENOENT, errno.ESTALE}:
            return SourceMissing(f"{show(path)}: not there yet")
        return SourceRefused(f"{show(path)}: {self.words.get(number) or os.strerror(number)}")


def _no_log(status: os.stat_result) -> str | None:
    if stat.S_ISDIR(status.st_mode):
        return "is a directory; log= must name a file"
    return None if stat.S_ISREG(status.st_mode) else "is not a regular file"
