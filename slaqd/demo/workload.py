"""Which trainings arrive when: the same for the same seed, on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from slaqd.demo import ONE_THREAD
from slaqd.demo.data import Array
from slaqd.types import Struct

COST: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "logistic": (6.6, 1.38),
        "sgd": (5.2, 0.59),
        "svm": (9.2, 1.39),
        "linear": (6.9, 1.51),
        "lasso": (8.0, 1.41),
        "mlp": (10.4, 0.63),
        "boosting": (7.7, 0.51),
        "kmeans": (5.7, 1.04),
        "lda": (7.7, 0.76),
        "factors": (6.1, 1.31),
        "mixture": (4.7, 0.75),
    }
)
"""CPU seconds of each kind at size 1, and the power of the size that they grow with.

Fitted to 55 trainings measured on the reference machine (five of each kind, sizes 0.6 to
1.5); one training is off by about 10 % (``factors`` by 20 %).
"""

REFERENCE_S = 0.099
"""CPU seconds that `calibrate` takes on the reference machine."""

SMALLEST, LARGEST = 0.65, 1.35
_TYPICAL, _SPREAD = 1.0, 0.25


class Spec(Struct, frozen=True):
    """One training of a workload. ``arrives`` is a share of the arrival window, in [0, 1)."""

    name: str
    kind: str
    seed: int
    size: float
    arrives: float

    @property
    def estimate(self) -> float:
        """Estimate the CPU seconds it takes on the reference machine."""
        cost, power = COST[self.kind]
        return float(cost * self.size**power)


class Workload(Struct, frozen=True):
    """The trainings of one demo, in order of arrival."""

    specs: tuple[Spec, ...]

    @property
    def estimate(self) -> float:
        """Estimate the CPU seconds all take together on the reference machine."""
        return sum(spec.estimate for spec in self.specs)


def make_workload(jobs: int, seed: int) -> Workload:
    """Draw ``jobs`` trainings: kinds dealt in turn, log-normal sizes, uniform arrivals, the first at 0."""
    rng = np.random.default_rng(seed)
    kinds = [list(COST)[i % len(COST)] for i in rng.integers(len(COST)) + np.arange(jobs)]
    rng.shuffle(kinds)
    sizes = np.clip(_TYPICAL * np.exp(_SPREAD * rng.standard_normal(jobs)), SMALLEST, LARGEST)
    arrivals = np.sort(rng.uniform(size=jobs))
    arrivals[0] = 0.0
    seeds = rng.integers(2**31, size=jobs)
    return Workload(
        specs=tuple(
            Spec(
                name=f"{kind}-{i:02d}",
                kind=kind,
                seed=int(own),
                size=round(float(size), 3),
                arrives=float(at),
            )
            for i, (kind, own, size, at) in enumerate(
                zip(kinds, seeds, sizes, arrivals, strict=True), start=1
            )
        )
    )


def speed_ratio() -> float:
    """Measure how many times the reference machine's CPU seconds a training takes here, in half a second.

    It runs in a process of its own, so that numpy's threads are one as in the trainings.
    """
    done = subprocess.run(
        [sys.executable, "-m", "slaqd.demo.workload"],
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(done.stdout) / REFERENCE_S


def calibrate() -> float:
    """Do a fixed piece of work like the trainings' own thrice, and give the median of its CPU seconds."""
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((4000, 64)), rng.integers(40, size=4000)
    return sorted(_work(x, labels) for _ in range(3))[1]


def _work(x: Array, labels: NDArray[np.int64]) -> float:
    start = time.process_time()
    for _ in range(100):
        pull = np.exp(-np.abs(x @ x[0])) @ x
        away = x[:40] @ x.T + pull[:40, None]
        away.argmin(0)
        np.bincount(labels, away[0], 40)
    return time.process_time() - start


if __name__ == "__main__":
    sys.stdout.write(f"{calibrate()!r}\n")
