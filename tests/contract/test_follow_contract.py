"""The contract of adapters holds with the lever ``file`` put round one, and for jobs that follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from following import Following

from slaqd.act import FollowFiles
from slaqd.testing import AdapterContract, World
from slaqd.types import Accepted, Adopt, JobKey, Lever, Restore, SetUnits, State


class FileWorld:
    """Jobs that follow at once and answer truly, or such that the adapter itself leads."""

    def __init__(self, folder: Path, *, lever: Lever) -> None:
        self.following = Following(folder)
        self.clock = self.following.clock
        self.lever = lever
        self.following.user.after_put = lambda path: self.following.answer(number=_number(path))
        self._count = 0

    def adapter(self) -> FollowFiles:
        return self.following.again()

    def start(self, *, waits: bool = False, lever: Lever | None = None) -> JobKey:
        self._count += 1
        return self.following.start(self._count, waits=waits, max=3, lever=lever or self.lever)

    def adopt_again(self, key: JobKey, lever: Lever) -> None:
        self.following.adopt_again(int(key.id), lever=lever)

    def end(self, key: JobKey) -> None:
        self.following.manager.ended.add(key)


def _number(path: str) -> int:
    return int(Path(path).parent.name.removeprefix("ctl-"))


class TestRoundAFake(AdapterContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> FileWorld:
        return FileWorld(tmp_path, lever=Lever.CPUS)


class TestOfFollowingJobs(AdapterContract):
    """The same for jobs with the lever ``file``, but for what is another lever's."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> FileWorld:
        return FileWorld(tmp_path, lever=Lever.FILE)

    def test_a_restored_job_is_held_to_nothing_until_it_is_adopted_again(self, world: World) -> None:
        """Say the same without the lever's name."""
        adapter, key = world.adapter(), world.start()
        deadline = world.clock.monotonic() + 30
        adapter.snapshot(deadline)
        adapter.apply([Adopt("a", key, "fake-1", 2)], deadline)
        for _ in range(2):
            assert list(adapter.apply([Restore("r", key, "fake-1")], deadline)) == [Accepted()]
        assert adapter.snapshot(deadline).jobs[0].target is None
        assert list(adapter.apply([Adopt("b", key, "fake-1", 3)], deadline)) == [Accepted()]
        assert adapter.snapshot(deadline).jobs[0].held == 3

    def test_a_graceful_stop_lets_jobs_run_and_they_can_be_adopted_again(self, world: World) -> None:
        """Here the last target stays."""
        old, key = world.adapter(), world.start()
        deadline = world.clock.monotonic() + 30
        old.apply([Adopt("a", key, "fake-1", 2)], deadline)
        old.close(restore=True)
        new = world.adapter()
        (job,) = new.snapshot(deadline).jobs
        assert (job.state, job.held, job.target) == (State.RUNNING, 2, 2)
        assert list(new.apply([SetUnits("b", key, "fake-1", 3)], deadline)) == [Accepted()]
        assert new.snapshot(deadline).jobs[0].held == 3

    def test_a_held_job_that_has_no_lever_any_more_is_shown_held_until_it_is_restored(
        self, world: World
    ) -> None:
        """Here nothing held it: its last target stays, and counts for nothing."""
        adapter, key = world.adapter(), world.start()
        deadline = world.clock.monotonic() + 30
        adapter.snapshot(deadline)
        adapter.apply([Adopt("a", key, "fake-1", 2)], deadline)
        world.adopt_again(key, Lever.NONE)
        (job,) = adapter.snapshot(deadline).jobs
        assert (job.lever, job.held, job.target) == (Lever.NONE, 0, None)
        world.adopt_again(key, Lever.CPUS)
        assert list(adapter.apply([Adopt("b", key, "fake-1", 3)], deadline)) == [Accepted()]
        (job,) = adapter.snapshot(deadline).jobs
        assert (job.lever, job.held, job.target) == (Lever.CPUS, 3, 3)
