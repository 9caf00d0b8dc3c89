"""Linear models: gradient descent, mini-batch SGD, proximal gradient."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slaqd.demo.data import Array, classes, regression
from slaqd.demo.stopping import Stop, train


def softplus(z: Array) -> Array:
    """Compute log(1 + exp(z)) without overflow."""
    out: Array = np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))
    return out


def logistic(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Logistic regression with a small L2 penalty by gradient descent; the loss is the mean log loss."""
    x, y = classes(rng, int(3600 * size), 64, decay=1.7, tilt=0.5, noise=0.5)
    w, l2 = np.zeros(x.shape[1]), 1e-4

    def step() -> float:
        nonlocal w
        for _ in range(200):
            pull = y / (1.0 + np.exp(y * (x @ w)))
            w = w + 0.15 * (pull @ x / len(y) - l2 * w)
        return float(softplus(-y * (x @ w)).mean() + l2 / 2 * (w @ w))

    yield from train(float(np.log(2.0)), step, Stop(tol=1e-5))


def sgd(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Logistic regression by mini-batch SGD with a falling rate; the loss is that of the whole set."""
    x, y = classes(rng, int(6000 * size), 64, decay=1.2, tilt=0.5, noise=0.7)
    w, batch, done = np.zeros(x.shape[1]), 64, 0

    def step() -> float:
        nonlocal w, done
        for _ in range(22):
            order = rng.permutation(len(y))
            for at in range(0, len(y) - batch + 1, batch):
                rows = order[at : at + batch]
                xs, ys = x[rows], y[rows]
                rate = 0.01 / (1.0 + 1e-5 * done) ** 0.5
                w += rate / batch * ((ys / (1.0 + np.exp(ys * (xs @ w)))) @ xs)
                done += 1
        return float(softplus(-y * (x @ w)).mean())

    yield from train(float(np.log(2.0)), step, Stop(tol=1e-5))


def svm(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Linear SVM with squared hinge loss and L2 penalty by gradient descent."""
    x, y = classes(rng, int(4000 * size), 64, decay=1.7, tilt=0.5, noise=0.5)
    w, l2 = np.zeros(x.shape[1]), 1e-4

    def step() -> float:
        nonlocal w
        for _ in range(180):
            short = np.maximum(0.0, 1.0 - y * (x @ w))
            w = w + 0.03 * (2 * (short * y) @ x / len(y) - l2 * w)
        return float(np.square(np.maximum(0.0, 1.0 - y * (x @ w))).mean() + l2 / 2 * (w @ w))

    yield from train(1.0, step, Stop(tol=1e-5))


def linear(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Linear regression by gradient descent; the loss is half the mean squared error."""
    x, y = regression(rng, int(4000 * size), 64, decay=1.75, tilt=0.4, noise=0.3)
    w = np.zeros(x.shape[1])

    def step() -> float:
        nonlocal w
        for _ in range(200):
            w = w - 0.05 * ((x @ w - y) @ x) / len(y)
        return float(np.square(x @ w - y).mean() / 2)

    yield from train(float(np.square(y).mean() / 2), step, Stop(tol=1e-5))


def lasso(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Lasso by proximal gradient (ISTA); the loss is half the mean squared error plus the L1 penalty."""
    x, y = regression(rng, int(4000 * size), 64, decay=1.8, tilt=0.5, noise=0.5)
    w, l1 = np.zeros(x.shape[1]), 1e-4

    def step() -> float:
        nonlocal w
        for _ in range(200):
            w = w - 0.05 * ((x @ w - y) @ x) / len(y)
            w = np.sign(w) * np.maximum(np.abs(w) - 0.05 * l1, 0.0)
        return float(np.square(x @ w - y).mean() / 2 + l1 * np.abs(w).sum())

    yield from train(float(np.square(y).mean() / 2), step, Stop(tol=1e-5))
