"""Who stands at the control socket: reads one line of each, and lets nobody keep the others out.

One thread watches all connections, so a peer that says nothing costs a descriptor and
no more. Everything is counted by the uid that the kernel names: who floods, floods
himself.
"""

from __future__ import annotations

import select
import selectors
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from slaqd import wire

_ACCEPT_AT_ONCE = 16
_BACKLOG = 1024
_BREATH_S = 0.05


@dataclass(frozen=True)
class Limits:
    """How much of the socket there is, for one uid and in all.

    ``open_*`` count connections whose request has not come yet, ``waiting_*`` requests
    whose turn has not come, ``answers_*`` those that are being answered. A uid may ask
    ``burst`` times at once and ``per_s`` times a second in the long run. A request has to
    come within ``read_s`` seconds; an answer that nobody takes is given up after as long.
    """

    open_per_uid: int = 64
    open_in_all: int = 256
    waiting_per_uid: int = 128
    waiting_in_all: int = 256
    answers_per_uid: int = 8
    answers_in_all: int = 64
    per_s: float = 100.0
    burst: float = 300.0
    read_s: float = 2.0


class Buckets:
    """One bucket of tokens per uid: ``burst`` at most, refilled with ``per_s`` a second."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[int, tuple[float, float]] = {}

    def take(self, uid: int) -> bool:
        """Take one token; False if there is none."""
        with self._lock:
            now = self._clock()
            left = self._now(self._left.pop(uid, (self._burst, now)), now)
            self._forget(now)
            self._left[uid] = (left - 1.0 if left >= 1.0 else left, now)
            return left >= 1.0

    def _now(self, bucket: tuple[float, float], now: float) -> float:
        left, since = bucket
        return min(self._burst, left + max(now - since, 0.0) * self._per_s)

    def _forget(self, now: float) -> None:
        """Drop buckets that are full again, oldest first: the dictionary must not grow with uids."""
        while self._left:
            uid = next(iter(self._left))
            if self._now(self._left[uid], now) < self._burst:
                return
            del self._left[uid]

    def __len__(self) -> int:
        return len(self._left)


@dataclass(eq=False)
class _Peer:
    """One connection whose request has not come whole."""

    sock: socket.socket
    uid: int
    until: float
    data: bytearray = field(default_factory=bytearray)


Serve = Callable[[socket.socket, int, bytes], None]
"""Answers one line of the peer ``uid``, and closes the socket; called in threads of their own."""


class Door:
    """Accepts, reads and hands on, from a thread of its own until closed.

    Parameters
    ----------
    listener
        A bound unix socket. It belongs to the door from now on.
    serve
        Gets each line that came whole, or too long, within the time.
    limits
        What there is for everybody.

    """

    def __init__(self, listener: socket.socket, serve: Serve, limits: Limits) -> None:
        self._listener = listener
        self._limits = limits
        self._turns = Turns(serve, limits)
        self._peers: dict[_Peer, None] = {}  # in order of arrival, which is that of their deadlines
        self._count: Counter[int] = Counter()
        self._selector = selectors.DefaultSelector()
        self._bell, self._ear = socket.socketpair()
        listener.listen(_BACKLOG)
        for sock in (listener, self._ear):
            sock.settimeout(0)
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._watch, daemon=True, name="control")
        self._thread.start()

    def close(self) -> None:
        """Stop accepting; what is being answered goes on to its end."""
        self._bell.close()
        self._thread.join()

    def _watch(self) -> None:
        open_ = True
        while open_:
            try:
                open_ = self._round()
            except OSError:  # one connection that breaks in an odd way must not shut the door
                time.sleep(_BREATH_S)
        for peer in list(self._peers):
            self._send_away(peer)
        for sock in (self._listener, self._ear):
            sock.close()
        self._selector.close()

    def _round(self) -> bool:
        """Wait for something to do, and do it; False once the door is to close."""
        ready = self._selector.select(self._patience())
        for key, _events in ready:  # those who speak first: whoever has been read can't be sent away
            if isinstance(key.data, _Peer) and key.data in self._peers:
                self._read(key.data)
        named = {key.fileobj for key, _events in ready}
        if self._listener in named:
            self._accept()
        self._send_away_the_late()
        return self._ear not in named

    def _patience(self) -> float | None:
        first = next(iter(self._peers), None)
        return None if first is None else max(first.until - time.monotonic(), 0.0)

    def _accept(self) -> None:
        """Let some in; not all that knock, or nobody would be read in between."""
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                sock = self._listener.accept()[0]
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left: make room, knock again
                self._make_room(None)
                time.sleep(_BREATH_S)
                return
            self._let_in(sock)

    def _let_in(self, sock: socket.socket) -> None:
        uid = peer_uid(sock)
        if self._count[uid] >= self._limits.open_per_uid:
            self._make_room(uid)
        elif len(self._peers) >= self._limits.open_in_all:
            self._make_room(None)
        sock.settimeout(0)
        peer = _Peer(sock, uid, time.monotonic() + self._limits.read_s)
        try:
            self._selector.register(sock, selectors.EVENT_READ, peer)
        except OSError:  # the kernel watches no more: this one goes, the others stay
            sock.close()
            return
        self._peers[peer] = None
        self._count[uid] += 1

    def _make_room(self, uid: int | None) -> None:
        """Send away the connection that has been silent longest: of ``uid``, else of who has most."""
        if uid is None:
            uid = max(self._count, key=lambda each: self._count[each], default=None)
        silent = next((peer for peer in self._peers if peer.uid == uid), None)
        if silent is not None:
            self._send_away(silent)

    def _send_away_the_late(self) -> None:
        now = time.monotonic()
        for peer in list(self._peers):
            if peer.until > now:
                return
            self._send_away(peer)

    def _read(self, peer: _Peer) -> None:
        try:
            chunk = peer.sock.recv(wire.MAX_LINE)
        except BlockingIOError:
            return
        except OSError:
            self._send_away(peer)
            return
        peer.data += chunk
        if chunk and not peer.data.endswith(b"\n") and len(peer.data) <= wire.MAX_LINE:
            return
        self._forget(peer)
        if peer.data:
            self._turns.add(peer.sock, peer.uid, bytes(peer.data))
        else:
            peer.sock.close()

    def _send_away(self, peer: _Peer) -> None:
        self._forget(peer)
        peer.sock.close()

    def _forget(self, peer: _Peer) -> None:
        self._selector.unregister(peer.sock)
        del self._peers[peer]
        self._count[peer.uid] -= 1
        if not self._count[peer.uid]:
            del self._count[peer.uid]


class Turns:
    """Answers requests in threads: some at a time, and of one uid only a few of them.

    A request whose asker has hung up when its turn comes is not answered, and so not done.
    """

    def __init__(self, serve: Serve, limits: Limits) -> None:
        self._serve = serve
        self._limits = limits
        self._lock = threading.Lock()
        self._running: Counter[int] = Counter()
        self._waiting: dict[int, deque[tuple[socket.socket, bytes]]] = {}

    def add(self, sock: socket.socket, uid: int, line: bytes) -> None:
        """Answer a line when its turn comes; hang up where too many wait already."""
        limits = self._limits
        with self._lock:
            lines = self._waiting.get(uid, deque())
            full = len(lines) >= limits.waiting_per_uid
            if full or sum(map(len, self._waiting.values())) >= limits.waiting_in_all:
                sock.close()
                return
            lines.append((sock, line))
            self._waiting[uid] = lines
        self._go_on()

    def _go_on(self) -> None:
        while (turn := self._next()) is not None:
            sock, uid, line = turn
            try:
                threading.Thread(target=self._run, args=(sock, uid, line), daemon=True).start()
            except RuntimeError:  # no thread is to be had now: the client knocks again
                self._over(sock, uid)

    def _next(self) -> tuple[socket.socket, int, bytes] | None:
        with self._lock:
            if self._running.total() >= self._limits.answers_in_all:
                return None
            for uid, lines in self._waiting.items():
                if self._running[uid] < self._limits.answers_per_uid:
                    sock, line = lines.popleft()
                    del self._waiting[uid]
                    if lines:  # at the end of the row: each uid in its turn
                        self._waiting[uid] = lines
                    self._running[uid] += 1
                    return sock, uid, line
            return None

    def _run(self, sock: socket.socket, uid: int, line: bytes) -> None:
        try:
            with suppress(OSError):  # it went away in the middle
                if not hung_up(sock):  # who was told that nobody answers has gone on without
                    sock.settimeout(self._limits.read_s)
                    self._serve(sock, uid, line)
        finally:
            self._over(sock, uid)
            self._go_on()

    def _over(self, sock: socket.socket, uid: int) -> None:
        sock.close()
        with self._lock:
            self._running[uid] -= 1
            if not self._running[uid]:
                del self._running[uid]


def hung_up(sock: socket.socket) -> bool:
    """Tell whether the other side has closed both ways; who only says no more still listens (poll(2))."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def peer_uid(sock: socket.socket) -> int:
    """Ask the kernel who is on the other side (unix(7), SO_PEERCRED)."""
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)
