"""Logs of real frameworks, point by point against the values that the trainings held in memory."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from slaqd.observe import read_log
from slaqd.types import Health, Tag

ROOT = Path(__file__).parents[3]
LOGS = ROOT / "tests" / "data" / "logs"
WHOLE = ROOT.parent / "shared" / "logs"
"""The whole corpus, where a checkout has it beside it; LOGS are copies of some of it."""

NAMES = sorted(path.name.removesuffix(".expected.json") for path in LOGS.glob("*.expected.json"))
DIVERGED = {"metrics_nan.json", "keras_iris_nan.csv"}
ASKS = {"progress.csv"}


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((LOGS / f"{name}.expected.json").read_text())
    return found


def points(of: dict[str, Any], key: str) -> list[tuple[float, float]]:
    pairs = [(float(step), float(loss)) for step, loss in of["series"][key]["points"]]
    return [pair for pair in pairs if math.isfinite(pair[1])]


def test_the_corpus_is_there() -> None:
    assert len(NAMES) == 12


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ASKS])
def test_the_default_curve_is_the_expected_one(name: str) -> None:
    of = expected(name)
    curve = read_log(str(LOGS / name))
    assert list(zip(curve.steps, curve.losses, strict=True)) == points(of, of["loss_key"])
    assert curve.health is (Health.DIVERGED if name in DIVERGED else Health.OK)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["loss_key", "eval_loss_key"])
def test_the_curve_of_a_key_is_the_expected_one(name: str, which: str) -> None:
    of = expected(name)
    if of[which] is None:
        assert which == "eval_loss_key"
        return
    curve = read_log(str(LOGS / name), Tag(key=of[which]))
    assert list(zip(curve.steps, curve.losses, strict=True)) == points(of, of[which])


def test_a_log_of_several_losses_asks_which_is_meant() -> None:
    """Stable-baselines3 logs three parts and no whole: none of them is the objective."""
    curve = read_log(str(LOGS / "progress.csv"))
    assert curve.health is Health.AMBIGUOUS
    assert not curve.steps
    for name in ("key=", "train/value_loss", "train/policy_loss", "train/entropy_loss"):
        assert name in curve.note


def test_clocks_are_read_and_durations_are_not() -> None:
    assert list(read_log(str(LOGS / "metrics.jsonl")).seconds[:2]) == [1772424000.0, 1772424001.5]
    assert list(read_log(str(LOGS / "verlauf.csv")).seconds[:2]) == [0.0, 0.25]
    for name in ("scalars.json", "metrics_nan.json"):
        assert all(math.isnan(second) for second in read_log(str(LOGS / name)).seconds)


def test_no_log_of_another_format_is_mistaken_for_one_of_ours() -> None:
    """Runs over the whole corpus where a checkout has it, else over the copies."""
    own = set(NAMES)
    for path in sorted((WHOLE if WHOLE.is_dir() else LOGS).iterdir()):
        if path.name in own or path.name.endswith((".expected.json", ".md")):
            continue
        curve = read_log(str(path))
        assert curve.health in {Health.UNKNOWN_FORMAT, Health.EMPTY}, path.name
        assert str(path) in curve.note
