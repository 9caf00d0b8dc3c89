"""Gradient boosting of shallow trees on binned features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from slaqd.demo.data import Array
from slaqd.demo.stopping import Stop, train

BINS = 32
DEPTH = 3


def split(binned: NDArray[np.intp], node: NDArray[np.intp], residual: Array, nodes: int) -> NDArray[np.intp]:
    """Find, for each node, the feature and bin that lower the squared error most (histograms).

    ``binned`` is (features, rows). Returns (nodes, 2): the feature, and the last bin that goes left.
    """
    gains = np.empty((binned.shape[0], nodes, BINS))
    for i, column in enumerate(binned):
        place = node * BINS + column
        count = np.bincount(place, minlength=nodes * BINS).reshape(nodes, BINS).cumsum(1)
        total = np.bincount(place, residual, nodes * BINS).reshape(nodes, BINS).cumsum(1)
        right = np.maximum(count[:, -1:] - count, 1)
        gains[i] = total**2 / np.maximum(count, 1) + (total[:, -1:] - total) ** 2 / right
    best = gains.transpose(1, 0, 2).reshape(nodes, -1).argmax(1)
    return np.stack(np.divmod(best, BINS), 1)


def tree(binned: NDArray[np.intp], residual: Array) -> Array:
    """Grow one tree of depth `DEPTH` to the residual, and return its output for each row."""
    node = np.zeros(binned.shape[1], dtype=np.intp)
    for level in range(DEPTH):
        feature, last = split(binned, node, residual, 2**level).T
        node = 2 * node + (binned[feature[node], np.arange(len(node))] > last[node])
    count = np.bincount(node, minlength=2**DEPTH)
    output: Array = (np.bincount(node, residual, 2**DEPTH) / np.maximum(count, 1))[node]
    return output


def friedman(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    """Make Friedman's first regression problem (1991): ten features of which five matter."""
    x = rng.uniform(size=(rows, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, (y - y.mean()) / y.std() + 0.2 * rng.standard_normal(rows)


def boosting(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Gradient boosting for squared error (Friedman 2001, algorithm 2) with shrinkage."""
    x, y = friedman(rng, int(16000 * size))
    binned = np.ascontiguousarray((x.T * BINS).astype(np.intp))
    output = np.full(len(y), y.mean())

    def step() -> float:
        nonlocal output
        for _ in range(10):
            output = output + 0.01 * tree(binned, y - output)
        return float(np.square(y - output).mean() / 2)

    yield from train(float(np.square(y - output).mean() / 2), step, Stop(tol=1e-5))
