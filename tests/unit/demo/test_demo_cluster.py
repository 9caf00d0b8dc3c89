"""What the demo makes of its trainings' ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slaqd.demo.cluster import DemoError, Nursery

PATIENCE_S = 60.0


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path, None)
    yield made
    made.stop()


def order(folder: Path, size: float) -> dict[str, object]:
    return {"name": "a", "kind": "linear", "seed": 1, "size": size, "log": str(folder / "a.jsonl")}


def until(good: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not good():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)


def test_a_training_that_fails_fails_the_demo_with_its_name(nursery: Nursery, tmp_path: Path) -> None:
    nursery.submit(order(tmp_path, -1.0))

    def ended() -> bool:
        nursery.news()
        return False

    with pytest.raises(DemoError, match=f"training a ended with 1; see {tmp_path}/nursery.log"):
        until(ended)


def test_trainings_that_are_ended_with_the_demo_are_no_failure(tmp_path: Path) -> None:
    nursery = Nursery(tmp_path, None)
    nursery.submit(order(tmp_path, 1.0))

    def started() -> bool:
        nursery.news()
        return "a" in nursery.starts

    until(started)
    nursery.stop()
    nursery.news_after_end()
    assert nursery.ends["a"]["exit"] == -9
