"""Jobs go back to the cgroups they came from, and are not taken out of limits they are under."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_world import BUSY, LocalWorld, until, usable_means
from slaqd_local import hierarchy
from slaqd_local.hierarchy import UNIFIED

from slaqd.types import JobKey, Restore

pytestmark = pytest.mark.service

NAME = f"slaqd-origin-{os.getpid()}"


class Origin:
    """A group of the job's own, where the machine lets one be made; else the job stays where it is."""

    def __init__(self) -> None:
        self.directory: Path | None = None
        self.limit = ""
        for controller, limit in ((UNIFIED, "cpu.max"), ("cpu", "cpu.cfs_quota_us")):
            tree = hierarchy.find(controller)
            top = tree.writable() if tree is not None else None
            if top is not None and any(top.glob("cpu.*")):
                self.directory, self.limit = top / NAME, limit
        if self.directory is not None:
            self.directory.mkdir()

    def take(self, key: JobKey) -> None:
        if self.directory is not None:
            (self.directory / "cgroup.procs").write_text(key.id)

    def limit_to_half_a_core(self) -> None:
        if self.directory is not None and (self.directory / self.limit).exists():
            (self.directory / self.limit).write_text("50000")

    def remove(self) -> None:
        directory = self.directory
        if directory is not None:
            until(lambda: not (directory / "cgroup.procs").read_text())
            directory.rmdir()


@pytest.fixture
def origin() -> Iterator[Origin]:
    origin = Origin()
    yield origin
    origin.remove()


@pytest.fixture
def world(means: str, origin: Origin) -> Iterator[LocalWorld]:
    del origin  # it has to outlive the jobs
    world = LocalWorld(means)
    yield world
    world.close()


def groups(key: JobKey) -> str:
    return Path(f"/proc/{key.id}/cgroup").read_text()


@pytest.mark.parametrize("means", usable_means())
def test_a_restored_job_is_where_it_came_from(world: LocalWorld, origin: Origin, means: str) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    origin.take(key)
    before = groups(key)
    world.adopt(adapter, key, 1)
    assert (groups(key) == before) is (means == "keeper")
    world.adopt(adapter, key, 2)
    adapter.close(restore=False)
    world.adapter().apply([Restore("r", key, "")], world.deadline())
    assert groups(key) == before


@pytest.mark.parametrize("means", ["auto"])
def test_a_limit_that_was_there_before_is_not_escaped(world: LocalWorld, origin: Origin) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    origin.take(key)
    origin.limit_to_half_a_core()
    before = groups(key)
    world.adopt(adapter, key, 1)
    if origin.directory is not None:
        assert groups(key) == before
    assert world.job(adapter, key).target == 1
