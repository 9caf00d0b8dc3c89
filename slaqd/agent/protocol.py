"""What slaqd and slaqd-agent, and the agent and its children, say to each other.

Frames: four bytes of length, big-endian, then one msgpack message. The messages are
closed unions of typed structs. Curves travel as packed doubles.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from array import array
from itertools import pairwise
from math import isfinite
from typing import Any, TypeVar

import msgspec

from slaqd.text import show
from slaqd.types import Curve, Health, Struct, Tag

T = TypeVar("T")

MOST = 16 * 1024 * 1024
"""Bytes of the longest frame between slaqd and the agent."""
MOST_OF_CHILD = 2 * 1024 * 1024
"""Bytes of the longest frame that a child may send: it has read what a user wrote."""
LONGEST = 4096
"""Characters of the longest path or note of a curve."""
KEEP = 128
"""Points of a curve that are kept; the forecast looks at the newest few dozen."""

_LENGTH = struct.Struct(">I")


class Source(Struct, frozen=True):
    """One job's log: whose, where, and how to read it.

    ``job`` tells sources apart. ``path`` is absolute, or a glob; ``root`` is the
    directory that the job's tree begins at.
    """

    job: str
    uid: int
    root: str
    path: str
    tag: Tag


class Points(Struct, frozen=True):
    """A curve on the wire; see `slaqd.types.Curve`."""

    steps: bytes
    losses: bytes
    seconds: bytes
    count: int
    first: float
    lowest: float
    largest_change: float
    health: Health
    path: str
    note: str


# slaqd asks the agent


class Hello(Struct, frozen=True, tag="hello"):
    """Ask who is there."""


class Look(Struct, frozen=True, tag="look"):
    """Read what is new of these logs, all that there are; ``now`` is wall time."""

    now: float
    sources: tuple[Source, ...]


class Put(Struct, frozen=True, tag="put"):
    """Replace a small file of a user's."""

    uid: int
    root: str
    path: str
    text: bytes


class Get(Struct, frozen=True, tag="get"):
    """Read a small file of a user's."""

    uid: int
    root: str
    path: str


class UseHands(Struct, frozen=True, tag="hands"):
    """Have the adapter's hands do something; ``request`` is of their own language, as msgpack."""

    request: bytes


Request = Hello | Look | Put | Get | UseHands


class Greeting(Struct, frozen=True, tag="greeting"):
    """The agent's version, and the least uid that it acts for."""

    version: str
    least_uid: int


class Reading(Struct, frozen=True):
    """What is new of one log: its curve, or why it can't be read now."""

    job: str
    points: Points | None = None
    refused: str = ""


class Looked(Struct, frozen=True, tag="looked"):
    """The logs that were read, and how many were not reached in time."""

    readings: tuple[Reading, ...]
    missed: int = 0


class Gave(Struct, frozen=True, tag="gave"):
    """Answer to `Put`, `Get` and `UseHands`."""

    data: bytes | None = None


class Failed(Struct, frozen=True, tag="failed"):
    """It can't be done: the system's error number (0: none of its), and words."""

    errno: int
    text: str


Reply = Greeting | Looked | Gave | Failed

# the agent asks a child


class Read(Struct, frozen=True, tag="read"):
    """Read what is new of a log; ``state`` is what the child before this one knew, empty at first."""

    source: Source
    state: bytes
    now: float


Item = Read | Put | Get


class Done(Struct, frozen=True, tag="done"):
    """Answer to `Read`. ``again``: there is more to read, or to make sure of, without any growth."""

    points: Points
    state: bytes
    again: bool


Result = Done | Gave | Failed


class ClosedError(OSError):
    """The other side is gone, or said what makes no sense."""


def pack(curve: Curve) -> Points:
    """Make a curve ready to travel."""
    return Points(
        steps=array("d", curve.steps).tobytes(),
        losses=array("d", curve.losses).tobytes(),
        seconds=array("d", curve.seconds).tobytes(),
        count=curve.count,
        first=curve.first,
        lowest=curve.lowest,
        largest_change=curve.largest_change,
        health=curve.health,
        path=show(curve.path, LONGEST),  # names of files need not be UTF-8, and messages are
        note=show(curve.note, LONGEST),
    )


def unpack(points: Points) -> Curve:
    """Give back the curve. ValueError where it is none: what read it has read what a user wrote."""
    steps, losses, seconds = (array("d", data) for data in (points.steps, points.losses, points.seconds))
    if not len(steps) == len(losses) == len(seconds):
        raise ValueError("the columns of a curve are not of one length")
    numbers = (*steps, *losses, points.first, points.lowest, points.largest_change)
    rises = all(before < after for before, after in pairwise(steps))
    if not rises or not all(map(isfinite, numbers)) or not len(steps) <= min(points.count, KEEP):
        raise ValueError("the columns of a curve hold what no log gives")
    return Curve(
        steps=steps,
        losses=losses,
        seconds=seconds,
        count=points.count,
        first=points.first,
        lowest=points.lowest,
        largest_change=points.largest_change,
        health=points.health,
        path=show(points.path, LONGEST),
        note=show(points.note, LONGEST),
    )


def send(sock: socket.socket, message: Struct) -> None:
    """Send one frame. OSError where the other side is gone or too slow."""
    data = msgspec.msgpack.encode(message)
    sock.sendall(_LENGTH.pack(len(data)) + data)


def receive(
    sock: socket.socket,
    kind: Any,  # noqa: ANN401 - one of a union
    most: int = MOST,
    *,
    until: float | None = None,
) -> Any:  # noqa: ANN401 - as kind
    """Receive one frame of a union's; the whole of it by ``until`` (monotonic) where that is given.

    Raises
    ------
    ClosedError
        The other side is gone, or what it says is too long or not of ``kind``.
    TimeoutError
        The socket's timeout passed, or ``until`` did.

    """
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size, until))
    if length > most:
        raise ClosedError(f"a message of {length} bytes, more than {most}")
    try:
        return msgspec.msgpack.decode(_exactly(sock, length, until), type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ClosedError(f"a message that makes no sense: {error}") from error


def _exactly(sock: socket.socket, size: int, until: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if until is not None:
            _wait_until(sock, until)
        chunk = sock.recv(min(size - len(data), 1 << 20))
        if not chunk:
            raise ClosedError("the other side is gone")
        data += chunk
    return bytes(data)


def _wait_until(sock: socket.socket, until: float) -> None:
    """Let the next wait end there: a timeout of the socket's own begins anew with each byte."""
    rest = until - time.monotonic()
    if rest <= 0:
        raise TimeoutError(errno.ETIMEDOUT, "the answer took too long")
    sock.settimeout(rest)
