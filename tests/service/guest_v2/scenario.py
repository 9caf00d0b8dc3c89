"""Holds real jobs by cgroup v2 in the guest, as root and in a group that systemd delegated to a user.

Prints one JSON line a check, and DONE. Run without arguments as root; it starts itself
again, with the argument ``delegated``, as a user's unit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from guest_bench import BUSY, UNIT_MILLI, Bench, check, group_of, near, run_unit, until

from slaqd.types import JobKey, Restore, SetUnits, State

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
    properties = ["Delegate=yes", "User=daemon", f"Environment=PYTHONPATH={os.environ['PYTHONPATH']}"]
    options = [word for each in properties for word in ("-p", each)]
    command = ["systemd-run", "--quiet", "--wait", "--pipe", *options]
    done = subprocess.run([*command, sys.executable, __file__, "delegated"], check=False, timeout=500)
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
