"""slaqd's end of the agent: asks, and turns the answers into curves and errors."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
import structlog

import slaqd
from slaqd.agent.allowance import unsaid
from slaqd.agent.protocol import (
    Failed,
    Gave,
    Get,
    Greeting,
    Hello,
    Look,
    Looked,
    Put,
    Reading,
    Reply,
    Request,
    Source,
    UseHands,
    receive,
    send,
    unpack,
)
from slaqd.errors import AgentUnavailable
from slaqd.types import Curve, Finding, Health, Severity, Struct

T = TypeVar("T")

LOOK_S = 15.0
"""Seconds until a look is given up; the agent ends its own after a third of that."""
ASK_S = 5.0

log = structlog.get_logger("slaqd")


class Agent:
    """The agent behind a socket, as `slaqd.adapter.AsUser` and as the eyes of `slaqd.daemon`.

    One question at a time, over one connection: while it lasts the agent remembers how
    far each log was read. Any thread may ask.
    """

    agent = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._curves: dict[str, Curve] = {}
        self.missed = 0
        """Logs that the last look did not reach in time; the next one begins with them."""

    def hello(self) -> Greeting:
        """Ask who is there. `AgentUnavailable` where nobody is."""
        return self._ask(Hello(), Greeting, ASK_S)

    def check(self) -> list[Finding]:
        """Tell whether an agent of this version answers, for ``slaqctl doctor``."""
        try:
            greeting = self.hello()
        except AgentUnavailable as error:
            return [Finding(Severity.ERROR, str(error), "see: systemctl status slaqd-agent")]
        if greeting.version != slaqd.__version__:
            what = f"slaqd-agent is of version {greeting.version}, slaqd of {slaqd.__version__}"
            return [Finding(Severity.WARNING, what, "systemctl restart slaqd-agent slaqd")]
        what = f"slaqd-agent answers, and acts for users from uid {greeting.least_uid} up"
        return [Finding(Severity.OK, what)]

    def look(self, sources: Sequence[Source], now: float) -> Mapping[str, Curve]:
        """Read what is new of all logs; give all curves by job, those that didn't change as the same objects.

        Raises
        ------
        AgentUnavailable
            The agent doesn't answer: nothing is known of any log now.

        """
        refused = unsaid(sources)
        said = tuple(source for source in sources if source.job not in refused)
        looked = self._ask(Look(now, said), Looked, LOOK_S)
        jobs = {source.job for source in sources}
        self._curves = {job: curve for job, curve in self._curves.items() if job in jobs}
        for reading in looked.readings:
            if reading.job in jobs:
                self._curves[reading.job] = _curve(reading, self._curves.get(reading.job))
        for job, why in refused.items():
            self._curves[job] = _curve(Reading(job, refused=why), self._curves.get(job))
        self.missed = looked.missed
        if looked.missed:
            log.warning("logs were not reached in time: the next look begins with them", count=looked.missed)
        return self._curves

    def put(self, uid: int, root: str, path: str, text: bytes) -> None:
        """See `slaqd.adapter.AsUser.put`."""
        self._ask(Put(uid, root, path, text), Gave, ASK_S)

    def get(self, uid: int, root: str, path: str) -> bytes | None:
        """See `slaqd.adapter.AsUser.get`."""
        return self._ask(Get(uid, root, path), Gave, ASK_S).data

    def hands(self, request: Struct, kind: type[T]) -> T:
        """See `slaqd.adapter.AsUser.hands`."""
        gave = self._ask(UseHands(msgspec.msgpack.encode(request)), Gave, ASK_S)
        try:
            return msgspec.msgpack.decode(gave.data or b"", type=kind)
        except msgspec.MsgspecError as error:
            raise AgentUnavailable(f"{self._path}: the agent's answer makes no sense: {error}") from error

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self._hang_up()

    def _ask(self, request: Request, kind: type[T], patience_s: float) -> T:
        with self._lock:
            try:
                reply = self._exchange(request, patience_s)
            except UnicodeEncodeError as error:
                raise OSError(errno.EINVAL, "a name that is not UTF-8 can't be asked for") from error
            except OSError as error:
                self._hang_up()
                msg = f"{self._path}: slaqd-agent does not answer ({error.strerror or error}): is it running?"
                raise AgentUnavailable(msg) from error
        if isinstance(reply, Failed):
            raise OSError(reply.errno or errno.EIO, reply.text)
        if not isinstance(reply, kind):
            raise AgentUnavailable(f"{self._path}: slaqd-agent gave an answer to another question")
        return reply

    def _exchange(self, request: Request, patience_s: float) -> Reply:
        if self._sock is None:
            self._curves = {}  # it remembers nothing of before, and tells all anew
            self._sock = socket.socket(socket.AF_UNIX)
            self._sock.settimeout(ASK_S)
            self._sock.connect(self._path)
        self._sock.settimeout(patience_s)
        send(self._sock, request)
        reply: Reply = receive(self._sock, Reply)
        return reply

    def _hang_up(self) -> None:
        if self._sock is not None:
            with suppress(OSError):
                self._sock.close()
        self._sock = None


def _curve(reading: Reading, before: Curve | None) -> Curve:
    """Take up what is new; a log that can't be read now keeps the points that are known."""
    why = reading.refused
    if reading.points is not None:
        try:
            return unpack(reading.points)
        except ValueError as error:
            why = str(error)
    known = before or Curve()
    if (known.health, known.note) == (Health.UNREADABLE, why):
        return known
    return msgspec.structs.replace(known, health=Health.UNREADABLE, note=why)
