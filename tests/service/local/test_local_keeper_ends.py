"""However a keeper ends, its job is not left stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import pytest
from local_world import BUSY, LocalWorld, states, until
from slaqd_local import LocalAdapter, processes
from slaqd_local.keeper import Job, Keeper, _pending

from slaqd.types import Accepted, JobKey, Restore, State

pytestmark = pytest.mark.service

# The parent takes no signal while its vfork child lives: a stop stays pending, as on a busy CPU.
UNSCHEDULED = """
import ctypes, time
ctypes.CDLL(None).vfork()
time.sleep(600)
"""


def test_a_keeper_takes_its_own_pending_stop_back() -> None:
    world = LocalWorld("keeper")
    try:
        key = world.start(program=UNSCHEDULED)
        group = int(key.id)
        until(lambda: (seen := processes.read(group)) is not None and seen.state == "D")
        job = Job(group, key.start)
        job.add([group])
        keeper = Keeper(job, 2)
        keeper.obey(b"hold 10")
        keeper.step()
        job.stop()
        keeper._holds = True
        assert job.pending_stop() is None
        keeper.release()
        assert _pending(group) == 0, "nothing that would stop it later"
    finally:
        world.close()


@pytest.mark.parametrize("turn", range(3))
def test_a_keeper_killed_just_before_slaqd_stops_leaves_no_job_stopped(turn: int) -> None:
    del turn
    world = LocalWorld("keeper")
    try:
        adapter, key = world.adapter(), world.start(program=BUSY)
        world.adopt(adapter, key, 1)
        (pid,) = adapter._holder.apart
        until(lambda: states(int(key.id)) == "T")
        os.kill(pid, signal.SIGKILL)
        adapter.close(restore=True)
        until(lambda: states(int(key.id)) == "R")
    finally:
        world.close()


SLAQD = """
    import time
    from slaqd.adapter import Registration
    from slaqd.clock import SystemClock
    from slaqd.testing import MemoryStore
    from slaqd.types import Adopt, JobKey, Owner, Tag
    from slaqd_local import Config, LocalAdapter, processes
    key = JobKey("local", "{group}", {start})
    store = MemoryStore([Registration(key, Owner(0, "me"), Tag(min=1, max=3), "job", "/", 0.0)])
    adapter = LocalAdapter(Config(means="keeper"), SystemClock(), store)
    adapter.apply([Adopt("a", key, processes.boot_id(), 1)], time.monotonic() + 60)
    print(store.notes(key)["hold"], flush=True)
    print(*adapter._holder.apart, flush=True)
    time.sleep(600)
"""


def restored(world: LocalWorld, adapter: LocalAdapter, key: JobKey) -> None:
    assert adapter.apply([Restore("r", key, "")], world.deadline()) == [Accepted()]


def looked_at(world: LocalWorld, adapter: LocalAdapter, key: JobKey) -> None:
    assert world.job(adapter, key).state is State.RUNNING


@pytest.mark.parametrize("mend", [restored, looked_at])
def test_a_job_that_a_kill_of_both_keeper_and_slaqd_left_stopped_goes_on_with_the_next_slaqd_or_a_restore(
    mend: Callable[[LocalWorld, LocalAdapter, JobKey], None],
) -> None:
    world = LocalWorld("keeper")
    try:
        key = world.start(program=BUSY)
        group = int(key.id)
        words = [sys.executable, "-c", textwrap.dedent(SLAQD).format(group=group, start=key.start)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as slaqd:
            assert slaqd.stdout is not None
            world.store.note(key, "hold", slaqd.stdout.readline().strip())
            keeper = int(slaqd.stdout.readline())
            until(lambda: _frozen(keeper, group))
            slaqd.kill()
            os.kill(keeper, signal.SIGKILL)
        until(lambda: processes.read(keeper) is None or processes.read(keeper).state == "Z")  # type: ignore[union-attr]
        assert states(group) == "T"
        mend(world, world.adapter(), key)
        until(lambda: states(group) == "R")
    finally:
        world.close()


def _frozen(keeper: int, group: int) -> bool:
    """Stop the keeper while it holds the job; let it go on where the job ran."""
    os.kill(keeper, signal.SIGSTOP)
    time.sleep(0.01)
    if states(group) == "T":
        return True
    os.kill(keeper, signal.SIGCONT)
    return False
