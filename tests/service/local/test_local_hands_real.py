"""A slaqd without rights holds other users' jobs through hands in another process.

Real cgroups, and users by number alone: alice and bob have jobs, slaqd is a third. The
agent is its session and socket without the forker's children, as root with SETUID and
SETGID alone, as its unit leaves it.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hands_world import (
    ALICE,
    BOB,
    MEANS,
    NAME,
    SETGID_SETUID,
    SLAQD,
    Forked,
    World,
    become,
    check,
    close,
    hands,
    rights,
    snapshot,
    tree,
)
from local_world import until
from slaqd_local import Config, LocalAdapter, processes
from slaqd_local.requests import Gather, GiveBack, Hold, Lift, Sweep

from slaqd.agent.client import Agent
from slaqd.clock import SystemClock
from slaqd.errors import AdapterUnavailable, AgentUnavailable
from slaqd.testing import MemoryStore
from slaqd.types import Accepted, Adopt, JobKey, Refused, Restore, SetUnits, Severity, Unknown

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(os.geteuid() != 0 or not MEANS, reason="needs root, and a cgroup to hold jobs by"),
]


@pytest.fixture
def world() -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="slaqd-hands-"))
    folder.chmod(0o755)
    world = World(folder)
    yield world
    world.close()
    shutil.rmtree(folder)


def adopt(key: JobKey, units: int) -> Adopt:
    return Adopt("a", key, processes.boot_id(), units)


def resize(key: JobKey, units: int) -> SetUnits:
    return SetUnits("s", key, processes.boot_id(), units)


def restore(key: JobKey) -> Restore:
    return Restore("r", key, processes.boot_id())


def where(pid: int) -> str:
    return tree().group_of(pid)


def test_a_slaqd_without_rights_holds_resizes_and_gives_back_anothers_job(world: World) -> None:
    assert world.slaqd.ask(rights) == (SLAQD, None)
    pid = world.start(ALICE)
    key, came_from = world.job(pid), where(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    assert world.agent.capabilities() == SETGID_SETUID
    assert (world.milli(key), world.target(key), where(pid)) == (200, 2, f"/{NAME}/job-{pid}-{key.start}")
    assert world.do(resize(key, 5)) == [Accepted()]
    assert (world.milli(key), world.target(key)) == (500, 5)
    assert world.do(restore(key)) == [Accepted()]
    assert (world.target(key), where(pid)) == (None, came_from)
    assert not (tree().mount.point / NAME).exists()


def test_what_joins_a_held_job_comes_under_its_quota(world: World) -> None:
    pid = world.start(ALICE)
    key = world.job(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    late = world.start(ALICE, group=pid)
    assert where(late) != where(pid)
    world.slaqd.ask(snapshot)
    assert where(late) == where(pid)
    assert world.do(restore(key)) == [Accepted()]
    assert where(late) == f"/{NAME}-origin"


def test_the_seconds_of_an_ended_job_are_kept_and_its_group_is_removed(world: World) -> None:
    pid = world.start(ALICE, busy=True)
    key = world.job(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    until(lambda: next(job.cpu_seconds for job in world.slaqd.ask(snapshot).jobs) > 0.1)
    os.kill(pid, signal.SIGKILL)
    until(lambda: next(job.state for job in world.slaqd.ask(snapshot).jobs) == "ended")
    assert next(job.cpu_seconds for job in world.slaqd.ask(snapshot).jobs) > 0.1
    assert not (tree().mount.point / NAME).exists()


def ends_while_the_agent_is_away(world: World) -> Path:
    """Let a held job end unheard by the agent, and slaqd after it; its group stays, and nobody knows it."""
    pid = world.start(ALICE)
    key = world.job(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    world.agent.kill()
    world.end(pid)
    until(lambda: next(job.state for job in world.slaqd.ask(snapshot).jobs) == "ended")
    world.restart_slaqd()
    left = tree().mount.point / NAME
    assert [each.name for each in left.glob("job-*")] == [f"job-{pid}-{key.start}"]
    return left


def test_an_agent_removes_at_its_start_what_a_killed_one_left(world: World) -> None:
    left = ends_while_the_agent_is_away(world)
    world.agent.start()
    until(lambda: not left.exists())
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{NAME}"))


@pytest.mark.parametrize("ask", [snapshot, close])
def test_a_slaqd_has_removed_what_jobs_left_that_no_slaqd_knows_any_more(world: World, ask: Any) -> None:
    pid = world.start(ALICE)
    assert world.do(adopt(world.job(pid), 2)) == [Accepted()]
    world.restart_slaqd()
    world.end(pid)
    world.slaqd.ask(ask)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{NAME}"))


def test_a_group_is_left_alone_as_long_as_anybody_stands_in_it(world: World) -> None:
    pid = world.start(ALICE)
    key = world.job(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    late = world.start(ALICE, group=pid)
    world.slaqd.ask(snapshot)
    world.restart_slaqd()
    world.end(pid)
    group = f"/{NAME}/job-{pid}-{key.start}"
    world.slaqd.ask(hands, Sweep(MEANS, ((pid, key.start),)))  # type: ignore[arg-type]
    world.slaqd.ask(snapshot)
    assert where(late) == group
    world.end(late)
    world.slaqd.ask(snapshot)
    assert not (tree().mount.point / group.lstrip("/")).exists()


@pytest.mark.parametrize("uid", [BOB, 0])
def test_a_job_with_anothers_process_is_named_and_left_alone(world: World, uid: int) -> None:
    pid = world.start(ALICE)
    other = world.start(uid, group=pid)
    key, before = world.job(pid), where(pid)
    (outcome,) = world.do(adopt(key, 2))
    assert isinstance(outcome, Refused)
    assert f"process {other} belongs to another user" in outcome.why
    assert (where(pid), where(other)) == (before, before)


@pytest.mark.parametrize("uid", [BOB, 0])
def test_the_agent_itself_moves_no_strangers_process(world: World, uid: int) -> None:
    pid, other = world.start(ALICE), world.start(uid)
    key, before = world.job(pid), where(other)
    named: dict[str, Any] = {"means": MEANS, "id": pid, "start": key.start, "uid": ALICE}
    with pytest.raises(PermissionError, match=f"process {other} belongs to uid {uid}, not to {ALICE}"):
        world.slaqd.ask(hands, Hold(**named, pids=(pid, other), milli=100))
    assert not (tree().mount.point / NAME).exists()
    assert world.do(adopt(key, 2)) == [Accepted()]
    with pytest.raises(PermissionError, match=f"process {other} belongs to uid {uid}"):
        world.slaqd.ask(hands, Gather(**named, pids=(other,)))
    assert where(other) == before
    with pytest.raises(PermissionError, match=r"uid 0 is one of the system's own"):
        world.slaqd.ask(hands, Hold(**{**named, "uid": 0}, pids=(pid,), milli=100))


def test_a_jobs_group_is_its_users_for_the_next_agent_too(world: World) -> None:
    pid, other = world.start(ALICE), world.start(BOB)
    key = world.job(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    world.agent.kill()
    world.agent.start()
    bobs: dict[str, Any] = {"means": MEANS, "id": pid, "start": key.start, "uid": BOB}
    for request in (
        Hold(**bobs, pids=(other,), milli=100),
        Lift(**bobs),
        GiveBack(**bobs, origins={tree().controller: {"": "/"}}),
    ):
        until(lambda request=request: _is_refused(world, request))  # type: ignore[misc]
    assert world.milli(key) == 200
    assert world.do(resize(key, 3)) == [Accepted()]


def _is_refused(world: World, request: Any) -> bool:
    """Tell whether the new agent refuses; the first word to it may find the old one's line broken."""
    try:
        world.slaqd.ask(hands, request)
    except AgentUnavailable:
        return False
    except PermissionError as error:
        return f"of uid {ALICE}, not of {BOB}" in str(error)
    raise AssertionError(request)


def mark(side: Any, directory: Path, uid: int) -> None:
    del side
    os.setxattr(directory, "user.slaqd.owner", str(uid).encode())


def test_only_the_agent_marks_whose_a_jobs_group_is(world: World) -> None:
    pid = world.start(ALICE)
    key = world.job(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    group = tree().mount.point / where(pid).lstrip("/")
    assert os.getxattr(group, "user.slaqd.owner") == str(ALICE).encode()
    with pytest.raises(PermissionError):
        world.slaqd.ask(mark, group, SLAQD)
    tried = Forked(lambda: _try_to_mark(group))
    assert os.waitstatus_to_exitcode(os.waitpid(tried.pid, 0)[1]) == 0
    assert os.getxattr(group, "user.slaqd.owner") == str(ALICE).encode()


def _try_to_mark(group: Path) -> None:
    become(ALICE)
    with pytest.raises(PermissionError):
        mark(None, group, BOB)


def test_what_a_job_runs_as_another_user_freezes_no_quota(world: World) -> None:
    pid, other = world.start(ALICE), world.start(BOB)
    key, came_from = world.job(pid), where(pid)
    assert world.do(adopt(key, 5)) == [Accepted()]
    group = tree().mount.point / where(pid).lstrip("/")
    (group / "cgroup.procs").write_text(str(other))  # as a set-uid program is born there
    assert world.do(resize(key, 2)) == [Accepted()]
    assert (world.milli(key), world.target(key)) == (200, 2)
    assert world.do(restore(key)) == [Accepted()]
    assert (where(pid), world.milli(key)) == (came_from, -1)


@pytest.fixture
def limited() -> Iterator[Path]:
    """Give a group with a quota of its own."""
    group = tree().mount.point / f"{NAME}-limited"
    group.mkdir()
    (group / ("cpu.max" if MEANS == "cgroup2" else "cpu.cfs_quota_us")).write_text("50000")
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()


def test_a_job_with_a_process_under_a_limit_of_its_own_still_shrinks(world: World, limited: Path) -> None:
    pid = world.start(ALICE)
    key = world.job(pid)
    assert world.do(adopt(key, 5)) == [Accepted()]
    outside, late = world.start(ALICE, group=pid), world.start(ALICE, group=pid)
    (limited / "cgroup.procs").write_text(str(outside))
    assert world.do(resize(key, 2)) == [Accepted()]
    assert world.milli(key) == 200
    assert (where(late), where(outside)) == (where(pid), f"/{limited.name}")
    (job,) = world.slaqd.ask(snapshot).jobs
    assert (job.target, job.gap, job.cannot_shrink) == (2, None, None)
    assert job.cannot_grow.startswith(f"process {outside} stays outside its quota: it has a ")


def test_jobs_together_weigh_the_cores_that_they_were_granted(world: World) -> None:
    weight, usual = ("cpu.weight", 100) if MEANS == "cgroup2" else ("cpu.shares", 1024)
    keys = [world.job(world.start(ALICE)) for _ in range(4)]
    home = tree().mount.point / NAME

    def cores() -> float:
        return int((home / weight).read_text()) / usual

    assert world.do(*[adopt(key, 1) for key in keys]) == [Accepted()] * 4
    assert cores() == 1
    assert world.do(*[resize(key, 10) for key in keys[:2]]) == [Accepted()] * 2
    assert cores() == pytest.approx(min(2.2, os.cpu_count() or 1), abs=0.01)
    assert world.do(restore(keys[0])) == [Accepted()]
    assert cores() == pytest.approx(min(1.2, os.cpu_count() or 1), abs=0.01)


def test_nothing_is_sent_to_a_group_that_the_job_never_came_from(world: World) -> None:
    pid = world.start(ALICE)
    key, came_from = world.job(pid), where(pid)
    assert world.do(adopt(key, 2)) == [Accepted()]
    elsewhere = {tree().controller: {"": f"/{NAME}-elsewhere", str(pid): "/"}}
    world.slaqd.ask(hands, GiveBack(MEANS, pid, key.start, ALICE, elsewhere))  # type: ignore[arg-type]
    assert where(pid) == came_from


def test_an_agent_that_is_gone_costs_outcomes_and_no_snapshot(world: World) -> None:
    held, new = world.start(ALICE), world.start(BOB)
    old, fresh = world.job(held), world.job(new, BOB)
    assert world.do(adopt(old, 2)) == [Accepted()]
    world.agent.kill()
    resized, adopted = world.do(resize(old, 3), adopt(fresh, 1))
    assert isinstance(resized, Unknown)
    assert isinstance(adopted, Refused)
    assert adopted.retry
    assert "slaqd-agent does not answer" in adopted.why
    assert (world.target(old), world.target(fresh)) == (2, None)
    with pytest.raises(AdapterUnavailable, match="jobs that could not be let go: 1"):
        world.slaqd.ask(close)
    assert world.milli(old) == 200
    world.agent.start()
    assert world.do(resize(old, 3), adopt(fresh, 1)) == [Accepted(), Accepted()]
    assert (world.milli(old), world.milli(fresh)) == (300, 100)
    world.slaqd.ask(close)
    assert (world.milli(old), world.milli(fresh)) == (-1, -1)


def test_doctor_tells_who_writes(world: World) -> None:
    first, *_ = world.slaqd.ask(check)
    assert (first.severity, first.what) == (
        Severity.OK,
        f"jobs are held by {MEANS}, which slaqd-agent writes",
    )
    world.agent.kill()
    first, *_ = world.slaqd.ask(check)
    assert first.severity is Severity.WARNING
    assert "slaqd-agent does not answer" in first.what
    assert "see that slaqd-agent runs" in first.do


def test_keepers_are_not_offered_where_an_agent_acts(world: World) -> None:
    adapter = LocalAdapter(
        Config(means="keeper", cgroup=NAME), SystemClock(), MemoryStore(), Agent(world.agent.path)
    )
    first, second, *_ = adapter.check()
    assert first.what == "keeper can't be used: slaqd isn't the owner of the jobs"
    assert second.severity is Severity.ERROR
