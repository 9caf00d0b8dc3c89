"""The control socket: a unix socket, one JSON line each way, the peer's uid decides."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

import slaqd
from slaqd import wire
from slaqd.daemon.door import Buckets, Door, Limits
from slaqd.errors import StateError
from slaqd.sockets import bound, make_way

log = structlog.get_logger("slaqd")

Answer = Callable[[wire.Request, int], wire.Reply]
"""From a request and the peer's uid to a reply."""


class Server:
    """Answers on a unix socket from a thread of its own until closed.

    Parameters
    ----------
    path
        Where the socket lies. Its directory is made for the owner alone; a socket
        left there by a dead slaqd is replaced (the state lock says that it is dead).
    answer
        Called in several threads.
    limits
        How much one uid may ask, and all together.
    everybody
        Whether all users may knock, or only the one that slaqd runs as (and root).

    Raises
    ------
    StateError
        The socket can't be made.

    """

    def __init__(
        self,
        path: Path,
        answer: Answer,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        *,
        everybody: bool = False,
    ) -> None:
        self._path = path
        self._answer = answer
        self._buckets = Buckets(limits.per_s, limits.burst)
        try:
            path.parent.mkdir(mode=0o755 if everybody else 0o700, parents=True, exist_ok=True)
            make_way(path)
            listener = bound(path, closed=0o111 if everybody else 0o177)
        except OSError as error:
            msg = f"{path}: the control socket can't be made: {error.strerror or error}"
            raise StateError(msg) from error
        self._door = Door(listener, self._serve, limits)

    def close(self) -> None:
        """Stop answering and remove the socket."""
        self._door.close()
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _serve(self, sock: socket.socket, uid: int, line: bytes) -> None:
        # Root is never kept from the brakes; it could end slaqd anyway.
        if uid != 0 and not self._buckets.take(uid):
            reply = wire.failure("busy", f"uid {uid} asks too often: wait a moment")
        else:
            reply = answer_line(line, uid, self._answer)
        sock.sendall(wire.encode(reply))


def _of_another_version(line: bytes) -> wire.Reply | None:
    """Say that the two are not of one version, where that is what is wrong with a request."""
    try:
        said = msgspec.json.decode(line, type=wire.Outline)
    except (msgspec.MsgspecError, RecursionError):
        return None
    mine = f"this slaqd is version {slaqd.__version__} and speaks {wire.VERSION}"
    if said.v != wire.VERSION:
        return wire.failure("version", f"{mine}, not {said.v}: use the slaqctl that came with it")
    if said.verb and said.verb not in set(wire.Verb):
        return wire.failure(
            "version", f"{mine}; it knows no {said.verb[:40]!r}: restart slaqd if it is older"
        )
    return None


def answer_line(line: bytes, uid: int, answer: Answer) -> wire.Reply:
    """Turn one line into one reply; no input makes it raise."""
    if len(line) > wire.MAX_LINE:
        return wire.failure("bad_request", f"a request is one line of at most {wire.MAX_LINE} bytes")
    try:
        request = msgspec.json.decode(line, type=wire.Request)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _of_another_version(line) or wire.failure(
            "bad_request", f"not a request of this slaqd: {error}"
        )
    if request.v != wire.VERSION:
        return _of_another_version(line) or wire.failure("bad_request", "not a request of this slaqd")
    try:
        return answer(request, uid)
    except Exception:
        log.exception("a fault in a verb", verb=request.verb.value)
        return wire.failure("internal", "a fault of slaqd's own, its trace is in the log")
