"""Does once, as root, what children do later as users.

What Python imports only on first use may lie where users can't read: in a virtual
environment of root's, for one.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from contextlib import suppress

from slaqd.agent import files
from slaqd.agent.become import UnknownUserError, find
from slaqd.agent.protocol import KEEP, Failed, pack
from slaqd.observe import FileId, Log
from slaqd.types import Tag

_SAMPLES = (
    b'{"step": 1, "loss": 0.5, "time": "2026-01-01T00:00:00.5+01:00"}\n\xff{"loss": NaN}\n{"loss":null}\n',
    b"epoch,loss,time\n1,0.5,2026-01-01 00:00:00\n2,\xc3\xa4,x\n3,nan\n",
    b"step\tloss\n1\t0.5\n2\t1e999\n",
    b"\0\0\0\n\x1b[0m\n",
)


class _Sample:
    """A log of memory, as `slaqd.observe.Reader`."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def stat(self, _path: str) -> FileId:
        return FileId(0, 0, len(self._text), 0)

    def read(self, _path: str, offset: int, limit: int) -> bytes:
        return self._text[offset : offset + limit]

    def glob(self, _pattern: str) -> Sequence[str]:
        return ["sample"]


def warm() -> None:
    """Read samples, fail in each of the usual ways, and look up a user."""
    for text in _SAMPLES:
        for path in ("sample", "*"):
            log = Log(path, Tag(), _Sample(text), keep=KEEP)
            pack(log.poll(0.0))
            pickle.loads(pickle.dumps(log, pickle.HIGHEST_PROTOCOL))  # noqa: S301 - made right here
    reader = files.OwnersReader(os.geteuid(), "/")
    for path in ("/", os.devnull, "/nowhere/*/\ud800", "/proc/1/fd/x"):
        with suppress(Exception):
            pack(Log(path, Tag(), reader).poll(0.0))
        with suppress(OSError, ValueError):
            files.get(os.geteuid(), "/", path)
    with suppress(UnknownUserError):
        find(os.geteuid())
    str(Failed(0, os.strerror(1)))
