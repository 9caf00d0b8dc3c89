"""Asks the guest whether it has the real cgroup v2 and systemd, and whether a CPU quota bites."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
BUSY = ["systemd-run", "--quiet", "--unit=busy", "-p", "CPUQuota=20%", "python3", "-c", "while True: pass"]


def check(name: str, ok: object, seen: object) -> None:
    """Print one finding."""
    print(json.dumps({"check": name, "ok": bool(ok), "seen": seen}))  # noqa: T201 - the script's output is its point


def usage() -> dict[str, int]:
    """Read the busy unit's account."""
    pairs = (line.split() for line in (ROOT / "system.slice/busy.service/cpu.stat").read_text().splitlines())
    return {key: int(value) for key, value in pairs}


def main() -> None:
    """Look, then load one unit under a quota of a fifth of a core."""
    controllers = (ROOT / "cgroup.controllers").read_text().split()
    check("cpu is among the v2 controllers", "cpu" in controllers, controllers)
    first = Path("/proc/1/comm").read_text().strip()
    check("systemd is PID 1", first == "systemd", first)
    subprocess.run(BUSY, check=True)
    limit = (ROOT / "system.slice/busy.service/cpu.max").read_text().strip()
    check("systemd writes cpu.max", limit == "20000 100000", limit)
    before, began = usage(), time.monotonic()
    time.sleep(5)
    after, wall = usage(), time.monotonic() - began
    share = (after["usage_usec"] - before["usage_usec"]) / 1e6 / wall
    check("a busy loop gets about a fifth of a core", 0.1 < share < 0.3, round(share, 3))
    throttled = after["nr_throttled"] - before["nr_throttled"]
    check("the kernel counts how often it was held back", throttled > 0, throttled)
    print("DONE")  # noqa: T201 - as in check


main()
