"""How much memory slaqd takes with 4,000 jobs whose curves it knows.

    python -m benchmarks.memory

A real slaqd with the adapter for this machine follows 4,000 real process groups, each with
a log of 1,000 points. At most 150 MB of it stand in memory once all are read. It also tells
how long it took until it answered, and judges that by the CPU seconds, since others use the
machine too: READY is due within two seconds.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.real import slaqd, sleepers

JOBS = 4000
POINTS = 1000
EPOCH_S = 2.0
CYCLES = 6
GOAL_MB = 150.0
GOAL_ANSWER_S = 2.0


def main() -> bool:
    """Measure, print a JSON line and a readable one, and tell whether the goal is met."""
    with sleepers(JOBS) as keys, slaqd(EPOCH_S) as daemon:
        daemon.know(keys, POINTS)
        ready = daemon.start()
        spent = daemon.cpu_seconds()
        asked = time.monotonic()
        first = daemon.status().cycles
        answered = time.monotonic() - asked
        daemon.reach(CYCLES)
        resident, status = daemon.resident_mb(), daemon.status()
    figures = {
        "benchmark": "memory",
        "jobs": JOBS,
        "running": status.running,
        "resident_mb": round(resident, 1),
        "answered_after_s": round(ready, 2),
        "answered_after_cpu_s": round(spent, 2),
        "answer_in_first_cycle_s": round(answered, 3) if first == 0 else None,
    }
    print(json.dumps(figures))
    print(
        f"{JOBS} jobs with curves: {resident:.0f} MB resident (goal: at most {GOAL_MB:.0f} MB); it answered"
        f" {ready:.2f} s after its start, {spent:.2f} of them on a CPU (goal: within {GOAL_ANSWER_S:.0f} s)"
    )
    quick = spent <= GOAL_ANSWER_S
    return status.running == JOBS and resident <= GOAL_MB and quick


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
