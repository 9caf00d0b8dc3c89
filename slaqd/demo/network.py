"""A neural network with one hidden layer, trained with Adam."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slaqd.demo.data import Array, features
from slaqd.demo.stopping import Stop, train

HIDDEN = 48


class Network:
    """Regression network: tanh layer, then a linear one; all weights in one vector."""

    def __init__(self, rng: np.random.Generator, inputs: int) -> None:
        self.flat = np.concatenate(
            [
                (rng.standard_normal((inputs, HIDDEN)) / np.sqrt(inputs)).ravel(),
                np.zeros(HIDDEN),
                rng.standard_normal(HIDDEN) * 0.3 / np.sqrt(HIDDEN),
            ]
        )
        cut = inputs * HIDDEN
        self.w = self.flat[:cut].reshape(inputs, HIDDEN)
        self.b = self.flat[cut : cut + HIDDEN]
        self.v = self.flat[cut + HIDDEN :]
        self.mean, self.square, self.steps = np.zeros_like(self.flat), np.zeros_like(self.flat), 0

    def loss(self, x: Array, y: Array) -> float:
        """Compute half the mean squared error."""
        return float(np.square(np.tanh(x @ self.w + self.b) @ self.v - y).mean() / 2)

    def gradient(self, x: Array, y: Array) -> Array:
        """Compute the gradient of `loss` by back-propagation."""
        h = np.tanh(x @ self.w + self.b)
        off = (h @ self.v - y) / len(y)
        back = (off[:, None] * self.v) * (1.0 - h * h)
        return np.concatenate([(x.T @ back).ravel(), back.sum(0), off @ h])

    def adam(self, gradient: Array, rate: float) -> None:
        """Take one step of Adam (Kingma and Ba 2015, algorithm 1)."""
        self.steps += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient * gradient - self.square)
        mean, square = self.mean / (1 - 0.9**self.steps), self.square / (1 - 0.999**self.steps)
        self.flat -= rate * mean / (np.sqrt(square) + 1e-8)


def mlp(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Fit a network to the output of another, by Adam on mini-batches; the loss is the whole set's."""
    x = features(rng, int(7000 * size), 20, 0.8) * 2
    y = np.tanh(x @ rng.standard_normal((20, 12)) * 1.5) @ rng.standard_normal(12)
    y = y / y.std() + 0.2 * rng.standard_normal(len(x))
    net, batch = Network(rng, x.shape[1]), 200

    def step() -> float:
        for _ in range(6):
            order = rng.permutation(len(y))
            for at in range(0, len(y) - batch + 1, batch):
                rows = order[at : at + batch]
                net.adam(net.gradient(x[rows], y[rows]), 1e-4)
        return net.loss(x, y)

    yield from train(net.loss(x, y), step, Stop(tol=2e-5, patience=10))
