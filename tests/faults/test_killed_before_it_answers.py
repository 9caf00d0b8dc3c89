"""slaqd killed after a registration is on disk and before the command that waits for it has its answer."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from living import PATIENCE_S, SLAQD, Slaqd, wait_for

pytestmark = [pytest.mark.fault, pytest.mark.service]

DIES = f"""
import os, runpy, signal
from slaqd.act import Journal
whole = Journal.register
def register(journal, registration):
    whole(journal, registration)
    os.kill(os.getpid(), signal.SIGKILL)
Journal.register = register
runpy.run_path({SLAQD[1]!r}, run_name="__main__")
"""


def start_one_that_dies(slaqd: Slaqd) -> None:
    with slaqd.log.open("ab") as log:
        words = [sys.executable, "-c", DIES, "--config", str(slaqd.config)]
        slaqd.process = subprocess.Popen(words, stderr=log, env=slaqd.env)
    wait_for(lambda: "cycle=1" in slaqd.said(), slaqd.said)


def test_a_command_whose_registration_lost_its_answer_is_managed_by_the_slaqd_that_follows(
    slaqd: Slaqd, tmp_path: Path
) -> None:
    start_one_that_dies(slaqd)
    began = tmp_path / "began"
    started = slaqd.run("job", "/bin/sh", "-c", f"touch {began}; sleep 3600", options=["--max", "7"])
    assert slaqd.process is not None
    assert slaqd.process.wait(PATIENCE_S) == -signal.SIGKILL
    wait_for(lambda: slaqd.told("job"), lambda: "the command says what became of slaqd")
    assert not began.exists()
    slaqd.start()
    slaqd.comes_to("job", state="running", units=7)
    wait_for(began.exists, slaqd.said)
    assert started.poll() is None
    assert "unmanaged" not in slaqd.told("job")
    assert list(slaqd.jobs()) == ["job"]


def test_a_command_whose_registration_lost_its_answer_runs_where_no_slaqd_follows(slaqd: Slaqd) -> None:
    start_one_that_dies(slaqd)
    assert slaqd.run("job", "/bin/sh", "-c", "exit 6").wait(PATIENCE_S) == 6
    assert slaqd.process is not None
    assert slaqd.process.wait(PATIENCE_S) == -signal.SIGKILL
    said = slaqd.told("job")
    assert said.index("slaqd ended before it answered") < said.index("running unmanaged: ")
