"""However a keeper ends, its job is not left stopped."""

from __future__ import annotations

import os
import signal

import pytest
from local_world import BUSY, LocalWorld, states, until
from slaqd_local import processes
from slaqd_local.keeper import Job, Keeper, _pending

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
