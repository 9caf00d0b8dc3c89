"""What the guest's scripts share: an adapter, its jobs, and how a finding is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from slaqd_local import Config, LocalAdapter, processes

from slaqd.adapter import AsUser, Registration
from slaqd.clock import SystemClock
from slaqd.testing import MemoryStore
from slaqd.types import Accepted, Adopt, Job, JobKey, Owner, Restore, SetUnits, Tag

ROOT = Path("/sys/fs/cgroup")
UNIT_MILLI = 50
MEASURE_S = 8.0
TRIES = 8
PATIENCE_S = 60.0
BUSY = "while True: pass"


def check(name: str, ok: object, seen: object) -> None:
    """Print one finding."""
    print(json.dumps({"check": name, "ok": bool(ok), "seen": seen}), flush=True)  # noqa: T201 - the script's output is its point


def until(good: Callable[[], bool]) -> bool:
    """Poll until something is so; tell whether it came to that."""
    end = time.monotonic() + PATIENCE_S
    while not good():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def group_of(pid: int) -> str:
    """Tell the v2 group of a process."""
    lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()
    return next(line[3:] for line in lines if line.startswith("0::"))


class Bench:
    """An adapter and the jobs it serves."""

    def __init__(self, means: Literal["auto", "cgroup2"], as_user: AsUser | None = None) -> None:
        self.store = MemoryStore()
        self.config = Config(unit_milli=UNIT_MILLI, means=means)
        self.as_user = as_user
        self.adapter = self.fresh()
        self.started: list[subprocess.Popen[bytes]] = []

    def fresh(self) -> LocalAdapter:
        """Make another adapter on the same records, as after a crash."""
        return LocalAdapter(self.config, SystemClock(), self.store, self.as_user)

    def start(self, program: str) -> JobKey:
        """Start a job in a process group of its own."""
        process = subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=True)
        self.started.append(process)
        return self.register(process.pid)

    def register(self, pid: int, uid: int | None = None) -> JobKey:
        """Tell the store of a process group, one's own if no uid is given."""
        seen = processes.read(pid)
        if seen is None:
            raise ProcessLookupError(pid)
        key = JobKey("local", str(pid), seen.start)
        owner = Owner(os.getuid() if uid is None else uid, "me")
        self.store.register(Registration(key, owner, Tag(min=1, max=20), "job", "/", time.time()))
        return key

    def act(self, action: Adopt | SetUnits | Restore) -> bool:
        """Do one action and tell whether it was accepted."""
        (outcome,) = self.adapter.apply([action], time.monotonic() + PATIENCE_S)
        if not isinstance(outcome, Accepted):
            check(f"{type(action).__name__} of {action.key} is accepted", ok=False, seen=str(outcome))
        return isinstance(outcome, Accepted)

    def adopt(self, key: JobKey, units: int) -> bool:
        """Hold a job to units."""
        return self.act(Adopt("a", key, "", units))

    def job(self, key: JobKey, adapter: LocalAdapter | None = None) -> Job:
        """Look at one job."""
        snapshot = (adapter or self.adapter).snapshot(time.monotonic() + PATIENCE_S)
        return next(job for job in snapshot.jobs if job.key == key)

    def shares(self, keys: list[JobKey]) -> list[float]:
        """Measure what jobs use over what they are held to; again if the host was too busy to give it."""
        for _ in range(TRIES - 1):
            shares = self._shares(keys)
            if near(shares):
                return shares
        return self._shares(keys)

    def _shares(self, keys: list[JobKey]) -> list[float]:
        before = self.adapter.snapshot(time.monotonic() + PATIENCE_S)
        time.sleep(MEASURE_S)
        after = self.adapter.snapshot(time.monotonic() + PATIENCE_S)
        seconds = after.taken_at - before.taken_at
        used = {job.key: -(job.cpu_seconds or 0.0) for job in before.jobs}
        for job in after.jobs:
            granted = max(1, job.held) * UNIT_MILLI / 1000 * seconds
            used[job.key] = (used[job.key] + (job.cpu_seconds or 0.0)) / granted
        return [round(used[key], 3) for key in keys]

    def directory(self, key: JobKey) -> list[str]:
        """Find the job's groups in the hierarchy."""
        return [str(each) for each in ROOT.rglob(f"job-{key.id}-{key.start}")]

    def end(self) -> None:
        """Kill what was started."""
        for process in self.started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def near(shares: list[float]) -> bool:
    """Tell whether shares are within 15 % of what was granted."""
    return all(0.85 < share < 1.15 for share in shares)


def run_unit(name: str, *properties: str) -> int:
    """Start a busy loop as a unit of systemd; give its main process."""
    options = [word for each in properties for word in ("-p", each)]
    command = ["systemd-run", "--quiet", f"--unit={name}", *options, sys.executable, "-S", "-c", BUSY]
    subprocess.run(command, check=True)
    shown = ["systemctl", "show", "--value", "-p", "MainPID", name]
    return int(subprocess.run(shown, check=True, capture_output=True, text=True).stdout)
