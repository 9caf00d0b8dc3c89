"""Whether a log may have grown: told by stat alone, without a process of its own."""

from __future__ import annotations

import errno
import os
from glob import has_magic
from typing import NamedTuple

from slaqd.agent.protocol import Source


class Signature(NamedTuple):
    """Equal ones: nothing to read. It is a hint, and never leaves the agent.

    The time is that of the last change of the file or of its rights: what was refused may be readable now.
    """

    error: int = 0
    dev: int = 0
    ino: int = 0
    size: int = 0
    ctime_ns: int = 0
    around: tuple[int, ...] = ()


def signature(source: Source, followed: str = "") -> Signature | None:
    """Look at a source, with the file-system rights that the calling thread wears. May hang.

    A glob may lead through any number of directories of any size, which must cost neither
    this process's memory nor its time. Of one this looks at the file that a child found
    last (``followed``), at that one's directory, and at the last that is named in full:
    a newer file somewhere else only a child finds.

    None: only a child can tell. A user's own FUSE file system lets in nobody whose real
    uid is another.
    """
    if not has_magic(source.path):
        return _of(source.path)
    seen = _of(followed) if followed and not has_magic(followed) else None
    if seen is None:
        return None
    around = [_of(place) for place in (os.path.dirname(followed), _fixed(source.path))]  # noqa: PTH120 - as below
    return seen._replace(around=tuple(each.ctime_ns if each else 0 for each in around))


def _fixed(pattern: str) -> str:
    """Give the directory of a pattern that is named in full."""
    before = pattern[: min(pattern.find(sign) for sign in "*?[" if sign in pattern)]
    return before.rpartition("/")[0] or "/"


def _of(path: str) -> Signature | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a thousand of them each cycle
    except OSError as error:
        refused = error.errno in {errno.EACCES, errno.EPERM}
        return None if refused else Signature(error.errno or 0)
    except ValueError:
        return Signature(errno.EINVAL)
    return Signature(0, status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)
