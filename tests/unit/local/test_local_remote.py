"""An adapter that looks itself and has an agent write, whatever becomes of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from in_process import KEY, HeldWorld
from slaqd_local import Config, LocalAdapter, processes
from slaqd_local.cgroup1 import Cgroup1
from slaqd_local.cgroup2 import Cgroup2
from slaqd_local.remote import Remote
from slaqd_local.requests import MOST_PIDS, Gather, Hold, Lift
from standing_kernel import ALICE, ALICES, BOB, Kernel

from slaqd.adapter import Registration
from slaqd.errors import AdapterUnavailable
from slaqd.types import (
    Accepted,
    Adopt,
    Job,
    JobKey,
    Owner,
    Refused,
    Restore,
    SetUnits,
    State,
    Struct,
    Tag,
    Unknown,
)

T = TypeVar("T")
BOOT = "a-boot"


class World(HeldWorld):
    def job(self) -> Job:
        return self.adapter.snapshot(self.clock.monotonic() + 1).jobs[0]

    def do(self, *actions: Adopt | SetUnits | Restore) -> list[object]:
        return list(self.adapter.apply(actions, self.clock.monotonic() + 1))

    def groups(self) -> list[Path]:
        return sorted(self.kernel.at.glob("cgroup/**/job-*"))


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kernel = Kernel(tmp_path, request.param)
    with kernel.stands():
        yield World(kernel)


ADOPT = Adopt("a", KEY, BOOT, 2)
RESIZE = SetUnits("s", KEY, BOOT, 3)
RESTORE = Restore("r", KEY, BOOT)


def test_a_change_whose_answer_is_lost_is_unknown_and_the_next_look_tells(world: World) -> None:
    assert world.do(ADOPT) == [Accepted()]
    world.agent.mute = True
    (outcome,) = world.do(RESIZE)
    assert isinstance(outcome, Unknown)
    assert outcome.why.startswith("the answer was lost")
    assert world.job().target == 3
    (outcome,) = world.do(RESTORE)
    assert isinstance(outcome, Unknown)
    assert world.groups() == []
    world.agent.mute = False
    assert world.do(RESTORE) == [Accepted()]
    assert world.job().target is None


def test_an_agent_that_is_down_refuses_for_now_and_breaks_no_snapshot(world: World) -> None:
    world.agent.down = True
    (outcome,) = world.do(ADOPT)
    assert isinstance(outcome, Refused)
    assert outcome.retry
    assert "slaqd-agent does not answer" in outcome.why
    assert "keeper: slaqd isn't the owner of the jobs" in outcome.why
    assert world.job().target is None
    world.agent.down = False
    assert world.do(ADOPT) == [Accepted()]
    world.kernel.start(103, ALICE, "/alices", parent=101)
    world.agent.down = True
    assert world.job().target == 2
    assert world.kernel.group(103, next(iter(world.kernel.mounts))) == "/alices"
    world.agent.down = False
    assert world.job().target == 2
    assert world.kernel.group(103, next(iter(world.kernel.mounts))) == "/slaqd/job-101-7"


def test_the_group_of_a_job_that_ended_unheard_is_removed_later(world: World) -> None:
    assert world.do(ADOPT) == [Accepted()]
    world.kernel.end(101)
    world.agent.down = True
    assert world.job().state is State.ENDED
    assert len(world.groups()) == len(world.kernel.mounts)
    world.agent.down = False
    assert world.job().state is State.ENDED
    assert world.groups() == []


def test_a_stop_gives_an_agent_that_is_gone_up(world: World) -> None:
    for number in range(301, 311):
        key = JobKey("local", str(number), 7)
        world.store.register(Registration(key, Owner(ALICE, "alice"), Tag(max=9), "job", "/", 0.0))
        world.kernel.start(number, ALICE, "/alices")
        assert world.do(Adopt("a", key, BOOT, 1)) == [Accepted()]
    world.agent.down, world.agent.asked = True, []
    with pytest.raises(AdapterUnavailable, match=r"could not be let go: 10$"):
        world.adapter.close(restore=True)
    assert len(world.agent.asked) == 2  # her first job once, and once more


def test_a_stop_tells_of_a_job_that_the_kernel_keeps_held_and_lets_the_others_go(world: World) -> None:
    assert world.do(ADOPT) == [Accepted()]
    more_jobs(world, {301: BOB})
    name = "cpu.max" if "" in world.kernel.mounts else "cpu.cfs_quota_us"
    refusing, freed = (next(world.kernel.at.glob(f"cgroup/**/job-{pid}-7/{name}")) for pid in (101, 301))
    held = freed.read_text()
    refusing.unlink()
    refusing.mkdir()
    with pytest.raises(AdapterUnavailable, match=r"could not be let go: 1$"):
        world.adapter.close(restore=True)
    assert freed.read_text() != held


def more_jobs(world: World, owners: Mapping[int, int]) -> None:
    """Hold further jobs, by pid and owner; each has a process that joined since."""
    for pid, uid in owners.items():
        key = JobKey("local", str(pid), 7)
        world.store.register(Registration(key, Owner(uid, str(uid)), Tag(max=9), "job", "/", 0.0))
        world.kernel.start(pid, uid, "/alices")
        assert world.do(Adopt("a", key, BOOT, 1)) == [Accepted()]
        world.kernel.start(pid + 50, uid, "/alices", parent=pid)


def test_one_users_lost_answer_costs_nobody_else_a_turn(world: World) -> None:
    more_jobs(world, {301: ALICE, 302: ALICE, 303: BOB, 304: ALICE + 7})
    world.agent.slow, world.agent.asked = {ALICE}, []
    world.job()
    assert [getattr(each, "uid", None) for each in world.agent.asked] == [ALICE, BOB, ALICE + 7]
    inside = [world.kernel.group(pid + 50, next(iter(world.kernel.mounts))) for pid in range(301, 305)]
    assert inside == ["/alices", "/alices", "/slaqd/job-303-7", "/slaqd/job-304-7"]


def test_an_agent_that_hears_three_users_not_is_asked_no_more_in_this_look(world: World) -> None:
    more_jobs(world, {301 + number: 20011 + number for number in range(6)})
    world.agent.down, world.agent.asked = True, []
    world.job()
    assert [getattr(each, "uid", None) for each in world.agent.asked] == [20011, 20012, 20013]


def test_one_users_lost_answer_leaves_no_other_under_quota_at_the_end(world: World) -> None:
    more_jobs(world, {301: BOB, 302: ALICE})
    assert world.do(ADOPT) == [Accepted()]
    world.agent.slow, world.agent.asked = {ALICE}, []
    with pytest.raises(AdapterUnavailable, match=r"could not be let go: 2$"):
        world.adapter.close(restore=True)
    assert sorted(getattr(each, "uid", 0) for each in world.agent.asked) == [ALICE, ALICE, BOB]
    assert isinstance(world.agent.asked[-1], Lift)


def test_a_job_with_a_process_under_a_limit_of_its_own_shrinks_and_does_not_grow(world: World) -> None:
    assert world.do(Adopt("a", KEY, BOOT, 5)) == [Accepted()]
    world.kernel.start(103, ALICE, "/alices", parent=101)
    point = next(iter(world.kernel.mounts.values()))
    quota = point / "alices" / ("cpu.max" if "" in world.kernel.mounts else "cpu.cfs_quota_us")
    quota.write_text("1000 100000" if "" in world.kernel.mounts else "1000")
    assert world.do(ADOPT) == [Accepted()]
    world.agent.asked = []
    job = world.job()
    assert (job.target, job.gap, job.cannot_shrink) == (2, None, None)
    assert (job.cannot_grow or "").startswith("process 103 stays outside its quota: it has a ")
    assert world.agent.asked == []
    assert world.kernel.group(103, next(iter(world.kernel.mounts))) == "/alices"


def test_without_an_agent_too_a_limit_is_not_escaped_and_the_quota_still_shrinks(world: World) -> None:
    world.agent.agent = False
    adapter = LocalAdapter(Config(), world.clock, world.store, world.agent)
    first, point = next(iter(world.kernel.mounts.items()))
    assert list(adapter.apply([Adopt("a", KEY, BOOT, 5)], world.clock.monotonic() + 1)) == [Accepted()]
    (point / "alices" / ("cpu.cfs_quota_us" if first else "cpu.max")).write_text(
        "1000" if first else "1000 100000"
    )
    world.kernel.start(103, ALICE, "/alices", parent=101)
    world.kernel.start(104, ALICE, "/bobs", parent=101)
    assert list(adapter.apply([ADOPT], world.clock.monotonic() + 1)) == [Accepted()]
    (job,) = adapter.snapshot(world.clock.monotonic() + 1).jobs
    assert (job.target, job.gap) == (2, None)
    assert (job.cannot_grow or "").startswith("process 103 stays outside its quota")
    assert [world.kernel.group(pid, first) for pid in (103, 104)] == ["/alices", "/slaqd/job-101-7"]


def test_only_what_joined_a_held_job_is_sent_with_a_change(world: World) -> None:
    assert world.do(ADOPT) == [Accepted()]
    world.kernel.start(103, ALICE, "/alices", parent=101)
    world.agent.asked = []
    assert world.do(RESIZE) == [Accepted()]
    assert [each.pids for each in world.agent.asked if isinstance(each, Hold | Gather)] == [(103,)]


def test_a_job_that_a_keeper_held_before_there_was_an_agent_is_held_anew(world: World) -> None:
    world.store.note(KEY, "hold", '{"means":"keeper","origins":{}}')
    assert world.job().target is None
    assert world.do(ADOPT) == [Accepted()]
    assert world.job().target == 2


def test_anothers_process_in_a_held_job_is_not_asked_for_again_and_again(world: World) -> None:
    assert world.do(ADOPT) == [Accepted()]
    world.kernel.start(103, BOB, "/bobs", parent=101)
    world.agent.asked = []
    assert world.job().target == 2
    assert world.agent.asked == []


def test_more_processes_than_one_request_takes_are_sent_in_several(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "real_uid", lambda _: ALICE)
    asked: list[tuple[str, int]] = []

    def hands(request: Struct, kind: type[T]) -> T:
        assert isinstance(request, Hold | Gather)
        asked.append((type(request).__name__, len(request.pids)))
        return msgspec.convert(None, kind)

    monkeypatch.setattr(world.agent, "hands", hands)
    kind = Cgroup1 if "cpu" in world.kernel.mounts else Cgroup2
    remote = Remote(kind("slaqd", 100_000, shared=True), world.agent, ALICE)
    remote.hold(KEY, range(2, 2 * MOST_PIDS + 3), 100)
    assert asked == [("Hold", MOST_PIDS), ("Gather", MOST_PIDS), ("Gather", 1)]


def test_without_an_agent_nothing_is_asked(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    with kernel.stands():
        world = World(kernel)
        world.agent.agent = False
        adapter = LocalAdapter(Config(), world.clock, world.store, world.agent)
        assert list(adapter.apply([ADOPT], world.clock.monotonic() + 1)) == [Accepted()]
        adapter.close(restore=True)
    assert world.agent.asked == []
    assert kernel.group(ALICES[0], "cpu") == "/slaqd/job-101-7"
