"""What slaqd costs while nothing happens: 1,000 running jobs whose logs don't grow.

    python -m benchmarks.idle

A real slaqd with the adapter for this machine looks at 1,000 real process groups, in mode
observe. Its CPU seconds for one cycle, over an epoch of ten seconds, are at most 1 % of a
core. They don't depend on the epoch, so a shorter one is used here.
"""

from __future__ import annotations

import json
import sys
from math import ceil

from benchmarks.real import slaqd, sleepers

JOBS = 1000
POINTS = 200
EPOCH_S = 10.0
SHORT_EPOCH_S = 1.0
WARM = 5
CYCLES = 30
GOAL_CORES = 0.01


def main() -> bool:
    """Measure, print a JSON line and a readable one, and tell whether the goal is met."""
    with sleepers(JOBS) as keys, slaqd(SHORT_EPOCH_S) as daemon:
        daemon.know(keys, POINTS)
        daemon.start()
        daemon.reach(WARM)
        before, spent = daemon.status().cycles, daemon.cpu_seconds()
        daemon.reach(before + CYCLES)
        status = daemon.status()
        cycle = (daemon.cpu_seconds() - spent) / (status.cycles - before)
    running = status.running
    print(json.dumps({"benchmark": "idle", "jobs": JOBS, "running": running, "cpu_seconds": round(cycle, 4)}))
    print(
        f"an idle cycle with {JOBS} jobs: {cycle:.3f} CPU s, {cycle / EPOCH_S:.2%} of a core at an epoch of"
        f" {EPOCH_S:.0f} s (goal: at most {GOAL_CORES:.0%})"
    )
    return running == JOBS and ceil(cycle * 1000) <= EPOCH_S * GOAL_CORES * 1000


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
