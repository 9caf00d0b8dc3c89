"""A job that is adopted again with another lever is given back what it had, whatever held it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_world import BUSY, IDLE, LocalWorld, states, until, usable_means
from slaqd_local import Config, LocalAdapter, processes

from slaqd.testing import Oneself
from slaqd.types import Accepted, JobKey, Lever, Restore

pytestmark = pytest.mark.service

every_means = pytest.mark.parametrize("means", usable_means())
cgroups = pytest.mark.parametrize("means", [name for name in usable_means() if name != "keeper"])
others = pytest.mark.parametrize("said", [{"lever": Lever.NONE}, {"lever": Lever.FILE, "dir": "ctl"}])


@pytest.fixture
def world(means: str) -> Iterator[LocalWorld]:
    world = LocalWorld(means)
    yield world
    world.close()


def where(pid: int | str) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")


def released(world: LocalWorld, adapter: LocalAdapter, key: JobKey) -> None:
    """See that a job is shown as held, give it back, and see that it isn't any more."""
    assert world.job(adapter, key).target is not None
    restore = Restore("r", key, processes.boot_id())
    assert list(adapter.apply([restore], world.deadline())) == [Accepted()]
    assert world.job(adapter, key).target is None


@every_means
@others
def test_it_is_shown_held_as_it_was_until_it_is_given_back(
    world: LocalWorld, said: dict[str, object]
) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    before = where(key.id)
    world.adopt(adapter, key, 2)
    world.adopt_again(key, **said)  # type: ignore[arg-type]
    job = world.job(adapter, key)
    assert (job.lever, job.held, job.target, job.gap) == (said["lever"], 2, 2, None)
    released(world, adapter, key)
    until(lambda: states(int(key.id)) == "R")
    assert (where(key.id), adapter._holder.apart) == (before, frozenset())
    world.adopt_again(key, Lever.CPUS)
    world.adopt(adapter, key, 1)
    assert world.job(adapter, key).target == 1


@every_means
def test_the_next_slaqd_finds_what_is_to_be_given_back(world: LocalWorld) -> None:
    old, key = world.adapter(), world.start()
    before = where(key.id)
    world.adopt(old, key, 2)
    world.adopt_again(key, Lever.NONE)
    old.close(restore=False)
    released(world, world.adapter(), key)
    assert where(key.id) == before


@every_means
def test_what_was_lifted_already_is_given_back_too(world: LocalWorld) -> None:
    old, key = world.adapter(), world.start()
    before = where(key.id)
    world.adopt(old, key, 2)
    old.close(restore=True)
    world.adopt_again(key, Lever.NONE)
    released(world, world.adapter(), key)
    assert where(key.id) == before


@cgroups
def test_a_quota_of_units_of_another_size_is_given_back_too(world: LocalWorld, means: str) -> None:
    old, key = world.adapter(), world.start()
    before = where(key.id)
    world.adopt(old, key, 2)
    old.close(restore=False)
    world.adopt_again(key, Lever.NONE)
    config = Config(means=means, unit_milli=150, cgroup=world.config.cgroup)
    new = LocalAdapter(config, world.clock, world.store, Oneself())
    released(world, new, key)
    assert where(key.id) == before


@cgroups
def test_what_joins_it_meanwhile_is_not_touched(world: LocalWorld) -> None:
    adapter, idle = world.adapter(), [sys.executable, "-S", "-c", IDLE]
    leader = subprocess.Popen(idle, process_group=0)  # in our session, so that others can join it
    key = world.known(leader.pid)
    world.processes[key] = leader
    world.adopt(adapter, key, 2)
    world.adopt_again(key, Lever.NONE)
    with subprocess.Popen(idle, process_group=leader.pid) as late:
        before = where(late.pid)
        assert world.job(adapter, key).target == 2
        assert where(late.pid) == before
        late.kill()


@every_means
def test_it_is_no_job_that_was_given_back_by_request(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    world.adopt(adapter, key, 2)
    world.adopt_again(key, Lever.NONE)
    released(world, adapter, key)
    world.adopt_again(key, Lever.CPUS)
    until(lambda: world.job(adapter, key).held > 0)
