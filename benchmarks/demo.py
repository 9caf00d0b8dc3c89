"""What SLAQ gains over fair share in the demo, over seeds: `make bench-demo SEEDS="1 2 3"`.

Each seed takes as long as a demo. Misses its goal if SLAQ's mean time to 90 % of the
loss reduction is not at least a quarter below fair share's in eight seeds of ten, where
a seed counts only if the load was between 2 and 5 and no job's measured CPU strayed
more than 15 % from what it was granted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

UNIT_CORES = 0.02
GOAL_RATIO = 0.75
GOAL_SHARE_OF_SEEDS = 0.8
GOAL_STRAY = 0.15
LOADS = (2.0, 5.0)


@dataclass(frozen=True)
class Outcome:
    """One seed: ratios SLAQ over fair share, and how far CPU strayed from the grant at worst."""

    seed: int
    load: float
    to_90: float
    completion: float
    stray: float

    @property
    def good(self) -> bool:
        """Tell whether this seed meets the goal."""
        low, high = LOADS
        return self.to_90 <= GOAL_RATIO and self.stray <= GOAL_STRAY and low <= self.load <= high


def outcome(result: dict[str, Any]) -> Outcome:
    """Take what counts out of a ``result.json``."""
    fair, slaq = result["policies"]["fair"], result["policies"]["slaq"]
    strays = [
        abs(job["cpu_seconds"] / (job["unit_seconds"] * UNIT_CORES) - 1)
        for policy in (fair, slaq)
        for job in policy["jobs"]
    ]
    return Outcome(
        seed=result["seed"],
        load=result["load"],
        to_90=slaq["time_to"]["0.9"] / fair["time_to"]["0.9"],
        completion=slaq["mean_completion"] / fair["mean_completion"],
        stray=max(strays),
    )


def run(seed: int) -> Outcome:
    """Run the demo with one seed."""
    with TemporaryDirectory() as out:
        command = [sys.executable, "-m", "slaqd.cli", "demo", "--seed", str(seed), "--out", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return outcome(json.loads((Path(out) / "result.json").read_text(encoding="utf-8")))


def report(outcomes: list[Outcome]) -> bool:
    """Print one JSON line and a readable one a seed; tell whether the goal is met."""
    for one in outcomes:
        print(
            f"seed {one.seed}: load {one.load:.1f}, time to 90 % x {one.to_90:.2f}, "
            f"completion x {one.completion:.2f}, CPU strays {one.stray:.0%}"
        )
    good = sum(one.good for one in outcomes)
    figures = {
        "benchmark": "demo",
        "seeds": len(outcomes),
        "good": good,
        "median_time_to_90_ratio": median(one.to_90 for one in outcomes),
        "median_completion_ratio": median(one.completion for one in outcomes),
        "worst_cpu_stray": max(one.stray for one in outcomes),
    }
    print(json.dumps(figures))
    return good >= GOAL_SHARE_OF_SEEDS * len(outcomes)


def main(words: list[str]) -> bool:
    """Run the seeds named, or read the ``result.json`` files named."""
    files = [Path(word) for word in words if not word.isdigit()]
    read = [outcome(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    return report(read + [run(int(word)) for word in words if word.isdigit()])


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
