"""Which column is taken, and when the user is asked."""

from __future__ import annotations

import pytest

from slaqd.observe.detect import MOST_NAMES, Columns
from slaqd.observe.names import gain_rank, loss_rank, matches


def columns(*rows: dict[str, object]) -> Columns:
    found = Columns(loss_rank)
    for row in rows:
        found.look([row])
    return found


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("total_loss", "loss"),
        ("loss", "train_loss"),
        ("train_loss_step", "train_loss_epoch"),
        ("train/loss", "val/loss"),
        ("metrics.loss", "metrics.eval.loss"),
        ("loss", "loss_cls"),
        ("loss", "avg_loss"),
        ("val_loss", "test_loss"),
        ("val_loss", "train/box_loss"),
        ("Logloss", "error"),
        ("trainLoss", "valLoss"),
        ("train-rmse", "eval-rmse"),
        ("cross_entropy", "mae"),
    ],
)
def test_the_better_name_wins_in_either_order(better: str, worse: str) -> None:
    assert columns({better: 1.0, worse: 1.0}).loss == better
    assert columns({worse: 1.0, better: 1.0}).loss == better


@pytest.mark.parametrize(
    "name",
    [
        "accuracy",
        "rollout/ep_rew_mean",
        "auc",
        "R2",
        "metrics/accuracy_top1",
        "loss_scale",
        "best_loss",
        "lr",
        "gloss",
    ],
)
def test_what_rises_or_only_speaks_of_the_loss_is_never_taken(name: str) -> None:
    assert loss_rank(name) is None
    assert columns({"step": 1, name: 0.5}).loss is None


def test_equally_good_names_are_all_named_in_the_logs_order() -> None:
    found = columns({"train/value_loss": 1, "train/policy_loss": 1, "train/entropy_loss": 1})
    assert found.loss is None
    assert found.candidates == ["train/value_loss", "train/policy_loss", "train/entropy_loss"]


def test_a_column_counts_only_once_it_has_had_a_number() -> None:
    found = columns({"train_loss": "", "val_loss": "0.5"})
    assert found.loss == "val_loss"
    found.look([{"train_loss": "0.6", "val_loss": ""}])
    assert found.loss == "train_loss"


def test_the_step_is_looked_for_beside_the_loss_alone() -> None:
    """In mmengine's logs validation rows count epochs under the name ``step``."""
    found = columns({"step": 4, "acc": 0.9}, {"iter": 10, "loss": 1.0, "epoch": 1})
    assert (found.step, found.epoch) == ("iter", "epoch")


def test_the_finest_count_and_the_best_clock_are_taken() -> None:
    row = {
        "epoch": 1,
        "time/total_timesteps": 250,
        "time/iterations": 50,
        "time": 0.1,
        "ts": 1.0,
        "loss": 1.0,
    }
    found = columns(row)
    assert found.step == "time/total_timesteps"
    assert found.clocks == ["ts", "time"]


def test_a_key_is_found_exactly_then_without_case_then_by_its_last_part() -> None:
    assert matches("loss", "loss") == 0
    assert matches("Loss", "loss") == 1
    assert matches("loss", "metrics.loss") == matches("loss", "train/loss") == 2
    assert matches("loss", "val_loss") is None


def test_numbers_that_are_meant_to_rise_are_found_when_asked_for() -> None:
    found = Columns(gain_rank)
    found.look([{"loss": 1.0, "val_acc": 0.5, "acc": 0.6}])
    assert found.loss == "acc"


def test_a_log_that_keeps_inventing_names_does_not_fill_the_memory() -> None:
    found = Columns(loss_rank)
    for number in range(3 * MOST_NAMES):
        found.look([{f"name{number}": 1}])
        found.look([{f"count{number}": 1, "loss": 1}])
    assert len(found.numeric) <= MOST_NAMES
    assert found.loss == "loss"
