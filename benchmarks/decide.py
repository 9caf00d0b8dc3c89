"""How long one decision takes: a plan for 4,000 jobs in a pool of 16,000 units.

    python -m benchmarks.decide

That is the largest setting of SLAQ's own measurement (SoCC 2017, section 5: hundreds
of milliseconds to a few seconds, simulated).
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median

import numpy as np

from benchmarks.predict import many
from slaqd.adapter import Capabilities, LeverSpec
from slaqd.allocate import POLICIES, make_plan
from slaqd.predict import forecast
from slaqd.types import Job, JobKey, Lever, Owner, Sizes, Snapshot, State, Tag

JOBS = 4000
UNITS = 16000
REPEATS = 5
GOAL_SECONDS = 1.0


def cluster(rng: np.random.Generator) -> Snapshot:
    """Make a pool whose jobs may each take a good part of it."""
    jobs = tuple(
        Job(
            key=JobKey("made", str(at), 0),
            name=f"job{at}",
            owner=Owner(1000, "someone"),
            state=State.RUNNING,
            pool="all",
            tag=Tag(),
            lever=Lever.CPUS,
            unit={"cpu_milli": 1000, "memory_mb": 2000},
            sizes=Sizes(min=1, max=int(rng.integers(16, 1024))),
            held=4,
        )
        for at in range(JOBS)
    )
    return Snapshot(0.0, "made", {"all": {"cpu_milli": UNITS * 1000, "memory_mb": UNITS * 4000}}, jobs)


def main() -> bool:
    """Measure the CPU time of each policy, print, and tell whether the goal is met."""
    snapshot = cluster(np.random.default_rng(3))
    cast = forecast(*many(), 3.0)
    capabilities = Capabilities({Lever.CPUS: LeverSpec()}, 0.0, 1e9)
    took: dict[str, float] = {}
    for policy in POLICIES:
        times = []
        for _ in range(REPEATS):
            begun = time.process_time()
            plan = make_plan(snapshot, cast, capabilities, policy)
            times.append(time.process_time() - begun)
        took[policy] = round(median(times), 4)
        held = sum(allocation.units for allocation in plan.allocations)
        if held != UNITS:
            print(f"{policy}: {held} units planned, not {UNITS}")
            return False
    print(json.dumps({"benchmark": "decide", "jobs": JOBS, "units": UNITS, "seconds": took}))
    words = ", ".join(f"{policy} {seconds:.2f} CPU s" for policy, seconds in took.items())
    print(f"a plan for {JOBS} jobs and {UNITS} units: {words} (goal: under {GOAL_SECONDS} s)")
    return max(took.values()) < GOAL_SECONDS


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
