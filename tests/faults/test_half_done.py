"""What a kill between two calls leaves behind in the groups (cgroup v1), and what the next look makes of it.

`test_every_syscall` found each of these; here they stand by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from local_world import LocalWorld
from slaqd_local import processes
from slaqd_local.means import job_directory
from slaqd_local.notes import Notes

from slaqd.types import JobKey, Restore

pytestmark = [pytest.mark.fault, pytest.mark.service]

CGROUPS = Path("/sys/fs/cgroup")


@pytest.fixture
def world() -> Iterator[LocalWorld]:
    made = LocalWorld("cgroup1")
    yield made
    made.close()


def group(world: LocalWorld, key: JobKey, hierarchy: str = "cpu") -> Path:
    return CGROUPS / hierarchy / world.config.cgroup / job_directory(key)


def give_back(world: LocalWorld, key: JobKey) -> None:
    """Let a new slaqd give a job back."""
    action = Restore("r", key, processes.boot_id())
    outcomes = world.adapter().apply([action], world.deadline())
    assert [type(each).__name__ for each in outcomes] == ["Accepted"], outcomes


def test_a_process_that_was_moved_in_one_hierarchy_only_is_sent_back_to_where_it_came_from(
    world: LocalWorld,
) -> None:
    key = world.start()
    world.adopt(world.adapter(), key, 2)
    (CGROUPS / "cpuacct" / "cgroup.procs").write_text(key.id, encoding="ascii")
    world.adapter().snapshot(world.deadline())  # gathers it
    assert (group(world, key, "cpuacct") / "cgroup.procs").read_text(encoding="ascii").split() == [key.id]
    give_back(world, key)
    assert not group(world, key).exists()
    lines = Path(f"/proc/{key.id}/cgroup").read_text(encoding="ascii").splitlines()
    assert not [line for line in lines if world.config.cgroup in line]


def test_a_quota_without_its_burst_counts_as_none_and_is_set_anew(world: LocalWorld) -> None:
    key = world.start()
    world.adopt(world.adapter(), key, 2)
    burst = group(world, key) / "cpu.cfs_burst_us"
    whole = burst.read_text(encoding="ascii")
    burst.write_text("0", encoding="ascii")
    adapter = world.adapter()
    assert world.job(adapter, key).target is None
    world.adopt(adapter, key, 2)
    assert burst.read_text(encoding="ascii") == whole
    assert world.job(adapter, key).target == 2


def test_the_group_of_a_job_that_was_noted_as_ended_is_still_removed(world: LocalWorld) -> None:
    key = world.start()
    world.adopt(world.adapter(), key, 2)
    world.end(key)
    Notes(world.store, key)._set("ended", "1")
    assert group(world, key).exists()
    assert world.job(world.adapter(), key).state == "ended"
    assert not group(world, key).exists()
    assert not group(world, key, "cpuacct").exists()


@pytest.mark.parametrize("ends", [True, False])
def test_the_jobs_together_weigh_less_when_one_is_gone(world: LocalWorld, *, ends: bool) -> None:
    stays, goes = world.start(most=10), world.start(most=10)
    for key in (stays, goes):
        world.adopt(world.adapter(), key, 10)  # a core each, of two at least
    shares = group(world, stays).parent / "cpu.shares"
    assert shares.read_text(encoding="ascii") == "2048\n"
    if ends:
        world.end(goes)
        world.adapter().snapshot(world.deadline())
    else:
        give_back(world, goes)
    assert shares.read_text(encoding="ascii") == "1024\n"
