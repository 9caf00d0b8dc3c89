"""Jobs really get what they are held to: measured on real processes, by each means."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_world import (
    BUSY,
    CHILDREN,
    SHORT_CHILDREN,
    THREADS,
    LocalWorld,
    until,
    usable_means,
)

pytestmark = pytest.mark.service

WITHIN = 0.15


@pytest.fixture
def world(means: str) -> Iterator[LocalWorld]:
    world = LocalWorld(means, unit_milli=20)
    yield world
    world.close()


@pytest.mark.parametrize("means", usable_means())
def test_single_threaded_many_threaded_and_many_process_jobs_get_their_share(world: LocalWorld) -> None:
    adapter = world.adapter()
    programs = ((BUSY, 1), (BUSY, 5), (THREADS, 5), (CHILDREN, 5), (SHORT_CHILDREN, 5))
    keys = []
    for program, units in programs:
        key = world.start(program=program, most=50)
        world.adopt(adapter, key, units)
        keys.append(key)

    def all_are_near() -> bool:
        before = adapter.snapshot(world.deadline())
        world.clock.sleep(8)
        after = adapter.snapshot(world.deadline())
        seconds = after.taken_at - before.taken_at
        for old, new in zip(before.jobs, after.jobs, strict=True):
            used = (new.cpu_seconds or 0.0) - (old.cpu_seconds or 0.0)
            if abs(used / (new.held * 0.02 * seconds) - 1) > WITHIN:
                return False
        return True

    until(all_are_near)


@pytest.mark.parametrize("means", usable_means())
def test_a_changed_share_is_what_the_job_then_gets(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=THREADS, most=50)
    for units in (8, 2):
        world.adopt(adapter, key, units)
        until(lambda: abs(world.ratio(adapter, key, 5) - 1) < WITHIN)


@pytest.mark.parametrize("means", usable_means())
def test_a_job_that_leaves_its_share_unused_says_what_it_wants(world: LocalWorld) -> None:
    adapter = world.adapter()
    idle, busy = world.start(most=50), world.start(program=BUSY, most=50)
    world.adopt(adapter, idle, 5)
    world.adopt(adapter, busy, 2)

    def said() -> bool:
        world.clock.sleep(1)
        jobs = {job.key: job for job in adapter.snapshot(world.deadline()).jobs}
        return jobs[idle].wants == 1 and jobs[busy].wants is None

    until(said)


@pytest.mark.parametrize("means", ["auto"])
def test_what_other_processes_use_is_not_ours_to_give(world: LocalWorld) -> None:
    adapter = world.adapter()
    key = world.start(program=BUSY, most=50)
    first = adapter.snapshot(world.deadline())
    assert first.pools["local"]["cpu_milli"] > 0
    world.adopt(adapter, key, 5)
    stranger = world.start(program=BUSY)
    world.store.end(stranger)  # it runs on, and is none of slaqd's jobs

    def less() -> bool:
        world.clock.sleep(1)
        now = adapter.snapshot(world.deadline()).pools["local"]["cpu_milli"]
        return now < first.pools["local"]["cpu_milli"]

    until(less)
