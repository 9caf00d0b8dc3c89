"""slaqd killed, stopped and started twice: no job lost, none doubled, units right."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from living import PATIENCE_S, SLAQD, Slaqd, wait_for

from slaqd import client as clients
from slaqd.act import Journal

pytestmark = [pytest.mark.fault, pytest.mark.service]

KILLS = 20


def test_after_a_kill_no_job_is_lost_none_doubled_and_units_are_right_in_two_cycles(slaqd: Slaqd) -> None:
    slaqd.start()
    slaqd.busy("run", "--min", "10", "--max", "10")
    free = slaqd.free_group()
    slaqd.ctl("adopt", str(free.pid), "--min", "5", "--max", "5", "--name", "adopted")
    slaqd.busy("ends", "--min", "5", "--max", "5")
    for name, units in (("run", 10), ("adopted", 5), ("ends", 5)):
        slaqd.comes_to(name, units=units)
    before = {name: view.job for name, view in slaqd.jobs().items()}
    assert slaqd.stop(signal.SIGKILL) == -signal.SIGKILL
    ends = slaqd.started[2]
    ends.terminate()
    assert ends.wait(PATIENCE_S) == 143
    slaqd.start()
    slaqd.cycles(2 - min(slaqd.status().cycles, 2))
    jobs = slaqd.jobs()
    assert {name: view.job for name, view in jobs.items()} == before
    assert (jobs["run"].units, jobs["adopted"].units) == (10, 5)
    assert (slaqd.quota("run"), slaqd.quota("adopted")) == (10, 5)
    assert jobs["ends"].state == "ended"


def test_twenty_kills_at_random_moments(slaqd: Slaqd) -> None:
    moments = random.Random(20)  # noqa: S311 - moments, no secret
    slaqd.start()
    for number in range(3):
        slaqd.busy(f"b{number}", "--min", "10", "--max", "10")
    for number in range(3):
        slaqd.comes_to(f"b{number}", units=10)
    names = [f"b{number}" for number in range(3)]
    for turn in range(KILLS):
        if turn % 5 == 2:
            name = f"late{turn}"
            slaqd.busy(name, "--min", "2", "--max", "2")
            slaqd.comes_to(name, state="running")
            names.append(name)
        time.sleep(moments.uniform(0.0, 0.5))
        slaqd.stop(signal.SIGKILL)
        slaqd.start()
    slaqd.cycles(2)
    jobs = slaqd.jobs()
    assert sorted(jobs) == sorted(names)
    assert all(started.poll() is None for started in slaqd.started)
    for name in names:
        units = 10 if name.startswith("b") else 2
        assert (jobs[name].state, jobs[name].units, slaqd.quota(name)) == ("running", units, units)
    slaqd.stop()
    journal = Journal(slaqd.state / "journal.sqlite")
    rows = [row.id for row in journal.actions()]
    assert len(set(rows)) == len(rows)
    assert len(journal.registrations()) == len(names)
    journal.close()


def test_kills_in_the_middle_of_starting_up(slaqd: Slaqd) -> None:
    slaqd.start()
    slaqd.busy("a", "--min", "10", "--max", "10")
    slaqd.comes_to("a", units=10)
    slaqd.stop(signal.SIGKILL)
    moments = random.Random(7)  # noqa: S311 - moments, no secret
    for _ in range(KILLS):
        started = subprocess.Popen(
            [*SLAQD, "--config", str(slaqd.config)], stderr=subprocess.DEVNULL, env=slaqd.env
        )
        time.sleep(moments.uniform(0.05, 0.6))
        started.kill()
        started.wait()
    slaqd.start()
    slaqd.comes_to("a", units=10)
    assert list(slaqd.jobs()) == ["a"]


def waiting(slaqd: Slaqd) -> subprocess.Popen[bytes]:
    """Start a command for which there is no room; come back when it knows that it waits.

    slaqd knows it first: one that is killed before it has answered is asked again once it is back.
    """
    started = slaqd.run("second", "/bin/sh", "-c", "exit 6", options=["--min", "5"])
    slaqd.comes_to("second", state="waiting")
    wait_for(lambda: slaqd.told("second"), lambda: "the command says why it waits")
    return started


def test_a_command_that_waits_outlives_the_daemon(slaqd: Slaqd) -> None:
    slaqd.start()
    first = slaqd.busy("first", "--min", "40", "--max", "40")
    slaqd.comes_to("first", units=40)
    second = waiting(slaqd)
    slaqd.stop(signal.SIGKILL)
    slaqd.start()
    slaqd.comes_to("second", state="waiting")
    assert second.poll() is None
    first.terminate()
    assert second.wait(PATIENCE_S) == 6


def test_a_command_that_waits_starts_without_a_daemon_that_stays_away(slaqd: Slaqd) -> None:
    slaqd.start()
    slaqd.busy("first", "--min", "40", "--max", "40")
    slaqd.comes_to("first", units=40)
    second = waiting(slaqd)
    slaqd.stop(signal.SIGKILL)
    assert second.wait(PATIENCE_S) == 6
    assert "starting without slaqd" in slaqd.told("second")


def test_a_daemon_that_is_stopped_is_said_to_be_with_status_4(slaqd: Slaqd) -> None:
    slaqd.start()
    assert slaqd.process is not None
    slaqd.process.send_signal(signal.SIGSTOP)
    done = slaqd.ctl("jobs")
    assert done.returncode == 4
    assert f"does not answer within {clients.TIMEOUT_S:g} s" in done.stderr
    assert clients.TIMEOUT_S < 2
    restore = slaqd.ctl("restore", "--all")
    assert restore.returncode == 4
    assert slaqd.run("job", "/bin/sh", "-c", "exit 8").wait(PATIENCE_S) == 8
    assert "running unmanaged" in slaqd.told("job")
    slaqd.process.send_signal(signal.SIGCONT)
    slaqd.cycles(2)
    assert slaqd.ctl("jobs").returncode == 0


def test_a_second_daemon_on_the_same_state_ends_with_75(slaqd: Slaqd) -> None:
    slaqd.start()
    assert slaqd.process is not None
    words = [*SLAQD, "--config", str(slaqd.config)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 75
    assert f"held by another slaqd (pid {slaqd.process.pid})" in done.stderr
    slaqd.cycles(1)


def test_a_second_daemon_on_the_same_socket_leaves_the_first_in_peace(slaqd: Slaqd, tmp_path: Path) -> None:
    slaqd.start()
    other = Slaqd(tmp_path, state=tmp_path / "other")
    words = [*SLAQD, "--config", str(other.config)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 74
    assert "another process answers there" in done.stderr
    slaqd.cycles(1)


def test_a_wrapper_that_is_killed_leaves_its_job_to_slaqd(slaqd: Slaqd) -> None:
    slaqd.start()
    started = slaqd.busy("orphan", "--min", "3", "--max", "3")
    slaqd.comes_to("orphan", units=3)
    started.kill()
    started.wait()
    slaqd.cycles(2)
    assert slaqd.quota("orphan") == 3
    wait_for(lambda: slaqd.job("orphan").state == "running", slaqd.said)
