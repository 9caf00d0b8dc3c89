"""Every kind of training learns, repeats itself, and ends by its own rule."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from math import isfinite

import numpy as np
import pytest

from slaqd.demo.boosting import BINS, DEPTH, split, tree
from slaqd.demo.network import Network
from slaqd.demo.stopping import Stop, train
from slaqd.demo.trainings import TRAININGS, begin

TINY = 0.05

each_kind = pytest.mark.parametrize("kind", list(TRAININGS))


@each_kind
def test_each_kind_lowers_its_loss_from_the_first_iterations_on(kind: str) -> None:
    losses = list(islice(begin(kind, 1, TINY), 12))
    assert all(isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0]
    assert min(losses[1:]) < losses[0]


@each_kind
def test_the_same_seed_gives_the_same_losses_and_another_gives_others(kind: str) -> None:
    first, again, other = (list(islice(begin(kind, seed, TINY), 4)) for seed in (5, 5, 6))
    assert first == again
    assert first[1:] != other[1:]


@each_kind
def test_nothing_is_computed_before_the_first_loss_is_asked_for(kind: str) -> None:
    rng = np.random.default_rng(3)
    before = rng.bit_generator.state
    TRAININGS[kind](rng, TINY)
    assert rng.bit_generator.state == before


@each_kind
def test_each_kind_ends_by_its_rule_and_not_before(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[Stop] = []

    def coarse(tol: float, patience: int = 5) -> Stop:
        rules.append(Stop(tol=300 * tol, patience=patience))
        return rules[-1]

    monkeypatch.setattr(sys.modules[TRAININGS[kind].__module__], "Stop", coarse)
    losses = list(begin(kind, 1, TINY))
    (rule,) = rules
    gains = [min(losses[:i]) - losses[i] > rule.tol for i in range(1, len(losses))]
    assert len(losses) <= rule.most
    assert not any(gains[-rule.patience :])
    assert gains[-rule.patience - 1 : -rule.patience] in ([True], [])


@pytest.mark.parametrize(
    "kind", ["logistic", "svm", "linear", "lasso", "lda", "factors", "mixture", "boosting"]
)
def test_methods_that_descend_at_each_step_never_rise(kind: str) -> None:
    losses = np.array(list(islice(begin(kind, 2, TINY), 40)))
    assert (np.diff(losses) <= 1e-9).all()


@pytest.mark.parametrize(("kind", "loss"), [("logistic", np.log(2.0)), ("sgd", np.log(2.0)), ("svm", 1.0)])
def test_a_classifier_that_knows_nothing_has_the_loss_of_a_coin(kind: str, loss: float) -> None:
    assert next(begin(kind, 1, TINY)) == pytest.approx(loss)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no training is called 'magic'; there are logistic"):
        begin("magic", 1, TINY)


def _steps(losses: Iterator[float], stop: Stop) -> list[float]:
    return list(train(1.0, lambda: next(losses), stop))


def test_training_ends_after_patience_iterations_without_gain() -> None:
    losses = iter([0.5, 0.4, 0.3995, 0.3994, 0.1, 0.1])
    assert _steps(losses, Stop(tol=0.01, patience=2)) == [1.0, 0.5, 0.4, 0.3995, 0.3994]


def test_a_gain_in_between_starts_the_patience_again() -> None:
    losses = iter([0.5, 0.5, 0.4, 0.4, 0.4, 0.1])
    assert _steps(losses, Stop(tol=0.01, patience=2)) == [1.0, 0.5, 0.5, 0.4, 0.4, 0.4]


def test_training_ends_at_the_far_bound() -> None:
    losses = iter([0.5, 0.4, 0.3])
    assert _steps(losses, Stop(tol=0.0, most=2)) == [1.0, 0.5, 0.4]


def test_the_networks_gradient_is_that_of_its_loss() -> None:
    rng = np.random.default_rng(0)
    net, x, y = Network(rng, 3), rng.standard_normal((7, 3)), rng.standard_normal(7)
    gradient = net.gradient(x, y)
    for i in range(0, len(net.flat), 17):
        kept = net.flat[i]
        net.flat[i] = kept + 1e-6
        above = net.loss(x, y)
        net.flat[i] = kept - 1e-6
        below = net.loss(x, y)
        net.flat[i] = kept
        assert (above - below) / 2e-6 == pytest.approx(gradient[i], abs=1e-7)


def test_a_split_goes_where_the_target_jumps() -> None:
    rng = np.random.default_rng(0)
    binned = rng.integers(BINS, size=(3, 500))
    residual = np.where(binned[1] > 11, 1.0, -1.0)
    assert split(binned, np.zeros(500, dtype=np.intp), residual, 1).tolist() == [[1, 11]]


def test_a_tree_gives_each_leaf_the_mean_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    binned, residual = rng.integers(BINS, size=(2, 400)), rng.standard_normal(400)
    output = tree(binned, residual)
    assert len(np.unique(output)) <= 2**DEPTH
    for value in np.unique(output):
        assert residual[output == value].mean() == pytest.approx(value)
