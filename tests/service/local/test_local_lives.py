"""Jobs outlive slaqd, their leaders and their keepers; nothing is left of them at their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from local_world import BUSY, IDLE, LocalWorld, states, until, usable_means
from slaqd_local import processes
from slaqd_local.keepers import Keepers

from slaqd.types import Admit, JobKey, Lever, Refused, Restore, SetUnits, State

pytestmark = pytest.mark.service

LEADER_LEAVES = """
import os, time
if os.fork() == 0:
    while True: pass
"""
CHILD_LEAVES = """
import os, time
if os.fork() == 0:
    os.setsid()
    while True: pass
time.sleep(600)
"""


@pytest.fixture
def world(means: str) -> Iterator[LocalWorld]:
    world = LocalWorld(means)
    yield world
    world.close()


every_means = pytest.mark.parametrize("means", usable_means())
keeper = pytest.mark.parametrize("means", ["keeper"])


@every_means
def test_a_job_lives_while_any_process_of_it_lives(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=LEADER_LEAVES)
    until(lambda: states(int(key.id)) in {"RZ", "R"})
    world.processes[key].wait()
    world.adopt(adapter, key, 1)
    assert world.job(adapter, key).state is State.RUNNING
    assert world.job(adapter, key).target == 1
    os.killpg(int(key.id), signal.SIGKILL)
    until(lambda: world.job(adapter, key).state is State.ENDED)


@every_means
def test_a_descendant_that_left_the_group_is_held_too(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=CHILD_LEAVES)

    def stranger() -> int | None:
        table = processes.read_all().values()
        return next((p.pid for p in table if p.parent == int(key.id) and p.group == p.pid), None)

    until(lambda: stranger() is not None)
    world.also_end(stranger() or 0)
    world.adopt(adapter, key, 1)
    until(lambda: abs(world.ratio(adapter, key, 4) - 1) < 0.15)


@every_means
def test_the_final_cpu_seconds_stay_with_an_ended_job(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    world.adopt(adapter, key, 2)
    until(lambda: (world.job(adapter, key).cpu_seconds or 0.0) > 0.2)
    world.end(key)
    until(lambda: world.job(adapter, key).state is State.ENDED)
    first = world.job(adapter, key).cpu_seconds
    assert first is not None
    assert first > 0.2
    assert world.job(world.adapter(), key).cpu_seconds == first


@every_means
def test_slaqd_is_killed_and_the_next_one_finds_its_jobs(world: LocalWorld, means: str) -> None:
    key = world.start(program=BUSY)
    program = f"""
        import sys, time
        from slaqd.adapter import Registration
        from slaqd.clock import SystemClock
        from slaqd.testing import MemoryStore
        from slaqd.types import Adopt, JobKey, Owner, Tag
        from slaqd_local import Config, LocalAdapter, processes
        key = JobKey("local", {key.id!r}, {key.start})
        store = MemoryStore([Registration(key, Owner(0, "me"), Tag(min=1, max=3), "job", "/", 0.0)])
        config = Config(means={means!r}, cgroup={world.config.cgroup!r})
        adapter = LocalAdapter(config, SystemClock(), store)
        print(adapter.apply([Adopt("a", key, processes.boot_id(), 2)], time.monotonic() + 60), flush=True)
        print(store.notes(key)["hold"], flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    ) as old:
        assert old.stdout is not None
        assert "Accepted" in old.stdout.readline()
        world.store.note(key, "hold", old.stdout.readline().strip())
        old.kill()
    new = world.adapter()
    job = world.job(new, key)
    assert job.state is State.RUNNING
    assert job.target == (None if means == "keeper" else 2)
    if means == "keeper":
        # Free at once, and not stopped again.
        until(lambda: states(int(key.id)) == "R")
    world.adopt(new, key, 1)
    assert world.job(new, key).target == 1


@every_means
def test_restore_works_without_a_daemon(world: LocalWorld) -> None:
    old, key = world.adapter(), world.start(program=BUSY)
    world.adopt(old, key, 1)
    offline = world.adapter()
    outcome = offline.apply([Restore("r", key, "")], world.deadline())
    assert [type(each).__name__ for each in outcome] == ["Accepted"]
    old.close(restore=False)
    until(lambda: states(int(key.id)) == "R")
    assert world.job(offline, key).target is None


@every_means
def test_jobs_that_end_leave_no_group_behind(world: LocalWorld) -> None:
    adapter = world.adapter()
    keys = [world.start(), world.start()]
    for key in keys:
        world.adopt(adapter, key, 1)
        world.end(key)
    until(lambda: all(world.job(adapter, key).state is State.ENDED for key in keys))
    cgroups = Path("/sys/fs/cgroup")
    assert not list(cgroups.glob(f"*/{world.config.cgroup}*"))
    assert not adapter._holder.apart


@every_means
@pytest.mark.parametrize("stops", [False, True], ids=["looks", "stops"])
def test_what_a_killed_slaqd_left_of_a_job_that_ended_is_removed_by_the_next(
    world: LocalWorld, *, stops: bool
) -> None:
    key, other = world.start(), world.start()
    for each in (key, other):
        world.adopt(world.adapter(), each, 1)
    world.end(key)
    world.store.end(key)
    new = world.adapter()
    if stops:
        new.close(restore=True)
    else:
        assert world.job(new, other).state is State.RUNNING
    left = {each.name for each in Path("/sys/fs/cgroup").glob(f"*/{world.config.cgroup}/job-*")}
    assert left <= {f"job-{other.id}-{other.start}"}


@every_means
def test_another_boot_is_another_life(world: LocalWorld) -> None:
    key = world.start()
    world.store.note(key, "boot", "that was before")
    assert world.job(world.adapter(), key).state is State.ENDED


@every_means
def test_a_reused_number_is_another_job(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start()
    old = JobKey(key.manager, key.id, key.start - 1)
    world.store.register(msgspec.structs.replace(world.store.registrations()[0], key=old))
    assert world.job(adapter, old).state is State.ENDED
    assert world.job(adapter, key).state is State.RUNNING
    world.store.end(old)


@every_means
def test_bounds_are_kept_whoever_asks(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(most=3)
    boot = processes.boot_id()
    for units in (0, 4):
        outcome = adapter.apply([SetUnits("s", key, boot, units)], world.deadline())
        assert isinstance(outcome[0], Refused)
    assert world.job(adapter, key).target is None


@every_means
def test_a_waiting_job_without_lever_is_let_run_unheld(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(waits=True, lever=Lever.NONE)
    assert world.job(adapter, key).state is State.WAITING
    adapter.apply([Admit("a", key, processes.boot_id(), 1)], world.deadline())
    job = world.job(adapter, key)
    assert (job.state, job.target) == (State.RUNNING, None)


@keeper
def test_a_killed_keeper_is_replaced_and_its_job_runs_on(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    world.adopt(adapter, key, 1)
    (first,) = adapter._holder.apart
    until(lambda: states(int(key.id)) == "T")
    os.kill(first, signal.SIGKILL)

    def replaced() -> bool:
        world.job(adapter, key)
        return adapter._holder.apart not in ({first}, set())

    until(replaced)
    assert world.job(adapter, key).target == 1
    until(lambda: states(int(key.id)) == "R")
    until(lambda: states(int(key.id)) == "T")


@keeper
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_keeper_that_is_told_to_end_leaves_its_job_running(world: LocalWorld, number: int) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    world.adopt(adapter, key, 1)
    (pid,) = adapter._holder.apart
    until(lambda: states(int(key.id)) == "T")
    os.kill(pid, number)
    until(lambda: (each := processes.read(pid)) is None or each.state == "Z")
    assert states(int(key.id)) == "R"


@keeper
def test_a_stopped_keeper_is_woken(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=BUSY)
    world.adopt(adapter, key, 1)
    (pid,) = adapter._holder.apart
    os.kill(pid, signal.SIGSTOP)
    until(lambda: processes.is_stopped(pid))
    world.job(adapter, key)
    until(lambda: not processes.is_stopped(pid))


@keeper
def test_a_job_that_its_user_stopped_stays_stopped_until_the_user_continues_it(world: LocalWorld) -> None:
    adapter, key = world.adapter(), world.start(program=IDLE)
    world.adopt(adapter, key, 1)
    group = int(key.id)
    until(lambda: states(group) == "S")
    os.killpg(group, signal.SIGSTOP)
    until(lambda: states(group) == "T")
    adapter.close(restore=True)
    assert states(group) == "T"
    os.killpg(group, signal.SIGCONT)
    until(lambda: states(group) == "S")


@keeper
@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU])
def test_a_stop_from_the_terminal_is_told_to_who_waits_though_the_keeper_held_the_job(
    world: LocalWorld, number: signal.Signals
) -> None:
    # In our own session: the kernel passes over such stops where no shell could go on after them.
    with subprocess.Popen([sys.executable, "-S", "-c", BUSY], process_group=0) as started:
        adapter, key = world.adapter(), world.known(started.pid)
        world.adopt(adapter, key, 1)
        until(lambda: states(started.pid) == "T")
        os.killpg(started.pid, number)
        told: list[int] = []

        def stops() -> bool:
            pid, status = os.waitpid(started.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                told.append(os.WSTOPSIG(status))
            return number in told

        until(stops)
        world.job(adapter, key)
        assert states(started.pid) == "T"
        os.killpg(started.pid, signal.SIGCONT)
        until(lambda: states(started.pid) == "R")
        started.kill()


def test_a_process_of_another_user_is_named_and_its_job_not_touched() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        os.write(writer, (Keepers().bars([1]) or "").encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as text:
        assert text.read() == "process 1 belongs to another user and can't be stopped"


@pytest.mark.skipif("cgroup1" not in usable_means(), reason="needs the hierarchy cpuacct")
@pytest.mark.parametrize("means", ["cgroup1"])
def test_a_group_that_was_busy_at_its_jobs_end_is_removed_by_a_later_look(world: LocalWorld) -> None:
    """Also when the core has long closed the job, and shows the adapter no registration of it any more."""
    adapter, key = world.adapter(), world.start()
    world.adopt(adapter, key, 1)
    (group,) = Path("/sys/fs/cgroup/cpuacct").glob(f"{world.config.cgroup}/job-{key.id}-*")
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as late:
        (group / "cgroup.procs").write_text(str(late.pid), encoding="ascii")
        world.end(key)
        assert world.job(adapter, key).state is State.ENDED
        world.store.end(key)
        adapter.snapshot(world.deadline())
        assert group.exists()
        late.kill()
    adapter.snapshot(world.deadline())
    assert not group.exists()
    assert not group.parent.exists()
