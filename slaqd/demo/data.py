"""Data sets made from a seed: small, quick to make, as hard as real ones.

Features come with a power-law spectrum, as measured data mostly do: a few
strong directions, which any method learns at once, and many weak ones, which
take long. That is where the long tails of real trainings come from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def features(rng: np.random.Generator, rows: int, columns: int, decay: float) -> Array:
    """Draw ``rows`` by ``columns`` normal features whose variances fall as ``i**-decay``."""
    scale = np.arange(1, columns + 1) ** (-decay / 2)
    drawn: Array = rng.standard_normal((rows, columns)) * scale
    return drawn


def linear_signal(rng: np.random.Generator, x: Array, decay: float, tilt: float) -> Array:
    """Mix the features into one signal of unit variance.

    Direction ``i`` adds variance in proportion to ``i**-tilt``, whatever its own variance ``i**-decay`` is.
    """
    size = np.arange(1, x.shape[1] + 1) ** ((decay - tilt) / 2)
    signal: Array = x @ (size * rng.choice([-1.0, 1.0], x.shape[1]) * rng.uniform(0.5, 1.5, x.shape[1]))
    signal /= signal.std()
    return signal


def regression(
    rng: np.random.Generator, rows: int, columns: int, *, decay: float, tilt: float, noise: float
) -> tuple[Array, Array]:
    """Make features (rows, columns) and a target (rows,) of unit variance plus noise."""
    x = features(rng, rows, columns, decay)
    return x, linear_signal(rng, x, decay, tilt) + noise * rng.standard_normal(rows)


def classes(
    rng: np.random.Generator, rows: int, columns: int, *, decay: float, tilt: float, noise: float
) -> tuple[Array, Array]:
    """Make features (rows, columns) and labels (rows,), each -1 or 1."""
    x, score = regression(rng, rows, columns, decay=decay, tilt=tilt, noise=noise)
    return x, np.where(score > 0, 1.0, -1.0)
