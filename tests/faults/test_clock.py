"""The wall clock set on or back, by a second or a day: the same plans, no job lost, cycles at their pace."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from living import Slaqd, wait_for
from put_together import Daemon

from slaqd.act import Journal
from slaqd.testing import ManualClock

DAY = 86_400.0
TURNS = 16
TEN = ("--min", "10", "--max", "10")
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), Path("libfaketime.so.1"))


class Trainings:
    """Three jobs that learn differently; their logs tell the time by a clock, or don't."""

    def __init__(self, folder: Path, tells: Callable[[ManualClock], float] | None) -> None:
        self.logs = [folder / f"{number}.jsonl" for number in range(3)]
        self.tells = tells
        self.step = 0

    def go_on(self, clock: ManualClock) -> None:
        for number, log in enumerate(self.logs):
            with log.open("a", encoding="utf-8") as out:
                for step in range(self.step, self.step + 4):
                    loss = 1 + 10 * math.exp(-step / (4, 20, 80)[number])
                    point = {"step": step, "loss": loss}
                    if self.tells is not None:
                        point["time"] = self.tells(clock) + 0.7 * (step - self.step)
                    out.write(json.dumps(point) + "\n")
        self.step += 4


def turned_clock(clock: ManualClock) -> float:
    """Tell the time of this machine, which is the one that is turned."""
    return clock.wall()


def steady_clock(clock: ManualClock) -> float:
    """Tell the time of another machine, which nobody turns."""
    return ManualClock().wall() - ManualClock().monotonic() + clock.monotonic()


def plans(
    folder: Path, jumps: Mapping[int, float], tells: Callable[[ManualClock], float] | None = None
) -> Sequence[dict[str, int]]:
    """Give what jobs hold, cycle after cycle; the clock jumps before some of them."""
    folder.mkdir()
    clock = ManualClock()
    daemon, trainings = Daemon(folder, clock=clock, units=20), Trainings(folder, tells)
    for number, log in enumerate(trainings.logs, 1):
        daemon.start(number, log=str(log), max=15)
    held = []
    for turn in range(TURNS):
        clock.jump(jumps.get(turn, 0.0))
        trainings.go_on(clock)
        daemon.cycle()
        held.append(daemon.held())
    assert len({tuple(sorted(one.items())) for one in held}) > 2, "the plans never moved: nothing was tested"
    daemon.journal.close()
    return held


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_jump_of_the_wall_clock_leaves_the_plans_the_same(tmp_path: Path, jump: float) -> None:
    assert plans(tmp_path / "jumped", {8: jump}) == plans(tmp_path / "steady", {})


@pytest.mark.parametrize("tells", [None, steady_clock], ids=["untimed", "timed elsewhere"])
def test_jumps_at_random_before_every_cycle_leave_the_plans_the_same(
    tmp_path: Path, tells: Callable[[ManualClock], float] | None
) -> None:
    steady = plans(tmp_path / "steady", {}, tells)
    for seed, size in enumerate((1.0, 1.0, DAY, DAY)):
        dice = random.Random(seed)  # noqa: S311 - moments, no secret
        jumps = {turn: dice.uniform(-size, size) for turn in range(TURNS)}
        assert plans(tmp_path / f"jumped-{seed}", jumps, tells) == steady


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_jump_in_the_logs_own_times_costs_one_measurement_and_at_most_a_unit(
    tmp_path: Path, jump: float
) -> None:
    jumped, steady = (plans(tmp_path / str(by), {8: by}, turned_clock) for by in (jump, 0.0))
    for one, other in zip(jumped, steady, strict=True):
        assert all(abs(one[job] - other[job]) <= 1 for job in other)
    assert jumped[-1] == steady[-1]


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_registrations_keep_their_order_by_submission_and_none_is_lost(tmp_path: Path, jump: float) -> None:
    clock = ManualClock()
    daemon = Daemon(tmp_path, clock=clock)
    daemon.start(1)
    daemon.cycle()
    clock.jump(jump)
    daemon.start(2)
    daemon.cycle()
    assert daemon.held() == {"1": 5, "2": 5}
    daemon.journal.close()


@pytest.fixture
def turned(tmp_path: Path) -> Iterator[tuple[Slaqd, Path]]:
    """Start a real slaqd whose wall clock a file turns."""
    assert FAKETIME.exists(), "libfaketime is missing: make packages"
    dial = tmp_path / "dial"
    dial.write_text("+0", encoding="ascii")
    env = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(dial),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    slaqd = Slaqd(tmp_path, epoch_s=0.3).start(env=env)
    yield slaqd, dial
    slaqd.clean()


@pytest.mark.fault
@pytest.mark.service
def test_a_real_daemon_goes_on_while_its_clock_is_turned(turned: tuple[Slaqd, Path]) -> None:
    slaqd, dial = turned
    slaqd.training("t", *TEN)
    slaqd.busy("b", *TEN)
    for name in ("t", "b"):
        slaqd.comes_to(name, units=10)
    for setting in ("+1d", "-1d", "+0"):
        dial.write_text(setting, encoding="ascii")
        slaqd.cycles(3)
        for name in ("t", "b"):
            view = slaqd.job(name)
            assert (view.state, view.units, slaqd.quota(name)) == ("running", 10, 10)
        points = slaqd.job("t").points
        wait_for(lambda seen=points: slaqd.job("t").points > seen, slaqd.said)  # type: ignore[misc]
    slaqd.stop()
    journal = Journal(slaqd.state / "journal.sqlite")
    assert sorted(row.kind for row in journal.actions()) == ["Admit", "Admit", "Restore", "Restore"]
    journal.close()


@pytest.mark.fault
@pytest.mark.service
def test_the_clock_really_was_turned(turned: tuple[Slaqd, Path]) -> None:
    slaqd, dial = turned
    dial.write_text("+1d", encoding="ascii")
    slaqd.cycles(1)
    slaqd.run("job", "/bin/sh", "-c", "exit 0").wait(60)
    view = slaqd.comes_to("job", state="ended")
    assert view.submitted - slaqd.log.stat().st_mtime > DAY / 2
