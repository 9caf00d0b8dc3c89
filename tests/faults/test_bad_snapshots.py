"""Snapshots that are old, not whole or not there at all, by the million: nothing is ever done on one."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import structlog
from put_together import Daemon

from slaqd.testing import ManualClock
from slaqd.types import JobKey, Snapshot

pytestmark = pytest.mark.fault

EPOCH_S = 3.0
OLDEST_S = 2 * EPOCH_S
BAD = ("down", "gaps", "old", "of no time", "grown old")
KINDS = ("whole", *BAD, "down", "gaps", "old", "of no time")
"""Ways for a snapshot to be; a cycle that goes as far as a plan costs ten times the others."""


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keep a million sentences out of the log."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


class World:
    """A daemon over a manager whose answers are as the dice say, with one job that is always held wrong."""

    def __init__(self, folder: Path, dice: Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.dice, self.kind = ManualClock(), dice, ""
        self.daemon = Daemon(folder, clock=self.clock, epoch_s=EPOCH_S)
        self.job: JobKey = self.daemon.start(1)
        self._look, self._tell = self.daemon.adapter.snapshot, self.daemon.adapter.capabilities
        monkeypatch.setattr(self.daemon.adapter, "snapshot", self.snapshot)
        monkeypatch.setattr(self.daemon.adapter, "capabilities", self.capabilities)

    def snapshot(self, deadline: float) -> Snapshot:
        seen, age = self._look(deadline), 0.0
        if self.kind == "old":
            age = OLDEST_S + self.dice.choice((0.001, 1.0, 86_400.0)) * (1.0 + self.dice.random())
        elif self.kind == "of no time":
            age = self.dice.choice((float("nan"), -0.001, -1.8e9))
        elif self.kind == "whole":
            age = OLDEST_S * 0.999 * self.dice.random()
        return msgspec.structs.replace(seen, taken_at=seen.taken_at - age)

    def capabilities(self) -> Any:
        """Asked while the plan is made: there slaqd may be stopped for any time."""
        if self.kind == "grown old":
            self.clock.advance(OLDEST_S + 0.001 + self.dice.random())
        return self._tell()

    def step(self) -> int:
        """Do one cycle in one of the ways; give how many acts it brought."""
        self.kind = self.dice.choice(KINDS)
        manager = self.daemon.manager
        manager.held[self.job] = self.dice.randint(1, 7)  # the plan says 8
        manager.down = "silence" if self.kind == "down" else None
        manager.gaps = ("a row is cut",) if self.kind == "gaps" else ()
        manager.acts.clear()
        self.daemon.cycle()
        return len(manager.acts)


def step_often(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go through so many cycles: one act on each whole snapshot, none on any other."""
    seen = Counter[str]()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        world = World(Path(folder), Random(1), monkeypatch)  # noqa: S311 - worlds, no secret
        for number in range(times):
            acts = world.step()
            assert acts == (world.kind == "whole"), (number, world.kind, world.daemon.loop.view.sentence)
            seen[world.kind] += 1
        world.daemon.journal.close()
    assert min(seen[kind] for kind in ("whole", *BAD)) > times / 20


@pytest.mark.usefixtures("quiet")
def test_in_ten_thousand_cycles_nothing_is_done_on_a_snapshot_that_is_old_or_not_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step_often(10_000, monkeypatch)


@pytest.mark.soak
@pytest.mark.usefixtures("quiet")
def test_in_a_million_cycles_nothing_is_done_on_a_snapshot_that_is_old_or_not_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step_often(1_000_000, monkeypatch)
