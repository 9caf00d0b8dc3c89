"""Runs as a demo would record them, computed here from a small model of training.

A job's loss falls from ``high`` to ``low`` with its iterations, each iteration costs a
fixed amount of CPU, and the job ends when a step no longer changes the loss much.
Units are handed out each second: evenly, or to the largest fall that is to come.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from slaqd.report.record import JobTrace, Run

KINDS = ("logistic", "svm", "mlp", "boosting", "k-means", "lda", "linear", "sgd")
CAPACITY = 84
UNIT_CORES = 0.02


class Training:
    """One job of the model."""

    def __init__(self, number: int, rng: random.Random, window: float) -> None:
        self.kind = KINDS[number % len(KINDS)]
        self.name = f"{self.kind}-{number:02d}"
        self.arrived = round(rng.uniform(0, window), 2) if number else 0.0
        self.high, self.low = rng.uniform(0.7, 3.0), rng.uniform(0.05, 0.4)
        self.rate, self.cost = rng.uniform(0.01, 0.06), rng.uniform(0.02, 0.05)
        self.cpu, self.done, self.ended = 0.0, 0, None
        self.times: list[float] = []
        self.losses: list[float] = []
        self.units: list[tuple[float, float]] = []

    def loss(self, iteration: float) -> float:
        return self.low + (self.high - self.low) / (1 + self.rate * iteration) ** 1.6

    def fall(self, units: int) -> float:
        after = self.done + units * UNIT_CORES / self.cost
        return (self.loss(self.done) - self.loss(after)) / (self.high - self.low)

    def work(self, start: float, units: int) -> None:
        self.units.append((start, units))
        self.cpu += units * UNIT_CORES
        while self.ended is None and (self.done + 1) * self.cost <= self.cpu:
            self.done += 1
            spent = (self.cpu - self.done * self.cost) / max(1e-9, units * UNIT_CORES)
            self.times.append(start + 1 - spent)
            self.losses.append(self.loss(self.done - 1))
            if self.loss(self.done - 1) - self.loss(self.done) < 1e-4 * self.high:
                self.ended = self.times[-1]

    def trace(self) -> JobTrace:
        held = sum(units for _, units in self.units)
        cpu = held * UNIT_CORES * (0.97 + 0.002 * len(self.name))
        return JobTrace(
            self.name, self.kind, self.arrived, self.ended, self.times, self.losses,
            [*self.units, (self.ended or 0.0, 0)], float(held), cpu, 0.15,
        )  # fmt: skip


def evenly(active: list[Training]) -> dict[str, int]:
    share, rest = divmod(CAPACITY, len(active))
    return {job.name: min(50, share + (i < rest)) for i, job in enumerate(active)}


def greedily(active: list[Training]) -> dict[str, int]:
    given = {job.name: 1 for job in active}
    for _ in range(CAPACITY - len(active)):
        best = max(active, key=lambda job: job.fall(given[job.name] + 1) - job.fall(given[job.name]))
        given[best.name] += given[best.name] < 50
    return given


def run(
    policy: str, split: Callable[[list[Training]], dict[str, int]], *, jobs: int, seed: int, window: float
) -> Run:
    rng = random.Random(seed)  # noqa: S311 - a model, not a secret
    trainings = [Training(number, rng, window) for number in range(jobs)]
    now = 0.0
    while any(job.ended is None for job in trainings):
        active = [job for job in trainings if job.arrived <= now and job.ended is None]
        given = split(active) if active else {}
        for job in active:
            job.work(now, given[job.name])
        now += 1.0
    need = sum(job.cpu for job in trainings) / (CAPACITY * UNIT_CORES * window)
    capacity = [(0.0, CAPACITY), (now * 0.4, CAPACITY - 6), (now * 0.6, CAPACITY)]
    traces = [job.trace() for job in trainings]
    return Run(policy, 1e9, 1e9 + now, window, UNIT_CORES, capacity, need, traces)


def runs(*, jobs: int = 24, seed: int = 1, window: float = 40.0) -> Mapping[str, Run]:
    """Record the model's two runs over the same arrivals."""
    return {
        "fair": run("fair", evenly, jobs=jobs, seed=seed, window=window),
        "slaq": run("slaq", greedily, jobs=jobs, seed=seed, window=window),
    }
