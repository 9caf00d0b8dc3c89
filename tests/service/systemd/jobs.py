"""Jobs of the machine's users, and what slaqd says of them."""

from __future__ import annotations

import json
from typing import Any

from service.systemd.lab import Lab, wait_for

CTL = "/opt/slaqd/bin/slaqctl"
UNITS = 3
TRAINS = """
import itertools, json, os
os.umask(0o077)
with open("train.jsonl", "w") as log:
    for step in itertools.count(1):
        sum(range(1_000_000))
        print(json.dumps({"step": step, "loss": 1 / step}), file=log, flush=True)
"""


def start(
    lab: Lab,
    user: str,
    *more: str,
    name: str | None = None,
    program: str = TRAINS,
    log: str = "train.jsonl",
    python: str = "python3",
) -> None:
    """Let a user run a job in her home, under her name, and wait until slaqd knows it."""
    lab.write(f"/srv/{user}.py", program)
    unit = f"job-{user}"
    where = (f"--unit={unit}", f"--uid={user}", f"--property=WorkingDirectory=/home/{user}")
    words = ("--name", name or user, "--max", str(UNITS), "--log", log, "--", python, f"/srv/{user}.py")

    def is_known() -> bool:
        # Where slaqd doesn't answer in slaqctl's time the job runs all the same, without it.
        if not lab.runs(unit) or "running unmanaged" in said_in(lab, unit):
            end(lab, user)
            lab.do(
                "systemd-run", "--quiet", *where, *(f"--setenv={each}" for each in more), CTL, "run", *words
            )
        return any(row["user"] == user and row["state"] != "ended" for row in rows(lab))

    end(lab, user)
    lab.do("sh", "-c", 'rm -f "/home/$1"/*.jsonl', "_", user)  # of a job before, with that one's rights
    wait_for(is_known, f"a job of {user}'s that slaqd knows", lambda: said_in(lab, unit))


def said_in(lab: Lab, unit: str) -> str:
    """Give what a unit said in its present life."""
    life = f"_SYSTEMD_INVOCATION_ID={lab.show('InvocationID', unit)}"
    return lab.do("journalctl", life, "--output=cat", "--no-pager")


def end(lab: Lab, user: str) -> None:
    lab.try_("systemctl", "stop", f"job-{user}")
    lab.try_("systemctl", "reset-failed", f"job-{user}")


def rows(lab: Lab, user: str = "root") -> list[dict[str, Any]]:
    """Give the jobs that a user is shown; none while slaqd doesn't answer."""
    words = (CTL, "jobs", "--json")
    done = lab.try_(*words) if user == "root" else lab.as_user(user, *words)
    return list(json.loads(done.stdout)) if done.returncode == 0 else []


def known(lab: Lab) -> dict[str, str]:
    """Give the ids of the jobs that run under a quota, by name."""
    return {row["name"]: row["job"] for row in rows(lab) if row["state"] == "running" and row["units"]}


def alive(lab: Lab, pid: str) -> bool:
    return lab.try_("kill", "-0", pid).returncode == 0


def quota(lab: Lab, job: str) -> int:
    """Give the quota that the kernel holds a job to, in microseconds a period; -1 where it runs free."""
    return int(lab.do("sh", "-c", f"cat /sys/fs/cgroup/cpu/slaqd/job-{job}-*/cpu.cfs_quota_us"))


def held(lab: Lab, job: str) -> set[str]:
    """Give the processes in a job's group."""
    return set(lab.do("sh", "-c", f"cat /sys/fs/cgroup/cpu/slaqd/job-{job}-*/cgroup.procs").split())
