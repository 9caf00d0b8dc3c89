"""Holds two users' jobs by cgroup v2 in the guest: slaqd has no right to, slaqd-agent its own unit.

Prints one JSON line a check, and DONE. Run without arguments as root, it installs the
agent as docs/service.md has it, starts the jobs, and itself again as the user slaqd.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from guest_bench import ROOT, UNIT_MILLI, Bench, check, group_of, near, run_unit, until
from slaqd_local.requests import Hold

from slaqd.agent.client import Agent
from slaqd.types import Adopt, JobKey, Refused, Restore, SetUnits, State

ALICE, BOB = 20001, 20002
COMMANDS = """\
install -D -m 644 /mnt/repo/systemd/sysusers.d/slaqd.conf /etc/sysusers.d/slaqd.conf
install -m 644 /mnt/repo/systemd/slaqd-agent.service /etc/systemd/system/slaqd-agent.service
install -m 644 /mnt/repo/systemd/slaqd-agent.socket /etc/systemd/system/slaqd-agent.socket
install -D -m 644 /mnt/repo/systemd/hold.conf /etc/systemd/system/slaqd-agent.service.d/hold.conf
systemd-sysusers slaqd.conf
useradd --uid 20001 alice
useradd --uid 20002 bob
systemctl daemon-reload
systemctl start slaqd-agent.socket""".splitlines()
CONFIG = f"[adapter.local]\nunit_milli = {UNIT_MILLI}\n"
PROGRAM = f"""\
#!/usr/bin/python3
import sys
sys.path[:0] = {os.environ["PYTHONPATH"].split(":")!r}
from slaqd.agent.__main__ import main
main()
"""


def install() -> None:
    """Install slaqd-agent, and open the cgroup tree to it."""
    program, config = Path("/opt/slaqd/bin/slaqd-agent"), Path("/etc/slaqd/slaqd.toml")
    for path, text in ((program, PROGRAM), (config, CONFIG)):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    for command in COMMANDS:
        subprocess.run(command.split(), check=True, capture_output=True)


def served(job_pids: Sequence[int]) -> int:
    """Run this again as slaqd: no right to anything."""
    command = [sys.executable, __file__, *map(str, job_pids)]
    return subprocess.run(
        command, check=False, timeout=200, user="slaqd", group="slaqd", extra_groups=[]
    ).returncode


def milli(bench: Bench, key: JobKey) -> int:
    """Read a job's quota from the kernel, past the adapter."""
    quota, period = (Path(bench.directory(key)[0]) / "cpu.max").read_text(encoding="ascii").split()
    return -1 if quota == "max" else int(quota) * 1000 // int(period)


def hold(bench: Bench, alices: JobKey, bobs: JobKey) -> None:
    """Adopt a job of each user, look what the kernel has, change one."""
    bench.adopt(alices, 2)
    bench.adopt(bobs, 6)
    seen = [milli(bench, key) for key in (alices, bobs)]
    check("cpu.max says what was granted", seen == [2 * UNIT_MILLI, 6 * UNIT_MILLI], seen)
    group = Path(bench.directory(alices)[0])
    seen = [(each.stat().st_uid, oct(each.stat().st_mode & 0o777)) for each in (group, group.parent)]
    check("the groups are root's, and nobody else may write to them", seen == [(0, "0o755")] * 2, seen)
    most = [
        (Path(bench.directory(key)[0]) / "pids.max").read_text(encoding="ascii").strip()
        for key in (alices, bobs)
    ]
    check("a job may have no more processes than where it came from", most == ["40", "50"], most)
    shares = bench.shares([alices, bobs])
    check("both get what was granted", near(shares), shares)
    bench.act(SetUnits("s", alices, "", 5))
    targets = [bench.job(key).target for key in (alices, bobs)]
    check("the snapshot shows the change", targets == [5, 6], targets)


def refuse(bench: Bench, agent: Agent, alices: JobKey, limited: JobKey) -> None:
    """Ask for what is not granted."""
    (outcome,) = bench.adapter.apply([Adopt("a", limited, "", 4)], time.monotonic() + 60)
    seen = [type(outcome) is Refused, bench.directory(limited), group_of(int(limited.id))]
    check(
        "a unit's quota is not escaped",
        seen == [True, [], "/system.slice/limited.service"],
        [*seen, str(outcome)],
    )
    try:
        agent.hands(Hold("cgroup2", int(alices.id), alices.start, BOB, (), 1000), type(None))
    except OSError as error:
        why = str(error)
    else:
        why = ""
    check("a job is not held in another user's name", "not of 20002" in why, why)
    check("and has what it had", milli(bench, alices) == 5 * UNIT_MILLI, milli(bench, alices))


def as_slaqd(pids: Sequence[int]) -> None:
    """Hold jobs of others with no right to any group."""
    agent = Agent("/run/slaqd-agent.sock")
    bench = Bench("auto", agent)
    seen = [os.getuid() != 0, os.access(ROOT / "cgroup.procs", os.W_OK)]
    check("slaqd itself has no right to any group", seen == [True, False], seen)
    expected = "jobs are held by cgroup2, which slaqd-agent writes"
    # The first question starts the agent, which takes its seconds in an emulated machine.
    found = until(lambda: expected in [finding.what for finding in bench.adapter.check()])
    check("slaqd's agent writes to the groups", found, [finding.what for finding in bench.adapter.check()])
    alices, bobs, limited = (
        bench.register(pid, uid) for pid, uid in zip(pids, (ALICE, BOB, ALICE), strict=True)
    )
    hold(bench, alices, bobs)
    refuse(bench, agent, alices, limited)
    bench.act(Restore("r", alices, ""))
    seen = [group_of(int(alices.id)), bench.directory(alices)]
    check("a restored job is back where it came from", seen == ["/system.slice/alices.service", []], seen)
    bench.adapter.close(restore=True)
    seen = [bench.job(bobs).state is State.RUNNING, bench.job(bobs).target]
    check("a graceful stop frees the other and ends it not", seen == [True, None], seen)


def main() -> None:
    """Run all."""
    if sys.argv[1:]:
        as_slaqd([int(word) for word in sys.argv[1:]])
        return
    install()
    pids = [
        run_unit("alices", "User=alice", "TasksMax=40"),
        run_unit("bobs", "User=bob", "TasksMax=50"),
        run_unit("limited", "User=alice", "CPUQuota=50%"),
    ]
    status = served(pids)
    check("slaqd's part ran to its end", status == 0, status)
    shown = subprocess.run(
        ["systemctl", "show", "--value", "-p", "ActiveState", "-p", "NRestarts", "slaqd-agent"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    check("one agent served all of it", sorted(shown) == ["0", "active"], shown)
    subprocess.run(["systemctl", "stop", "alices", "bobs", "limited"], check=True)
    print("DONE")  # noqa: T201 - as in check


main()
