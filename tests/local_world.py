"""Real processes on this machine, for the tests of slaqd_local."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from slaqd_local import Config, LocalAdapter, processes
from slaqd_local.holder import Holder

from slaqd.adapter import Registration
from slaqd.clock import SystemClock
from slaqd.testing import MemoryStore, Oneself
from slaqd.types import Adopt, Job, JobKey, Lever, Owner, Tag

PATIENCE_S = 60.0
IDLE = "import time\ntime.sleep(600)"
BUSY = "while True: pass"
THREADS = """
import hashlib, threading
def work():
    while True: hashlib.sha256(bytes(200000)).digest()
for _ in range(3): threading.Thread(target=work).start()
"""
CHILDREN = """
import os
os.fork(), os.fork()
while True: pass
"""
SHORT_CHILDREN = """
import os
while True:
    child = os.fork()
    if child == 0:
        sum(range(300000))
        os._exit(0)
    os.waitpid(child, 0)
"""


def usable_means() -> list[str]:
    """List the means that work on the machine under test; the keeper always does."""
    holder = Holder(Config())
    return [name for name in holder.order if holder.why_not(name) is None]


class LocalWorld:
    """Starts jobs, and ends whatever is left of them."""

    def __init__(self, means: str = "auto", unit_milli: int = 100) -> None:
        self.clock = SystemClock()
        self.store = MemoryStore()
        self.config = Config(means=means, unit_milli=unit_milli, cgroup=f"slaqd-test-{os.getpid()}")
        self.processes: dict[JobKey, subprocess.Popen[bytes]] = {}
        self._adapters: list[LocalAdapter] = []
        self._groups: set[int] = set()

    def adapter(self) -> LocalAdapter:
        adapter = LocalAdapter(self.config, self.clock, self.store, Oneself())
        self._adapters.append(adapter)
        return adapter

    def start(
        self, *, waits: bool = False, lever: Lever | None = None, program: str = IDLE, most: int = 3
    ) -> JobKey:
        process = subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=True)
        key = self.known(process.pid, waits=waits, lever=lever, most=most)
        self.processes[key] = process
        return key

    def known(self, pid: int, *, waits: bool = False, lever: Lever | None = None, most: int = 3) -> JobKey:
        """Register a group that runs already."""
        seen = processes.read(pid)
        assert seen is not None
        key = JobKey("local", str(pid), seen.start)
        self._groups.add(pid)
        owner = Owner(os.getuid(), "me")
        tag = Tag(min=1, max=most, lever=lever)
        self.store.register(Registration(key, owner, tag, "job", "/", self.clock.wall(), waits))
        return key

    def adopt_again(self, key: JobKey, lever: Lever, **said: Any) -> None:
        """Adopt a job again, with another lever."""
        (known,) = [each for each in self.store.registrations() if each.key == key]
        tag = msgspec.structs.replace(known.tag, lever=lever, **said)
        self.store.register(msgspec.structs.replace(known, tag=tag))

    def also_end(self, group: int) -> None:
        """End this group too when the test is over."""
        self._groups.add(group)

    def end(self, key: JobKey) -> None:
        with suppress(ProcessLookupError):
            os.killpg(int(key.id), signal.SIGKILL)
        self.processes[key].wait()

    def close(self) -> None:
        for adapter in self._adapters:
            adapter.close(restore=True)
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        # One more look finds the jobs ended, and removes their groups.
        last = self.adapter()
        until(lambda: all(job.state == "ended" for job in last.snapshot(self.deadline()).jobs))
        last.close(restore=True)

    def deadline(self) -> float:
        return self.clock.monotonic() + PATIENCE_S

    def job(self, adapter: LocalAdapter, key: JobKey) -> Job:
        return next(job for job in adapter.snapshot(self.deadline()).jobs if job.key == key)

    def adopt(self, adapter: LocalAdapter, key: JobKey, units: int) -> None:
        outcomes = adapter.apply([Adopt("a", key, processes.boot_id(), units)], self.deadline())
        assert [type(each).__name__ for each in outcomes] == ["Accepted"], outcomes

    def ratio(self, adapter: LocalAdapter, key: JobKey, seconds: float) -> float:
        """Measure what a job uses, over what it is held to."""
        before = adapter.snapshot(self.deadline())
        time.sleep(seconds)
        after = adapter.snapshot(self.deadline())
        old, new = (next(job for job in each.jobs if job.key == key) for each in (before, after))
        assert old.cpu_seconds is not None
        assert new.cpu_seconds is not None
        granted = new.held * self.config.unit_milli / 1000 * (after.taken_at - before.taken_at)
        return (new.cpu_seconds - old.cpu_seconds) / granted


def until(good: Callable[[], bool]) -> None:
    """Poll until something is so; fail when patience ends."""
    end = time.monotonic() + PATIENCE_S
    while not good():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def states(group: int) -> str:
    """Tell the states of a group's processes, such as ``RST``."""
    return "".join(sorted(each.state for each in processes.read_all().values() if each.group == group))
