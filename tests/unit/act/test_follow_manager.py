"""What following leaves to the manager, and a job that ends while it is given back."""

from __future__ import annotations

from pathlib import Path

from following import Following

from slaqd.types import Accepted


def test_whose_a_job_is_and_what_is_found_wrong_the_manager_says(tmp_path: Path) -> None:
    world = Following(tmp_path)
    key = world.start()
    assert world.adapter.owner(key) == world.inner.owner(key)
    assert world.adapter.check() == world.inner.check()


def test_of_a_job_that_was_seen_to_end_nothing_new_is_noted_when_it_is_given_back(tmp_path: Path) -> None:
    world = Following(tmp_path)
    key = world.start()
    world.settle(3)
    world.manager.ended.add(key)
    world.job()
    noted = dict(world.store.notes(key))
    world.manager.ended.discard(key)  # it still takes the act, as a manager may that is about to forget it
    assert world.restore() == Accepted()
    assert world.store.notes(key) == noted
