"""What is said of a job later takes the place of all before, on a real slaqd that is killed as well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from living import Make, Slaqd, wait_for

pytestmark = pytest.mark.service

WHY = "its lever is {} now: what held it before is given back"
FOLLOWS = """
import time
from slaqd.job import Follower
follower = Follower("ctl")
while True:
    if target := follower.poll():
        follower.done(target.units)
    time.sleep(0.02)
"""

every_means = pytest.mark.parametrize("means", ["auto", "keeper"])


def held(slaqd: Slaqd, *command: str) -> subprocess.Popen[bytes]:
    """Start a job outside slaqd, and have it held to three units."""
    started = slaqd.free_group(*command)
    adopt(slaqd, started, "slaq:v1 max=3")
    slaqd.comes_to("a", lever="cpus", units=3)
    return started


def adopt(slaqd: Slaqd, started: subprocess.Popen[bytes], tag: str) -> None:
    slaqd.env["SLAQ_TAG"] = tag
    done = slaqd.ctl("adopt", "--name", "a", str(started.pid))
    assert done.returncode == 0, done.stderr


def where(started: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{started.pid}/cgroup").read_text(encoding="utf-8")


def whys(slaqd: Slaqd, started: subprocess.Popen[bytes]) -> list[str]:
    """Tell why the job was given back, each time that it was."""
    return [each["why"] for each in slaqd.asked("history", str(started.pid)) if each["what"] == "Restore"]


@every_means
def test_a_held_job_that_shall_be_advised_only_is_let_go_and_told_why(make: Make, means: str) -> None:
    slaqd = make(means=means).start()
    before = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    started = held(slaqd)
    adopt(slaqd, started, "slaq:v1 lever=none")
    slaqd.comes_to("a", lever="none", units=None, reason="advised only: it has no lever")
    assert where(started) == before
    slaqd.cycles(2)
    assert whys(slaqd, started) == [WHY.format("none")]
    adopt(slaqd, started, "slaq:v1 max=2")
    slaqd.comes_to("a", lever="cpus", units=2)


@every_means
def test_a_held_job_that_shall_follow_a_file_is_let_go_before_it_is_told(
    make: Make, means: str, tmp_path: Path
) -> None:
    slaqd = make(means=means).start()
    before = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    started = held(slaqd, sys.executable, "-c", f"import os\nos.chdir({str(tmp_path)!r})\n{FOLLOWS}")
    adopt(slaqd, started, f"slaq:v1 max=5 lever=file dir={tmp_path}/ctl")
    slaqd.comes_to("a", lever="file", units=5)
    assert where(started) == before
    assert whys(slaqd, started) == [WHY.format("file")]
    adopt(slaqd, started, "slaq:v1 max=2")
    slaqd.comes_to("a", lever="cpus", units=2)
    target = json.loads((tmp_path / "ctl" / "target.json").read_text())
    assert (target["seq"], target["units"]) == (1, 5)


def test_a_slaqd_killed_between_the_word_and_the_letting_go_lets_go_at_its_next_start(make: Make) -> None:
    slaqd = make().start()
    before = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    started = held(slaqd)
    (slaqd.folder / "stop").touch()
    wait_for(lambda: "halted by the file" in slaqd.status().sentence, slaqd.said)
    adopt(slaqd, started, "slaq:v1 lever=none")
    slaqd.comes_to("a", lever="none", units=3)
    slaqd.stop(signal.SIGKILL)
    (slaqd.folder / "stop").unlink()
    slaqd.start()
    slaqd.comes_to("a", lever="none", units=None)
    assert where(started) == before


def test_restore_without_a_slaqd_lets_go_of_what_the_lever_before_holds(make: Make, tmp_path: Path) -> None:
    slaqd = make().start()
    before = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    started = held(slaqd)
    (slaqd.folder / "stop").touch()
    wait_for(lambda: "halted by the file" in slaqd.status().sentence, slaqd.said)
    adopt(slaqd, started, f"slaq:v1 lever=file dir={tmp_path}/ctl")
    slaqd.comes_to("a", units=3)
    slaqd.stop(signal.SIGKILL)
    done = slaqd.ctl("restore", str(started.pid))
    assert (done.returncode, where(started)) == (0, before), done.stderr
    assert not (tmp_path / "ctl").exists()


def test_nothing_is_let_go_while_nothing_may_be_done(make: Make) -> None:
    slaqd = make().start()
    started = held(slaqd)
    during = where(started)
    slaqd.ctl("pause", str(started.pid))
    adopt(slaqd, started, "slaq:v1 lever=none")
    slaqd.cycles(2)
    assert (slaqd.job("a").units, where(started), whys(slaqd, started)) == (3, during, [])
    slaqd.stop(signal.SIGKILL)
    text = slaqd.config.read_text(encoding="utf-8")
    slaqd.config.write_text(text.replace("'enforce'", "'observe'"), encoding="utf-8")
    slaqd.start()
    slaqd.ctl("resume", str(started.pid))
    slaqd.cycles(2)
    assert (slaqd.job("a").units, where(started), whys(slaqd, started)) == (3, during, [])
    assert slaqd.ctl("restore", str(started.pid)).returncode == 0
    slaqd.comes_to("a", units=None)
    assert os.getpgid(started.pid) == started.pid
    assert where(started) != during
