"""Answers Prometheus: HTTP on a local address or a unix socket; few readers at once, each with a deadline."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, cast

import structlog

from slaqd.sockets import make_way, masked

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

SILENCE_S = 2.0
WHOLE_S = 10.0
_AT_ONCE = 8
_POLL_S = 0.2

log = structlog.get_logger("slaqd")


@dataclass(frozen=True)
class Address:
    """Either a host and a port, or the path of a socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Scrapes:
    """Serves ``/metrics`` from threads of its own until closed.

    A reader that says nothing for `SILENCE_S` or isn't done within `WHOLE_S` is let go; where all places
    are taken, sooner: whoever has been there the longest without having asked makes room for the next one.
    Raises OSError where the address can't be had; a socket that a dead slaqd left is replaced.
    """

    def __init__(self, address: Address, registry: CollectorRegistry) -> None:
        self._path = address.path
        if address.path is not None:
            make_way(address.path)
        self._server = _Threads(address, registry)
        self.port = 0 if address.path else int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), daemon=True, name="scrapes"
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving and remove the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()


class _Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: Address, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._since: dict[socket.socket, float] = {}  # in order of their coming
        self._asked: set[socket.socket] = set()
        where = (address.host, address.port) if address.path is None else str(address.path)
        six = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.address_family = six if address.path is None else socket.AF_UNIX
        super().__init__(where, _Scrape)  # type: ignore[arg-type]  # a unix path is an address too

    def server_bind(self) -> None:
        with masked(0o117):  # a unix socket is its owner's and its group's
            super().server_bind()

    def get_request(self) -> tuple[socket.socket, object]:
        try:
            return super().get_request()
        except OSError:  # out of descriptors: the door stays ready, and asking at once would spin
            time.sleep(_POLL_S)
            raise

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        if not self._slots.acquire(blocking=False) and not self._room_is_made():
            self.shutdown_request(request)
            return
        self._since[cast("socket.socket", request)] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self._done(request)
            raise

    def _room_is_made(self) -> bool:
        """Let go of the reader that has been silent the longest; its place is free once it notices."""
        silent = next((each for each in self._since.copy() if each not in self._asked), None)
        if silent is None:
            return False
        self._since.pop(silent, None)
        with suppress(OSError):
            silent.shutdown(socket.SHUT_RDWR)
        return self._slots.acquire(timeout=_POLL_S)

    def heard(self, request: socket.socket) -> None:
        """Note that a reader has sent a whole request: it keeps its place until it is answered."""
        self._asked.add(request)

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]  # as above
        finally:
            self._done(request)

    def _done(self, request: object) -> None:
        self._since.pop(cast("socket.socket", request), None)
        self._asked.discard(cast("socket.socket", request))
        self._slots.release()

    def service_actions(self) -> None:
        """Let go of readers that take too long; called between two looks at the door."""
        late = time.monotonic() - WHOLE_S
        for request, since in self._since.copy().items():
            if since < late:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base's signature
        """Forget a reader that went away in the middle."""
        log.debug("a reader of the metrics went away")


class _Scrape(BaseHTTPRequestHandler):
    timeout = SILENCE_S
    server_version = "slaqd"
    sys_version = ""

    def parse_request(self) -> bool:
        """Read the rest of a request, as the base does."""
        whole = super().parse_request()
        cast("_Threads", self.server).heard(self.connection)
        return whole

    def do_GET(self) -> None:
        """Give the numbers in the form that was asked for."""
        if self.path.partition("?")[0] != "/metrics":
            self._say(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"see /metrics\n")
            return
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - need not be installed

        try:
            encode, kind = choose_encoder(self.headers.get("Accept") or "")
            data = encode(cast("_Threads", self.server).registry)
        except Exception:
            log.exception("a fault in the metrics")
            fault = b"a fault of slaqd's own, its trace is in the log\n"
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", fault)
            return
        self._say(HTTPStatus.OK, kind, data)

    do_HEAD = do_GET  # noqa: N815 - the base's name

    def _say(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_words: object) -> None:
        """Say nothing: what readers send has no place in the log."""
