"""The control socket: a unix socket, one JSON line each way, the peer's uid decides."""

from __future__ import annotations

import errno
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec
import structlog

from slaqd import wire
from slaqd.errors import StateError

_READ_S = 2.0
_AT_ONCE = 64

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

    Raises
    ------
    StateError
        The socket can't be made.

    """

    def __init__(self, path: Path, answer: Answer) -> None:
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_way(path)
            previous = os.umask(0o177)
            try:
                self._server = _Threads(str(path), answer)
            finally:
                os.umask(previous)
        except OSError as error:
            msg = f"{path}: the control socket can't be made: {error.strerror or error}"
            raise StateError(msg) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), daemon=True, name="control"
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering and remove the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with suppress(FileNotFoundError):
            self._path.unlink()


def _make_way(path: Path) -> None:
    """Remove what a dead slaqd left; OSError where it is no socket, or one that somebody answers on."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_socket():
        raise FileExistsError(errno.EEXIST, "something that is no socket is there already")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_READ_S)
        with suppress(ConnectionRefusedError):
            probe.connect(str(path))
            raise FileExistsError(errno.EADDRINUSE, "another slaqd answers there")
    path.unlink()


class _Threads(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, path: str, answer: Answer) -> None:
        self.answer = answer
        self.slots = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(path, _Connection)

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        if not self.slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]  # as above
        finally:
            self.slots.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base's signature
        """Forget a peer that went away in the middle."""
        log.debug("a connection broke")


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        sock = cast("socket.socket", self.request)
        sock.settimeout(_READ_S)
        line = _read_line(sock)
        if line:
            reply = answer_line(line, _peer(sock), cast("_Threads", self.server).answer)
            sock.sendall(wire.encode(reply))


def answer_line(line: bytes, uid: int, answer: Answer) -> wire.Reply:
    """Turn one line into one reply; no input makes it raise."""
    if len(line) > wire.MAX_LINE:
        return wire.failure("bad_request", f"a request is one line of at most {wire.MAX_LINE} bytes")
    try:
        request = msgspec.json.decode(line, type=wire.Request)
    except (msgspec.MsgspecError, RecursionError) as error:
        return wire.failure("bad_request", f"not a request of this slaqd: {error}")
    if request.v != wire.VERSION:
        return wire.failure("bad_request", f"this slaqd speaks version {wire.VERSION}, not {request.v}")
    try:
        return answer(request, uid)
    except Exception:
        log.exception("a fault in a verb", verb=request.verb.value)
        return wire.failure("internal", "a fault of slaqd's own, its trace is in the log")


def _read_line(sock: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) <= wire.MAX_LINE:
        chunk = sock.recv(65536)
        if not chunk:
            break
        data += chunk
    return data


def _peer(sock: socket.socket) -> int:
    """Ask the kernel who is on the other side (unix(7), SO_PEERCRED)."""
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)
