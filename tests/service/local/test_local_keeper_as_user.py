"""The keeper needs no right but that to one's own processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import slaqd_local
from local_world import BUSY, states, until
from slaqd_local import processes

pytestmark = pytest.mark.service

NOBODY = 65534


@pytest.fixture
def package() -> Iterator[Path]:
    """Copy the package to where every user can read it."""
    folder = Path(tempfile.mkdtemp(prefix="slaqd-keeper-"))
    folder.chmod(0o755)
    shutil.copytree(Path(slaqd_local.__file__).parent, folder / "slaqd_local")
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_can_hold_a_job_and_lets_it_go_when_the_pipe_closes(package: Path) -> None:
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    assert python is not None
    with subprocess.Popen([python, "-S", "-c", BUSY], user=user, start_new_session=True, cwd="/") as job:
        seen = processes.read(job.pid)
        assert seen is not None
        with subprocess.Popen(
            [python, "-S", "-s", "-m", "slaqd_local.keeper", str(job.pid), str(seen.start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            user=user,
            start_new_session=True,
            cwd="/",
            env={"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
        ) as keeper:
            assert keeper.stdin is not None
            keeper.stdin.write(f"members {job.pid}\nhold 100\n".encode())
            assert processes.real_uid(keeper.pid) == user
            until(lambda: states(job.pid) == "T")
            until(lambda: states(job.pid) == "R")

            def share() -> float:
                clock = (~job.pid << 3) | 2
                before, began = time.clock_gettime(clock), time.monotonic()
                time.sleep(5)
                return (time.clock_gettime(clock) - before) / (time.monotonic() - began)

            until(lambda: abs(share() / 0.1 - 1) < 0.15)
            until(lambda: states(job.pid) == "T")
            keeper.stdin.close()
            assert keeper.wait() == 0
        assert states(job.pid) == "R"
        os.killpg(job.pid, signal.SIGKILL)
