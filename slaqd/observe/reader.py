"""How a user's file is reached: directly here, through the agent elsewhere.

The file belongs to somebody else. It may not be there yet, may be a directory or a
pipe, may be replaced between two looks. Nothing is held open between two calls: on
NFS, only a fresh open is promised to see what another machine wrote and closed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from glob import iglob
from itertools import islice
from typing import NamedTuple, Protocol

from slaqd.errors import SourceRefused

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
    """Reads with the rights of this process."""

    def stat(self, path: str) -> FileId:
        """See `Reader.stat`."""
        descriptor = _open(path)
        try:
            return _identify(descriptor, path)
        finally:
            os.close(descriptor)

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """See `Reader.read`."""
        descriptor = _open(path)
        try:
            _identify(descriptor, path)
            return os.pread(descriptor, limit, offset)
        except OSError as error:
            raise _refusal(path, error) from error
        finally:
            os.close(descriptor)

    def glob(self, pattern: str) -> Sequence[str]:
        """See `Reader.glob`."""
        # Not recursive: ** would walk whole trees in every cycle.
        return list(islice(iglob(pattern), MOST_MATCHES))  # noqa: PTH207 - Path.glob takes no absolute pattern


def show(text: str, longest: int = 200) -> str:
    """Make foreign text fit for a terminal and a log line: control characters escaped, cut short."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _open(path: str) -> int:
    """Open without waiting for a pipe's writer and without becoming a terminal's owner."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(path, error) from error
    except ValueError as error:
        message = f"{show(path)}: not a possible file name"
        raise SourceRefused(message) from error


def _identify(descriptor: int, path: str) -> FileId:
    """Look at what was opened, not at the path, which may name another file by now."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        message = f"{show(path)}: is a directory; log= must name a file"
        raise SourceRefused(message)
    if not stat.S_ISREG(status.st_mode):
        message = f"{show(path)}: is not a regular file"
        raise SourceRefused(message)
    return FileId(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


_WORDS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENXIO: "is not a regular file",
    errno.ENOTDIR: "not there: a part of its path is no directory",
    errno.ELOOP: "symbolic links that lead in a circle",
}


def _refusal(path: str, error: OSError) -> SourceRefused:
    """Put a system error into words. A stale NFS handle means that the file was replaced."""
    if error.errno in {errno.ENOENT, errno.ESTALE}:
        return SourceMissing(f"{show(path)}: not there yet")
    why = _WORDS.get(error.errno or 0) or os.strerror(error.errno or 0)
    return SourceRefused(f"{show(path)}: {why}")
