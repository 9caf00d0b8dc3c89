"""How well, and how fast, loss curves are predicted.

    python -m benchmarks.predict [CURVES.npz ...]

Each curve is cut at 20, 40, 60 and 80 % of its points (at least 8 before, 10
after); the predictor sees what lies before the cut and foretells the loss 10 points
later. Without a file, trainings of SLAQ's kinds run here, in a second or two. In a
file: arrays ``sets``, ``names``, ``offsets``, ``steps``, ``losses``; the truth of a
set whose name ends in ``raw`` is the mean of the five points around the target.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.optimize import minimize
from scipy.stats import spearmanr

from slaqd.predict import Pace, forecast
from slaqd.types import Curve, Health

AHEAD = 10
CUTS = (0.2, 0.4, 0.6, 0.8)
# The trainings made here are fewer and shorter than the recorded ones, and 100 cases: a case is a percent.
GOAL_UNDER_5 = {"convex": 0.93, "made here": 0.9}
GOAL_SECONDS = 1.0
JOBS = 4000

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """One curve cut at one place, and what came after."""

    shown: Curve
    steps_ahead: float
    truth: float
    now: float
    reach: float


def curve_of(steps: Array, losses: Array) -> Curve:
    """Build the curve that the observer would."""
    changes = np.abs(np.diff(losses))
    return Curve(
        steps=steps.tolist(),
        losses=losses.tolist(),
        count=len(steps),
        first=float(losses[0]),
        lowest=float(losses.min()),
        largest_change=float(changes.max()) if len(changes) else 0.0,
        health=Health.OK,
    )


def cases(steps: Array, losses: Array, *, raw: bool) -> Iterator[Case]:
    """Cut one curve by the protocol."""
    for part in CUTS:
        cut = int(part * len(steps))
        at = cut - 1 + AHEAD
        if cut < 8 or at >= len(steps):
            continue
        seen = losses[:cut]
        truth = losses[at - 2 : at + 3].mean() if raw else losses[at]
        now = seen[-5:].mean() if raw else seen[-1]
        reach = float(seen.max() - seen.min())
        yield Case(
            curve_of(steps[:cut], seen), float(steps[at] - steps[cut - 1]), float(truth), float(now), reach
        )


def score(chosen: list[Case]) -> dict[str, float | int]:
    """Measure one set of cases."""
    pace = Pace()
    pace.add(1, 1.0)
    cast = forecast([case.shown for case in chosen], [pace] * len(chosen), 1.0)
    rows = np.arange(len(chosen))
    ahead, truth, now, reach = (
        np.array([getattr(case, name) for case in chosen])
        for name in ("steps_ahead", "truth", "now", "reach")
    )
    value = cast.value_at(rows, ahead)
    error = np.abs(value - truth) / np.maximum(np.abs(truth), 1e-12)
    moving = reach > 0.0
    foretold = (cast.value_at(rows, 0.0 * ahead) - value)[moving] / reach[moving]
    true = (now - truth)[moving] / reach[moving]
    out: dict[str, float | int] = {
        "cases": len(chosen),
        "known": float(cast.known.mean()),
        "median_error": float(np.median(error)),
        "under_5": float((error < 0.05).mean()),
        "rank": float(spearmanr(foretold, true).statistic),
        "error_of_range": float(np.median(np.abs(value - truth)[moving] / reach[moving])),
    }
    for coverage in (0.5, 0.8):
        low, high = cast.value_interval(rows, ahead, coverage)
        out[f"within_{coverage:.0%}".rstrip("%")] = float(((low <= truth) & (truth <= high)).mean())
    return out


def from_file(path: str) -> dict[str, list[Case]]:
    """Read the cases of each set of a file of curves."""
    data = np.load(path)
    offsets, steps, losses = data["offsets"], data["steps"], data["losses"]
    found: dict[str, list[Case]] = {}
    for at, name in enumerate(data["sets"].tolist()):
        part = slice(offsets[at], offsets[at + 1])
        found.setdefault(name, []).extend(cases(steps[part], losses[part], raw=name.endswith("raw")))
    return found


def descend(
    gradient: Callable[[Array], Array], loss: Callable[[Array], float], size: int, rate: float
) -> list[float]:
    """Run plain gradient descent and log its loss."""
    at, logged = np.zeros(size), []
    for _ in range(150):
        logged.append(loss(at))
        at = at - rate * gradient(at)
    return logged


def quick(gradient: Callable[[Array], Array], loss: Callable[[Array], float], size: int) -> list[float]:
    """Run L-BFGS and log its loss."""
    logged = [loss(np.zeros(size))]
    minimize(
        loss, np.zeros(size), jac=gradient, method="L-BFGS-B", callback=lambda at: logged.append(loss(at))
    )
    return logged


def trainings() -> Iterator[list[float]]:
    """Train SLAQ's kinds of model on data made here: logistic and linear regression, SVM, k-means."""
    rng = np.random.default_rng(7)
    for size in (5, 20, 60):
        features = rng.normal(size=(300, size)) * rng.uniform(0.2, 2.0, size)
        scores = features @ rng.normal(size=size) + rng.normal(size=300)
        signs = np.where(scores > 0.0, 1.0, -1.0)
        rate = 1.0 / float(np.linalg.norm(features, 2) ** 2 / 300)

        def logistic(w: Array, x: Array = features, s: Array = signs) -> float:
            return float(np.logaddexp(0.0, -s * (x @ w)).mean())

        def logistic_slope(w: Array, x: Array = features, s: Array = signs) -> Array:
            return -(x.T @ (s / (1.0 + np.exp(np.clip(s * (x @ w), -500, 500))))) / len(s)

        def squared(w: Array, x: Array = features, z: Array = scores) -> float:
            return float(((x @ w - z) ** 2).mean() / 2.0)

        def squared_slope(w: Array, x: Array = features, z: Array = scores) -> Array:
            return x.T @ (x @ w - z) / len(z)

        def hinge(w: Array, x: Array = features, s: Array = signs) -> float:
            return float((np.maximum(0.0, 1.0 - s * (x @ w)) ** 2).mean() + 0.005 * w @ w)

        def hinge_slope(w: Array, x: Array = features, s: Array = signs) -> Array:
            return -2.0 * x.T @ (s * np.maximum(0.0, 1.0 - s * (x @ w))) / len(s) + 0.01 * w

        for loss, slope, step in (
            (logistic, logistic_slope, 4.0 * rate),
            (squared, squared_slope, rate),
            (hinge, hinge_slope, rate / 2.0),
        ):
            yield descend(slope, loss, size, step)
            yield descend(slope, loss, size, step / 10.0)
            yield quick(slope, loss, size)
        yield lloyd(features[:, :3], 12, rng)


def lloyd(points: Array, clusters: int, rng: np.random.Generator) -> list[float]:
    """Run k-means and log the mean squared distance."""
    centres = points[rng.choice(len(points), clusters, replace=False)]
    logged: list[float] = []
    for _ in range(60):
        apart = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
        nearest = apart.argmin(axis=1)
        logged.append(float(apart.min(axis=1).mean()))
        centres = np.array(
            [
                points[nearest == at].mean(axis=0) if (nearest == at).any() else centres[at]
                for at in range(clusters)
            ]
        )
    return logged


def made_here() -> dict[str, list[Case]]:
    """Give the cases of the trainings of this file."""
    logs = [np.array(losses) for losses in trainings()]
    return {
        "made here": [case for log in logs for case in cases(np.arange(1.0, len(log) + 1.0), log, raw=False)]
    }


def seconds(curves: list[Curve], paces: list[Pace], repeats: int = 5) -> float:
    """Take the median CPU time of a forecast of all jobs: other programs do not count."""
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        forecast(curves, paces, 3.0)
        times.append(time.process_time() - begun)
    return median(times)


def many() -> tuple[list[Curve], list[Pace]]:
    """Make curves and paces for the measurement of time."""
    rng = np.random.default_rng(1)
    curves, paces = [], []
    for _ in range(JOBS):
        k = np.arange(1.0, float(rng.integers(40, 400)))
        curves.append(curve_of(k, rng.uniform(0.1, 5.0) / (0.2 * k + 1.0) + rng.normal(1.0, 1e-3, len(k))))
        pace = Pace()
        pace.add(2, 1.0)
        pace.add(4, 0.6)
        paces.append(pace)
    return curves, paces


def main(paths: Iterable[str] = ()) -> bool:
    """Measure, print a JSON line and readable ones, and tell whether the goals are met."""
    sets: dict[str, list[Case]] = {}
    for path in paths:
        sets.update(from_file(path))
    scored = {name: score(found) for name, found in (sets or made_here()).items()}
    took = seconds(*many())
    print(json.dumps({"benchmark": "predict", "jobs": JOBS, "seconds": round(took, 4), "sets": scored}))
    for name, s in scored.items():
        print(
            f"{name}: {s['cases']} cases, median error {s['median_error']:.3%}, under 5 %: {s['under_5']:.1%}"
            f", rank {s['rank']:.2f}, error/range {s['error_of_range']:.2%}, "
            f"within the 50 % interval {s['within_50']:.0%}, the 80 % one {s['within_80']:.0%}"
        )
    print(f"forecast of {JOBS} jobs: {took:.2f} CPU s (goal: under {GOAL_SECONDS} s)")
    accurate = all(s["under_5"] >= GOAL_UNDER_5.get(name, 0.0) for name, s in scored.items())
    return took < GOAL_SECONDS and accurate


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
