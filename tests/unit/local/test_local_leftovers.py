"""Groups that ended jobs left are found and removed, whoever left them; nobody else's are touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import KEY, HeldWorld
from slaqd_local import Config, leftovers
from slaqd_local.hands import LocalHands
from slaqd_local.requests import Sweep
from standing_kernel import BOBS, Kernel

from slaqd.types import Accepted, Adopt, JobKey, State


class World(HeldWorld):
    def hold(self) -> None:
        outcomes = self.adapter.apply([Adopt("a", KEY, "a-boot", 2)], self.clock.monotonic() + 1)
        assert list(outcomes) == [Accepted()]
        assert self.groups()

    def look(self) -> list[State]:
        return [job.state for job in self.adapter.snapshot(self.clock.monotonic() + 1).jobs]

    def groups(self) -> list[Path]:
        return sorted(self.kernel.at.glob("cgroup/**/slaqd*"))

    def make(self, name: str, controller: str | None = None) -> Path:
        """Make a group beside the jobs' in one hierarchy, the first if none is named."""
        point = (
            next(iter(self.kernel.mounts.values())) if controller is None else self.kernel.mounts[controller]
        )
        for folder in (point / "slaqd", point / "slaqd" / name):
            self.kernel._group(self.kernel._controller(folder), folder)
            folder.chmod(0o755)
        return point / "slaqd" / name


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kernel = Kernel(tmp_path, request.param)
    with kernel.stands():
        yield World(kernel)


def ends_while_the_agent_is_away(world: World) -> None:
    world.hold()
    world.agent.down = True
    world.kernel.end(101)
    assert world.look() == [State.ENDED]
    world.store.end(KEY)
    assert world.look() == []
    world.agent.down = False
    assert world.groups()


def test_what_a_job_left_that_ended_while_the_agent_was_away_a_new_slaqd_removes(world: World) -> None:
    ends_while_the_agent_is_away(world)
    world.again()
    assert world.look() == []
    assert world.groups() == []
    asked = len(world.agent.asked)
    world.look()
    assert len(world.agent.asked) == asked


def test_a_graceful_stop_removes_it(world: World) -> None:
    ends_while_the_agent_is_away(world)
    world.again().close(restore=True)
    assert world.groups() == []


def test_a_graceful_stop_removes_what_it_saw_end_and_could_not_remove_then(world: World) -> None:
    world.hold()
    world.agent.down = True
    world.kernel.end(101)
    assert world.look() == [State.ENDED]
    world.agent.down = False
    world.adapter.close(restore=True)
    assert world.groups() == []


def test_a_stop_that_may_change_nothing_leaves_it(world: World) -> None:
    ends_while_the_agent_is_away(world)
    left = world.groups()
    world.again().close(restore=False)
    assert world.groups() == left


def test_a_stop_without_the_agent_ends_all_the_same(world: World) -> None:
    ends_while_the_agent_is_away(world)
    world.agent.down = True
    world.again().close(restore=True)
    assert world.groups()


def test_an_agent_that_starts_removes_what_one_before_it_left(world: World) -> None:
    ends_while_the_agent_is_away(world)
    LocalHands(Config(), 1000)
    assert world.groups() == []


def test_an_agent_that_starts_leaves_what_is_held(world: World) -> None:
    world.hold()
    before = world.kernel.files()
    LocalHands(Config(), 1000)
    assert world.kernel.files() == before


def test_what_is_left_in_one_hierarchy_alone_is_removed_too(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, 1)
    with kernel.stands():
        world = World(kernel)
        world.make("job-7777-5", "cpuacct")
        world.look()
        assert world.groups() == []


@pytest.mark.parametrize(
    "name",
    ["job-7777", "job-7777-5x", "job-07777-5", "job-7777-05", "job-7777--5", "job-\u0667-5", "a-job-7-5"],
)
def test_a_group_whose_name_is_none_of_ours_is_left_alone(world: World, name: str) -> None:
    group = world.make(name)
    world.look()
    world.adapter.close(restore=True)
    LocalHands(Config(), 1000)
    assert group.is_dir()
    assert world.agent.asked == []


def test_a_group_with_a_process_in_it_is_left_alone_and_nobody_is_asked(world: World) -> None:
    group = world.make("job-7777-5")
    (group / "cgroup.procs").write_text("7000\n", encoding="ascii")
    world.look()
    LocalHands(Config(), 1000)
    assert group.is_dir()
    assert world.agent.asked == []


def test_an_empty_group_of_a_job_that_lives_is_left_alone(world: World) -> None:
    bob = world.make(f"job-{BOBS[0]}-7")
    again = world.make(f"job-{BOBS[1]}-8")  # its number is another process's now
    world.look()
    assert (bob.is_dir(), again.is_dir()) == (True, False)
    LocalHands(Config(), 1000)
    assert bob.is_dir()


def test_the_agent_removes_what_it_is_asked_for_and_no_more(world: World) -> None:
    one, other = world.make("job-7777-5"), world.make("job-7777-6")
    means = "cgroup1" if "cpu" in world.kernel.mounts else "cgroup2"
    world.agent.hands(Sweep(means, ((7777, 5), (101, 7))), type(None))
    assert (one.is_dir(), other.is_dir()) == (False, True)


@pytest.mark.parametrize("which", ["", "job-7777-5"], ids=["above", "itself"])
def test_the_agent_removes_no_group_that_another_user_may_write_to(world: World, which: str) -> None:
    group = world.make("job-7777-5")
    (group.parent / which).chmod(0o775)
    world.look()
    assert [type(each) for each in world.agent.asked] == [Sweep]
    LocalHands(Config(), 1000)
    assert group.is_dir()


def test_groups_of_known_jobs_cost_no_look_but_the_listing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hold()
    looked: list[JobKey] = []
    monkeypatch.setattr(leftovers, "_is_left", lambda _means, key: looked.append(key))
    world.look()
    assert looked == []
