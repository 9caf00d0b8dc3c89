"""The registry of trainings: every kind is a real algorithm on data made from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from slaqd.demo.boosting import boosting
from slaqd.demo.groups import kmeans, mixture
from slaqd.demo.linear import lasso, linear, logistic, sgd, svm
from slaqd.demo.network import mlp
from slaqd.demo.topics import factors, lda

Training = Callable[[np.random.Generator, float], Iterator[float]]
"""Takes a random generator and a size (1 is ordinary); yields the loss on a fixed set,
first at the start, then once per logged iteration, and ends by its own rule."""

TRAININGS: Mapping[str, Training] = {
    "logistic": logistic,
    "sgd": sgd,
    "svm": svm,
    "linear": linear,
    "lasso": lasso,
    "mlp": mlp,
    "boosting": boosting,
    "kmeans": kmeans,
    "lda": lda,
    "factors": factors,
    "mixture": mixture,
}


def begin(kind: str, seed: int, size: float) -> Iterator[float]:
    """Give the losses of the training ``kind``; nothing is computed before the first is asked for.

    Raises
    ------
    ValueError
        No training is called so.
    """
    if kind not in TRAININGS:
        msg = f"no training is called {kind!r}; there are {', '.join(TRAININGS)}"
        raise ValueError(msg)
    return TRAININGS[kind](np.random.default_rng(seed), size)
