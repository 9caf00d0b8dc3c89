"""Runs one loop for many simulated cycles and prints, as JSON, how large it is before and after.

    python ageing.py FOLDER CYCLES

The clock and the cluster are the fakes; the loop, its journal on disk and the jobs' logs
are real. There are always a few jobs: every `LOGS_EVERY` cycles one of them logs a point,
and every `LIFE` cycles the oldest ends and another comes.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from slaqd import logs
from slaqd.act import Journal
from slaqd.act.pruning import Limits
from slaqd.adapter import Registration
from slaqd.config import Config, EnforceSection, PolicySection, SlaqdSection
from slaqd.daemon.loop import Loop, Parts
from slaqd.daemon.tally import Result
from slaqd.testing import FakeAdapter, FakeConfig, ManualClock
from slaqd.types import JobKey, Mode, Owner, Tag

EPOCH_S = 10.0
JOBS = 6
LIFE = 20
LOGS_EVERY = 4
LIMITS = Limits(actions=200, plans=200, events=50, ended=20, observations=20)
"""Small enough that a short run reaches them too."""


class World:
    """Some jobs that come, train and go, under one loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "journal.sqlite"
        self.clock = ManualClock()
        self.journal = Journal(self.path, LIMITS)
        self.adapter = FakeAdapter(FakeConfig(units=12), self.clock, self.journal)
        me = Owner(os.getuid(), "me")
        section = SlaqdSection(mode=Mode.ENFORCE, epoch_s=EPOCH_S, state_dir=str(folder))
        config = Config(
            slaqd=section, policy=PolicySection(name="slaq"), enforce=EnforceSection(users=("me",))
        )
        run = self.journal.begin_run(self.clock.wall())
        self.loop = Loop(Parts(config, self.clock, self.adapter, self.journal, run))
        self.owner = me
        self.jobs: list[tuple[JobKey, Path]] = []
        self.born = 0

    def cycle(self, number: int) -> None:
        """Let time go by, let the jobs live, and look at them."""
        if number % LIFE == 0:
            self._come_and_go()
        if number % LOGS_EVERY == 0:
            self._log(number // LOGS_EVERY)
        self.clock.advance(EPOCH_S)
        self.loop.once()

    def _log(self, number: int) -> None:
        step, at = divmod(number, len(self.jobs))
        row = {"step": step, "loss": 1 + (at + 2) / (step % 50 + 1), "time": self.clock.wall()}
        with self.jobs[at][1].open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def _come_and_go(self) -> None:
        while len(self.jobs) >= JOBS:
            key, path = self.jobs.pop(0)
            self.adapter.manager.ended.add(key)
            path.unlink()
            self.loop.once()
            self._bury(key)
        self.born += 1
        key, path = JobKey("fake", str(self.born), self.born), self.folder / f"{self.born}.jsonl"
        path.touch()
        made = Registration(
            key, self.owner, Tag(log=str(path)), f"job{self.born}", str(self.folder), self.clock.wall()
        )
        self.journal.register(made)
        self.jobs.append((key, path))

    def _bury(self, key: JobKey) -> None:
        """Let the manager forget, as real ones do."""
        manager = self.adapter.manager
        manager.ended.discard(key)
        manager.held.pop(key, None)
        manager.acts.clear()

    def size(self) -> dict[str, int]:
        """Measure this process and the journal. The number of objects is exact, bytes are not."""
        gc.collect()
        resident = Path("/proc/self/status").read_text(encoding="utf-8").partition("VmRSS:")[2].split()[0]
        files = [file for file in self.folder.glob("journal.sqlite*") if file.exists()]
        return {
            "resident_kib": int(resident),
            "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - counted only
            "objects": len(gc.get_objects()),
            "journal_bytes": sum(file.stat().st_size for file in files),
            "actions": len(list(self.journal.actions())),
            "acted": sum(self.loop.view.counts.actions.values()),
            "faults": self.loop.view.counts.cycles[Result.FAULT],
            "cycles": self.loop.view.cycles,
        }


def main(folder: Path, cycles: int) -> None:
    """Measure after a tenth of the cycles, which is warm, and at the end."""
    logs.configure()
    world, sizes = World(folder), []
    for number in range(cycles):
        world.cycle(number)
        if number + 1 in (cycles // 10, cycles):
            sizes.append(world.size())
    sys.stdout.write(json.dumps(sizes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
