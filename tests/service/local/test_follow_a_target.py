"""Real trainings follow real targets of a real slaqd, which is killed in between. A minute on busy cores."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from living import PATIENCE_S, Slaqd, wait_for

pytestmark = pytest.mark.service

ROOM = 40
FOLLOWS = """
import json, sys, time
from slaqd.job import Follower

name, folder, log = sys.argv[1:]
follower = Follower(folder)
with open(log, "a", buffering=1) as log:
    while True:
        if target := follower.poll():
            now = time.monotonic()
            print(json.dumps({"at": now, "name": name, "units": target.units, "seq": target.seq}), file=log)
            follower.done(target.units)
        time.sleep(0.02)
"""


class Event(NamedTuple):
    """One change of what a job holds; ``at`` is monotonic."""

    at: float
    name: str
    units: int
    seq: int


class Trainings:
    """Jobs that write down what they follow, in one file for all."""

    def __init__(self, slaqd: Slaqd) -> None:
        self.slaqd = slaqd
        self.log = slaqd.folder / "followed.jsonl"
        self.log.touch()
        self.ends: list[Event] = []
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, low: int = 1) -> None:
        folder = self.slaqd.folder / f"ctl-{name}"
        self.slaqd.env["SLAQ_TAG"] = f"slaq:v1 lever=file dir={folder} grace=2 min={low} max={ROOM}"
        command = (sys.executable, "-c", FOLLOWS, name, str(folder), str(self.log))
        self.started[name] = self.slaqd.run(name, *command)
        wait_for(
            lambda: name in self.slaqd.jobs(), lambda: f"{name} is registered: {self.slaqd.said()[-3000:]}"
        )

    def end(self, name: str) -> None:
        self.ends.append(Event(time.monotonic(), name, 0, 0))
        self.started[name].terminate()
        self.started.pop(name).wait(PATIENCE_S)

    def events(self) -> list[Event]:
        said = [Event(**json.loads(line)) for line in self.log.read_text(encoding="utf-8").splitlines()]
        return sorted([*said, *self.ends])

    def now(self, name: str) -> int:
        return next((event.units for event in reversed(self.events()) if event.name == name), 0)

    def comes_to(self, name: str, units: int) -> None:
        wait_for(
            lambda: self.now(name) == units,
            lambda: f"{name} follows to {units}: {self.events()}; log:\n{self.slaqd.said()[-3000:]}",
        )

    def check(self) -> None:
        """See that numbers only rose, and that nobody took what another had not let go."""
        held: dict[str, int] = {}
        last: dict[str, int] = {}
        for event in self.events():
            held[event.name] = event.units
            assert sum(held.values()) <= ROOM, self.events()
            if event.seq:
                assert event.seq > last.get(event.name, 0), self.events()
                last[event.name] = event.seq


@pytest.fixture
def slaqd(tmp_path: Path) -> Iterator[Slaqd]:
    living = Slaqd(tmp_path)
    yield living
    living.clean()


@pytest.fixture
def trainings(slaqd: Slaqd) -> Trainings:
    slaqd.start()
    return Trainings(slaqd)


def test_trainings_share_by_their_files_and_follow_on_after_a_kill(
    slaqd: Slaqd, trainings: Trainings
) -> None:
    trainings.start("a")
    trainings.comes_to("a", ROOM)
    trainings.start("b")
    trainings.comes_to("b", ROOM // 2)
    trainings.comes_to("a", ROOM // 2)
    view = slaqd.comes_to("a", units=ROOM // 2, plan=ROOM // 2)
    assert view.lever == "file"
    slaqd.stop(signal.SIGKILL)
    slaqd.start()
    slaqd.comes_to("a", units=ROOM // 2)
    before = trainings.events()
    slaqd.cycles(3)
    assert trainings.events() == before
    trainings.end("b")
    trainings.comes_to("a", ROOM)
    trainings.check()


def test_six_kills_at_random_moments_of_change_take_back_no_number_and_no_unit(
    slaqd: Slaqd, trainings: Trainings
) -> None:
    chance = random.Random(7)  # noqa: S311 - not for secrets
    trainings.start("a")
    trainings.comes_to("a", ROOM)
    for turn in range(6):
        if turn % 2 == 0:
            trainings.start(f"b{turn}", low=1 + 5 * turn)
        else:
            trainings.end(f"b{turn - 1}")
        time.sleep(chance.random())
        slaqd.stop(signal.SIGKILL)
        slaqd.start()
    trainings.comes_to("a", ROOM)
    trainings.check()


def test_a_training_that_doesnt_answer_is_only_advised_and_harms_no_other(
    slaqd: Slaqd, trainings: Trainings
) -> None:
    trainings.start("a")
    trainings.comes_to("a", ROOM)
    group = int(slaqd.job("a").job)
    assert group > 1
    os.killpg(group, signal.SIGSTOP)
    trainings.start("b")
    view = wait_for(
        lambda: next((job for job in slaqd.jobs().values() if "none of its last 3" in job.reason), None),
        lambda: f"a is only advised: {slaqd.jobs()}",
    )
    assert (view.name, view.plan) == ("a", ROOM)
    assert trainings.now("b") == 0
    os.killpg(group, signal.SIGCONT)
    trainings.comes_to("b", ROOM // 2)
    trainings.comes_to("a", ROOM // 2)
    trainings.check()
