"""Holds real jobs by cgroup v2 in the guest, as root and in a group that systemd delegated to a user.

Prints one JSON line a check, and DONE. Run without arguments as root; it starts itself
again, with the argument ``delegated``, as a user's unit.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import slaqd_local
from slaqd_local import Config, LocalAdapter, processes

import slaqd
from slaqd.adapter import Registration
from slaqd.clock import SystemClock
from slaqd.testing import MemoryStore
from slaqd.types import Accepted, Adopt, Job, JobKey, Owner, Restore, SetUnits, State, Tag

ROOT = Path("/sys/fs/cgroup")
UNIT_MILLI = 50
MEASURE_S = 8.0
TRIES = 3
PATIENCE_S = 60.0
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

    def __init__(self, means: Literal["auto", "cgroup2"]) -> None:
        self.store = MemoryStore()
        self.config = Config(unit_milli=UNIT_MILLI, means=means)
        self.adapter = self.fresh()
        self.started: list[subprocess.Popen[bytes]] = []

    def fresh(self) -> LocalAdapter:
        """Make another adapter on the same records, as after a crash."""
        return LocalAdapter(self.config, SystemClock(), self.store)

    def start(self, program: str) -> JobKey:
        """Start a job in a process group of its own."""
        process = subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=True)
        self.started.append(process)
        return self.register(process.pid)

    def register(self, pid: int) -> JobKey:
        """Tell the store of a process group."""
        seen = processes.read(pid)
        if seen is None:
            raise ProcessLookupError(pid)
        key = JobKey("local", str(pid), seen.start)
        self.store.register(
            Registration(key, Owner(os.getuid(), "me"), Tag(min=1, max=20), "job", "/", time.time())
        )
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


def hold_and_change(bench: Bench) -> list[JobKey]:
    """Adopt three kinds of jobs, measure, change, measure again."""
    keys = [bench.start(program) for program in (BUSY, THREADS, CHILDREN)]
    origin = group_of(int(keys[0].id))
    for key, units in zip(keys, (2, 6, 4), strict=True):
        bench.adopt(key, units)
    limits = [(Path(bench.directory(key)[0]) / "cpu.max").read_text(encoding="ascii").split() for key in keys]
    milli = [int(quota) * 1000 / int(period) for quota, period in limits]
    check("cpu.max says what was granted", milli == [units * UNIT_MILLI for units in (2, 6, 4)], limits)
    shares = bench.shares(keys)
    check("a process, its threads and its children get what was granted", near(shares), shares)
    bench.act(SetUnits("s", keys[0], "", 8))
    bench.act(SetUnits("s", keys[1], "", 1))
    targets = [bench.job(key).target for key in keys]
    check("the snapshot shows the change", targets == [8, 1, 4], targets)
    shares = bench.shares(keys)
    check("what was granted anew is what they get", near(shares), shares)
    targets = [bench.job(key, bench.fresh()).target for key in keys]
    check("a fresh adapter reads the quotas back", targets == [8, 1, 4], targets)
    bench.act(Restore("r", keys[1], ""))
    groups = [group_of(int(keys[1].id)), bench.directory(keys[1])]
    back = origin if os.geteuid() == 0 else f"{origin}/slaqd-main"
    check("a restored job is back where it came from", groups == [back, []], groups)
    job = bench.job(keys[1])
    before, began = time.clock_gettime((~int(job.key.id) << 3) | 2), time.monotonic()
    time.sleep(3)
    share = (time.clock_gettime((~int(job.key.id) << 3) | 2) - before) / (time.monotonic() - began)
    check("and has no quota any more", job.target is None and share > 0.3, [job.target, round(share, 2)])
    return keys


def lift_and_end(bench: Bench, keys: list[JobKey]) -> None:
    """Stop gracefully, start again, and let all jobs end."""
    bench.adapter.close(restore=True)
    bench.adapter = bench.fresh()
    targets = [bench.job(key).target for key in keys]
    check("a graceful stop lifts the quotas", targets == [None] * len(keys), targets)
    bench.adopt(keys[0], 2)
    check("and the next start adopts again", bench.job(keys[0]).target == 2, bench.job(keys[0]).target)
    bench.end()
    ended = until(lambda: all(bench.job(key).state is State.ENDED for key in keys))
    check("jobs that were killed have ended", ended, [bench.job(key).state for key in keys])
    left = [group for key in keys for group in bench.directory(key)]
    check("and left no group behind", until(lambda: not any(map(bench.directory, keys))), left)


def run_unit(name: str, *properties: str) -> int:
    """Start a busy loop as a unit of systemd; give its main process."""
    options = [word for each in properties for word in ("-p", each)]
    command = ["systemd-run", "--quiet", f"--unit={name}", *options, sys.executable, "-S", "-c", BUSY]
    subprocess.run(command, check=True)
    shown = ["systemctl", "show", "--value", "-p", "MainPID", name]
    return int(subprocess.run(shown, check=True, capture_output=True, text=True).stdout)


def units_of_systemd(bench: Bench) -> None:
    """Adopt jobs that are units already, one under a quota of systemd's."""
    free, limited = run_unit("free"), run_unit("limited", "CPUQuota=50%")
    keys = [bench.register(pid) for pid in (free, limited)]
    for key in keys:
        bench.adopt(key, 4)
    seen = [bench.directory(keys[0]) != [], bench.directory(keys[1]) == [], group_of(limited)]
    check(
        "a unit's quota is not escaped: a keeper holds that job",
        seen == [True, True, "/system.slice/limited.service"],
        seen,
    )
    time.sleep(3)  # a keeper takes effect when its Python has started
    shares = bench.shares(keys)
    check("both get what was granted", near(shares), shares)
    bench.act(Restore("r", keys[0], ""))
    bench.act(Restore("r", keys[1], ""))
    active = subprocess.run(
        ["systemctl", "is-active", "free", "limited"], check=False, capture_output=True, text=True
    )
    seen = [group_of(free), active.stdout.split()]
    check("restored, they are units as before", seen == ["/system.slice/free.service", ["active"] * 2], seen)
    subprocess.run(["systemctl", "stop", "free", "limited"], check=True)
    ended = until(lambda: all(bench.job(key).state is State.ENDED for key in keys))
    check("and end with their units", ended, [bench.job(key).state for key in keys])


def delegated() -> None:
    """Run this again as an ordinary user, in a unit with Delegate=."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for package in (slaqd, slaqd_local, msgspec):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, folder / source.name, copy_function=shutil.copyfile)
    for about in Path(str(slaqd.__file__)).parent.parent.glob("slaqd-*.dist-info"):
        shutil.copytree(about, folder / about.name, copy_function=shutil.copyfile)
    shutil.copyfile(__file__, folder / "scenario.py")
    properties = ["Delegate=yes", "User=daemon", f"Environment=PYTHONPATH={folder}"]
    options = [word for each in properties for word in ("-p", each)]
    command = ["systemd-run", "--quiet", "--wait", "--pipe", *options]
    done = subprocess.run(
        [*command, sys.executable, str(folder / "scenario.py"), "delegated"], check=False, timeout=200
    )
    check("the user's part ran to its end", done.returncode == 0, done.returncode)


def main() -> None:
    """Run all."""
    own = "by a user: " if sys.argv[1:] else "by root: "
    bench = Bench("cgroup2" if sys.argv[1:] else "auto")
    findings = [finding.what for finding in bench.adapter.check()]
    check(own + "jobs are held by cgroup2", "jobs are held by cgroup2" in findings, findings)
    keys = hold_and_change(bench)
    lift_and_end(bench, keys)
    if not sys.argv[1:]:
        units_of_systemd(bench)
        delegated()
        print("DONE")  # noqa: T201 - as in check
    bench.adapter.close(restore=True)


main()
