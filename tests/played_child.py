"""Children of the agent as a test plays them: nothing is forked, the other end is a thread."""

from __future__ import annotations

import math
import socket
import struct
import threading
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from slaqd.agent import child
from slaqd.agent.become import User
from slaqd.agent.protocol import Read, Source, pack, receive, send
from slaqd.types import Curve, Health, Tag

CURVE = Curve(
    steps=array("d", [1, 2, 3]),
    losses=array("d", [3, 2, 1]),
    seconds=array("d", [math.nan, 1, 2]),
    count=3,
    first=3.0,
    lowest=1.0,
    largest_change=1.0,
    health=Health.OK,
    path="/log",
    note="fine",
)


SOURCE = Source("job", 20_001, "/home/a", "/home/a/log", Tag(key="loss"))


class FakeForker:
    """Forks nothing: the other end is the test's."""

    def __init__(self) -> None:
        self.killed: list[int] = []
        self.ends: list[socket.socket] = []
        self.forked = 0
        self.serve: Callable[[socket.socket], None] = lambda _: None

    def fork(self, _user: User, _life_s: float) -> tuple[int, socket.socket]:
        here, there = socket.socketpair()
        self.ends.append(there)
        self.forked += 1
        threading.Thread(target=self.serve, args=(there,), daemon=True).start()
        return 1, here

    def kill(self, pid: int) -> None:
        self.killed.append(pid)

    def close(self) -> None:
        for end in self.ends:
            end.close()


def reading(sock: socket.socket) -> None:
    """Be a child that reads, with the rights of this process."""
    with suppress(OSError):
        while True:
            send(sock, child.read(receive(sock, Read)))


def answering(data: bytes) -> Callable[[socket.socket], None]:
    """Be a child that takes one item and answers with these bytes."""

    def serve(sock: socket.socket) -> None:
        try:
            receive(sock, Read)
            sock.sendall(data)
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    return serve


def framed(message: object) -> bytes:
    data = msgspec.msgpack.encode(message)
    return struct.pack(">I", len(data)) + data


def forged(**changes: Any) -> Any:
    return msgspec.structs.replace(pack(CURVE), **changes)
