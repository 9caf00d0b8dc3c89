"""The ordinary stopping rule: end when the loss no longer falls by ``tol``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec


class Stop(msgspec.Struct, frozen=True):
    """When a training ends.

    It ends after ``patience`` logged iterations in a row that did not lower the
    best loss so far by more than ``tol`` (absolute, in the loss's own unit), as
    scikit-learn's ``tol`` and ``n_iter_no_change`` do, or after ``most`` logged iterations.
    """

    tol: float
    patience: int = 5
    most: int = 1000


def train(first: float, step: Callable[[], float], stop: Stop) -> Iterator[float]:
    """Yield the loss at the start, then after each logged iteration, until ``stop`` says so.

    Parameters
    ----------
    first
        Loss on the fixed set before any training.
    step
        Trains for one logged iteration and returns the loss on the fixed set.
    stop
        The rule that ends the training.
    """
    yield first
    best, still = first, 0
    for _ in range(stop.most):
        loss = step()
        yield loss
        still = still + 1 if loss > best - stop.tol else 0
        best = min(best, loss)
        if still >= stop.patience:
            return
