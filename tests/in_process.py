"""An agent without a process of its own, for the tests of slaqd's side of it."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from slaqd_local import Config, LocalAdapter, requests
from slaqd_local.hands import LocalHands
from standing_kernel import ALICE, Kernel

from slaqd.adapter import Registration
from slaqd.errors import AgentUnavailable
from slaqd.testing import ManualClock, MemoryStore
from slaqd.types import JobKey, Owner, Struct, Tag

T = TypeVar("T")
KEY = JobKey("local", "101", 7)


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


class HeldWorld:
    """A kernel with one job of alice's, and an adapter that holds it through the agent."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.agent = InProcess()
        self.clock = ManualClock()
        self.store = MemoryStore([Registration(KEY, Owner(ALICE, "alice"), Tag(max=9), "job", "/", 0.0)])
        self.adapter = self.again()
        kernel.end(102)  # one process is a job enough

    def again(self) -> LocalAdapter:
        """Start anew over the same store."""
        self.adapter = LocalAdapter(Config(), self.clock, self.store, self.agent)
        return self.adapter
