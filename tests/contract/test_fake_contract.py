"""The fake passes the contract it is shipped with, so that core tests with it mean something."""

from __future__ import annotations

import os

import msgspec
import pytest

from slaqd.adapter import Registration
from slaqd.testing import AdapterContract, FakeAdapter, FakeConfig, FakeManager, ManualClock, MemoryStore
from slaqd.types import Adopt, JobKey, Lever, Owner, Tag


class FakeWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.manager = FakeManager()
        self._count = 0

    def adapter(self) -> FakeAdapter:
        return FakeAdapter(FakeConfig(), self.clock, self.store, manager=self.manager)

    def start(self, *, waits: bool = False, lever: Lever | None = None) -> JobKey:
        self._count += 1
        key = JobKey("fake", str(self._count), 10)
        owner = Owner(os.getuid(), "me")
        tag = Tag(min=1, max=3, lever=lever)
        self.store.register(Registration(key, owner, tag, "job", "/", self.clock.wall(), waits))
        return key

    def adopt_again(self, key: JobKey, lever: Lever) -> None:
        (known,) = [each for each in self.store.registrations() if each.key == key]
        tag = msgspec.structs.replace(known.tag, lever=lever)
        self.store.register(msgspec.structs.replace(known, tag=tag))

    def end(self, key: JobKey) -> None:
        self.manager.ended.add(key)


class TestFakeAdapter(AdapterContract):
    @pytest.fixture
    def world(self) -> FakeWorld:
        return FakeWorld()


def test_a_lost_answer_is_unknown_and_the_act_is_done() -> None:
    world = FakeWorld()
    key = world.start()
    adapter = world.adapter()
    world.manager.mute = True
    action = Adopt("a", key, world.manager.incarnation, 2)
    outcomes = adapter.apply([action], world.clock.monotonic() + 1)
    assert [type(each).__name__ for each in outcomes] == ["Unknown"]
    assert adapter.snapshot(world.clock.monotonic() + 1).jobs[0].target == 2
