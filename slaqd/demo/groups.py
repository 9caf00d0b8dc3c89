"""Clusters: k-means and a mixture of Gaussians."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from slaqd.demo.data import Array, features
from slaqd.demo.stopping import Stop, train


def kmeans(rng: np.random.Generator, size: float) -> Iterator[float]:
    """k-means by gradient descent (Bottou and Bengio 1995); the loss is the share of variance left."""
    x = features(rng, int(8000 * size), 8, 0.5)
    x -= x.mean(0)
    k, total = 40, np.square(x).sum()
    centre = 0.1 * rng.standard_normal((k, x.shape[1]))

    def nearest() -> tuple[NDArray[np.intp], float]:
        away = np.square(centre).sum(1) - 2 * x @ centre.T
        label = away.argmin(1)
        return label, float((away[np.arange(len(x)), label].sum() + total) / total)

    label, first = nearest()

    def step() -> float:
        nonlocal label
        for _ in range(16):
            count = np.bincount(label, minlength=k)
            for j, column in enumerate(x.T):
                centre[:, j] += 0.3 * (np.bincount(label, column, k) - count * centre[:, j]) / len(x)
            label, loss = nearest()
        return loss

    yield from train(first, step, Stop(tol=1e-5))


def mixture(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Mixture of diagonal Gaussians by EM; the loss is minus the mean log likelihood."""
    k, d = 32, 8
    true = rng.standard_normal((k, d)) * 0.6
    x = true[rng.integers(k, size=int(16000 * size))] + rng.standard_normal((int(16000 * size), d))
    mean, var, weight = (
        x[rng.choice(len(x), k, replace=False)] * 0.1,
        np.full((k, d), x.var()),
        np.full(k, 1 / k),
    )
    square = x * x

    def expect() -> tuple[Array, float]:
        score = square @ (-0.5 / var).T + x @ (mean / var).T
        score += np.log(weight) - 0.5 * (np.square(mean) / var + np.log(2 * np.pi * var)).sum(1)
        top = score.max(1, keepdims=True)
        part = np.exp(score - top)
        mass = part.sum(1, keepdims=True)
        return part / mass, float(-(top + np.log(mass)).mean())

    part, first = expect()

    def step() -> float:
        nonlocal mean, var, weight, part
        for _ in range(3):
            mass = part.sum(0) + 1e-9
            mean = part.T @ x / mass[:, None]
            var = np.maximum(part.T @ square / mass[:, None] - mean**2, 1e-3)
            weight = mass / len(x)
            part, loss = expect()
        return loss

    yield from train(first, step, Stop(tol=1e-5))
