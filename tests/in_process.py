"""An agent without a process of its own, for the tests of slaqd's side of it."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from slaqd_local import Config, requests
from slaqd_local.hands import LocalHands

from slaqd.errors import AgentUnavailable
from slaqd.types import Struct

T = TypeVar("T")


class InProcess:
    """The agent, without a process of its own; ``down`` before it acts, or ``mute`` after.

    It gives no answer in time to what is asked for users that are ``slow``.
    """

    agent = True

    def __init__(self) -> None:
        self.down = self.mute = False
        self.slow: set[int] = set()
        self.asked: list[Struct] = []
        self._hands = LocalHands(Config(), 1000)

    def put(self, uid: int, root: str, path: str, text: bytes) -> None:
        raise NotImplementedError(uid, root, path, text)

    def get(self, uid: int, root: str, path: str) -> bytes | None:
        raise NotImplementedError(uid, root, path)

    def hands(self, request: Struct, kind: type[T]) -> T:
        self.asked.append(request)
        if self.down or getattr(request, "uid", None) in self.slow:
            raise AgentUnavailable("slaqd-agent does not answer")
        asked = msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=requests.Request)
        answer = msgspec.msgpack.encode(self._hands.do(asked))
        if self.mute:
            raise AgentUnavailable("the answer was lost")
        return msgspec.msgpack.decode(answer, type=kind)
