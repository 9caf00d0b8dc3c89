"""Makes unix sockets: never in place of one that is answered on, never open to more than it should be."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST = 107
"""Bytes of a socket's path (unix(7))."""

_PROBE_S = 2.0


def bound(path: Path, closed: int) -> socket.socket:
    """Make a socket that lacks the rights ``closed`` from its first moment. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with masked(closed):
            listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def masked(closed: int) -> Iterator[None]:
    """Let files be made without the rights ``closed``: a chmod(2) after bind(2) would come too late."""
    previous = os.umask(closed)
    try:
        yield
    finally:
        os.umask(previous)


def make_way(path: Path) -> None:
    """Remove what a dead server left; OSError where it is no socket, or one that somebody answers on."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_socket():
        raise FileExistsError(errno.EEXIST, "something that is no socket is there already")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_S)
        with suppress(ConnectionRefusedError):
            probe.connect(str(path))
            raise FileExistsError(errno.EADDRINUSE, "another process answers there")
    path.unlink()
