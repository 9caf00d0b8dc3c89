"""Factor models of tables: topics of documents, and tastes of users."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slaqd.demo.data import Array
from slaqd.demo.stopping import Stop, train


def corpus(rng: np.random.Generator, documents: int, words: int, topics: int) -> Array:
    """Draw word counts (documents, words) from LDA's own model with ``topics`` topics."""
    topic = rng.gamma(0.3, size=(topics, words)) / np.arange(10, words + 10)
    share = rng.gamma(1.0, size=(documents, topics)) + 1e-6
    topic /= topic.sum(1, keepdims=True)
    share /= share.sum(1, keepdims=True)
    return rng.poisson(50.0 * (share @ topic)).astype(np.float64)


def lda(rng: np.random.Generator, size: float) -> Iterator[float]:
    """LDA by expectation maximisation of the posterior (Asuncion et al. 2009, section 2.3).

    The loss is the negative log likelihood per word, priors included.
    """
    topics, prior = 16, 0.01
    count = corpus(rng, int(1500 * size), 800, topics)
    share = rng.uniform(0.9, 1.1, (len(count), topics))
    topic = (count.sum(0) + 1.0) * rng.uniform(0.2, 1.8, (topics, count.shape[1]))
    share /= share.sum(1, keepdims=True)
    topic /= topic.sum(1, keepdims=True)
    words = count.sum()

    def loss() -> float:
        fit = (count * np.log(share @ topic)).sum() + prior * (np.log(share).sum() + np.log(topic).sum())
        return float(-fit / words)

    def step() -> float:
        nonlocal share, topic
        for _ in range(2):
            ratio = count / (share @ topic)
            share, topic = share * (ratio @ topic.T) + prior, topic * (share.T @ ratio) + prior
            share /= share.sum(1, keepdims=True)
            topic /= topic.sum(1, keepdims=True)
        return loss()

    yield from train(loss(), step, Stop(tol=2e-5))


def factors(rng: np.random.Generator, size: float) -> Iterator[float]:
    """Non-negative matrix factorisation by multiplicative updates (Lee and Seung 2001, theorem 1).

    The loss is the share of variance left.
    """
    rank = 24
    x = table(rng, int(2000 * size), 600, 30)
    u, v = (rng.uniform(0.1, 1.9, shape) / np.sqrt(rank) for shape in ((len(x), rank), (rank, x.shape[1])))
    total = np.square(x - 1.0).mean()

    def step() -> float:
        for _ in range(4):
            np.multiply(u, (x @ v.T) / (u @ (v @ v.T) + 1e-9), out=u)
            np.multiply(v, (u.T @ x) / ((u.T @ u) @ v + 1e-9), out=v)
        return float(np.square(x - u @ v).mean() / total)

    yield from train(float(np.square(x - u @ v).mean() / total), step, Stop(tol=3e-5))


def table(rng: np.random.Generator, rows: int, columns: int, rank: int) -> Array:
    """Mix ``rank`` non-negative patterns into rows, with a tenth of noise; each column has mean 1."""
    share = rng.gamma(0.5, size=(rows, rank))
    share /= share.sum(1, keepdims=True)
    x: Array = share @ rng.gamma(0.5, size=(rank, columns))
    x *= 1.0 + 0.1 * rng.uniform(-1.0, 1.0, x.shape)
    x /= x.mean(0)
    return x
