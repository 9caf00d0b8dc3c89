"""The brakes on a real slaqd: the stop file, SIGHUP, drop, doctor, a terminal that is closed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from living import PATIENCE_S, SLAQD, Make, Slaqd, quota_of, wait_for

pytestmark = pytest.mark.service


def hang_up(slaqd: Slaqd) -> None:
    assert slaqd.process is not None
    slaqd.process.send_signal(signal.SIGHUP)


def change(slaqd: Slaqd, old: str, new: str) -> None:
    text = slaqd.config.read_text(encoding="utf-8")
    assert old in text
    slaqd.config.write_text(text.replace(old, new), encoding="utf-8")


def test_a_stop_file_halts_a_running_slaqd_and_its_going_lets_it_go_on(make: Make, tmp_path: Path) -> None:
    slaqd = make().start()
    slaqd.busy("a", "--max", "20")
    slaqd.comes_to("a", units=20)
    (tmp_path / "stop").touch()
    wait_for(lambda: "halted by the file" in slaqd.status().sentence, slaqd.said)
    slaqd.busy("b", "--max", "5")
    view = slaqd.comes_to("b", state="running", units=None)
    assert slaqd.quota("b") is None
    assert (slaqd.job("a").units, view.wait) == (20, False)
    assert f"halted by the file {tmp_path}/stop" in slaqd.ctl("jobs").stderr
    (tmp_path / "stop").unlink()
    slaqd.comes_to("b", units=5)


def test_a_new_configuration_is_taken_on_sighup_and_a_bad_one_is_not(make: Make) -> None:
    slaqd = make().start()
    slaqd.busy("a", "--max", "20")
    slaqd.comes_to("a", units=20)
    change(slaqd, "'fair'", "'slaq'")
    hang_up(slaqd)
    wait_for(lambda: slaqd.status().policy == "slaq", slaqd.said)
    change(slaqd, "'slaq'", "'fairest'")
    hang_up(slaqd)
    wait_for(lambda: "no policy is called 'fairest'" in slaqd.status().config_error, slaqd.said)
    assert slaqd.status().policy == "slaq"
    change(slaqd, "'fairest'", "'fair'")
    change(slaqd, "unit_milli = 10", "unit_milli = 20")
    hang_up(slaqd)
    wait_for(lambda: "adapter.local.unit_milli" in slaqd.status().config_error, slaqd.said)
    assert "restart it for that" in slaqd.status().config_error
    doctor = slaqd.ctl("doctor")
    assert doctor.returncode == 1
    assert "the newest configuration is not in use" in doctor.stdout
    change(slaqd, "unit_milli = 20", "unit_milli = 10")
    hang_up(slaqd)
    wait_for(lambda: not slaqd.status().config_error, slaqd.said)
    assert slaqd.status().policy == "fair"
    assert (slaqd.job("a").units, slaqd.quota("a")) == (20, 20)


def test_a_pipe_in_the_configurations_place_leaves_the_old_one_in_force(make: Make) -> None:
    slaqd = make().start()
    slaqd.config.unlink()
    os.mkfifo(slaqd.config)
    hang_up(slaqd)
    wait_for(lambda: "it is no regular file" in slaqd.status().config_error, slaqd.said)
    slaqd.cycles(2)
    done = slaqd.ctl("jobs")
    assert done.returncode == 1
    assert done.stderr == f"slaqctl: {slaqd.config}: can't be read: it is no regular file\n"


def test_a_mode_from_the_command_line_outlives_sighup(make: Make) -> None:
    slaqd = make(mode="enforce").start("--mode", "observe")
    change(slaqd, "'fair'", "'slaq'")
    hang_up(slaqd)
    wait_for(lambda: slaqd.status().policy == "slaq", slaqd.said)
    assert slaqd.status().mode.value == "observe"


def test_a_pause_outlives_sighup_and_a_restart(make: Make) -> None:
    slaqd = make().start()
    assert slaqd.ctl("pause").returncode == 0
    hang_up(slaqd)
    wait_for(lambda: "read anew" in slaqd.said(), slaqd.said)
    assert slaqd.status().paused
    slaqd.stop()
    slaqd.start()
    assert slaqd.status().paused
    slaqd.ctl("resume")
    assert not slaqd.status().paused


def test_a_dropped_job_runs_on_free_and_can_be_adopted_again(make: Make) -> None:
    slaqd = make().start()
    free = slaqd.free_group()
    assert slaqd.ctl("adopt", str(free.pid), "--name", "a", "--max", "9").returncode == 0
    slaqd.comes_to("a", units=9)
    assert slaqd.quota("a") == 9
    done = slaqd.ctl("drop", str(free.pid))
    assert (done.returncode, done.stderr) == (0, "")
    assert slaqd.jobs() == {}
    slaqd.cycles(2)
    assert slaqd.jobs() == {}
    assert free.poll() is None
    assert slaqd.ctl("adopt", str(free.pid), "--name", "a", "--max", "7").returncode == 0
    slaqd.comes_to("a", units=7)


def test_a_waiting_command_that_is_dropped_starts_at_once_unheld(make: Make) -> None:
    slaqd = make().start()
    slaqd.busy("first", "--min", "40", "--max", "40")
    slaqd.comes_to("first", units=40)
    second = slaqd.run("second", "/bin/sh", "-c", "exit 6", options=["--min", "5"])
    job = slaqd.comes_to("second", state="waiting").job
    assert slaqd.ctl("drop", job).returncode == 0
    assert second.wait(PATIENCE_S) == 6
    assert "second" not in slaqd.jobs()


def test_doctor_tells_of_a_real_slaqd_and_of_one_that_is_gone(make: Make) -> None:
    slaqd = make().start()
    slaqd.config.chmod(0o600)
    slaqd.training("good")
    slaqd.comes_to("good", health="ok")
    slaqd.run("bad", "/bin/sleep", "60", options=["--log", "/no/such/log"])
    slaqd.comes_to("bad", health="missing")
    for gone in (False, True):
        if gone:
            slaqd.stop(signal.SIGKILL)
        found = {each["what"]: each["severity"] for each in slaqd.asked("doctor")}
        said = "\n".join(found)
        assert f"its log {slaqd.folder}/good.jsonl is ok" in said
        assert "its log /no/such/log is missing" in said or "/no/such/log" in said
        assert ("no slaqd is running there" in said) is gone
        assert "error" not in found.values()
    slaqd.start()


def test_a_slaqd_whose_terminal_is_closed_stops_and_frees_its_jobs(make: Make) -> None:
    slaqd = make()
    leader, follower = pty.openpty()
    with slaqd.log.open("ab") as log:
        slaqd.process = subprocess.Popen(
            ["setsid", "--ctty", *SLAQD, "--config", str(slaqd.config)],
            stdin=follower, stdout=log, stderr=log, env=slaqd.env,
        )  # fmt: skip
    os.close(follower)
    wait_for(slaqd._answers, slaqd.said)
    slaqd.busy("a", "--max", "20")
    slaqd.comes_to("a", units=20)
    os.close(leader)
    assert slaqd.process.wait(PATIENCE_S) == 0
    assert "slaqd stops: jobs go on" in slaqd.said()
    slaqd.process = None
    slaqd.start()
    slaqd.comes_to("a", units=20)


def test_a_restore_without_a_daemon_works_beside_a_stop_file(make: Make, tmp_path: Path) -> None:
    slaqd = make().start()
    slaqd.busy("a", "--max", "20")
    slaqd.comes_to("a", units=20)
    job = int(slaqd.job("a").job)
    slaqd.stop(signal.SIGKILL)
    (tmp_path / "stop").touch()
    assert quota_of(job) == 20
    done = slaqd.ctl("restore", "--all")
    assert (done.returncode, "given back what they had: 1" in done.stdout) == (0, True)
    assert quota_of(job) is None
    slaqd.start()


def test_a_drop_without_a_daemon_lifts_the_jobs_quota_and_the_next_slaqd_knows_it_no_more(make: Make) -> None:
    slaqd = make().start()
    for name, size in (("gone", "20"), ("stays", "9")):
        slaqd.busy(name, "--min", size, "--max", size)
        slaqd.comes_to(name, units=int(size))
    gone, stays = int(slaqd.job("gone").job), int(slaqd.job("stays").job)
    slaqd.stop(signal.SIGKILL)
    done = slaqd.ctl("drop", str(gone))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"no daemon is running; by the journal in {slaqd.state}, job {gone} has back what it had,"
        " and slaqd knows it no more\n"
    )
    assert (quota_of(gone), quota_of(stays)) == (None, 9)
    assert slaqd.ctl("drop", str(gone)).returncode == 3
    slaqd.start()
    slaqd.comes_to("stays", units=9)
    slaqd.cycles(2)
    assert list(slaqd.jobs()) == ["stays"]
    assert quota_of(gone) is None
    assert slaqd.ctl("adopt", str(gone), "--name", "gone", "--max", "7").returncode == 0
    slaqd.comes_to("gone", units=7)


def test_a_drop_of_a_job_that_ended_without_a_daemon_forgets_it(make: Make) -> None:
    slaqd = make().start()
    started = slaqd.free_group()
    slaqd.ctl("adopt", str(started.pid), "--name", "a", "--max", "9")
    slaqd.comes_to("a", units=9)
    slaqd.stop(signal.SIGKILL)
    started.kill()
    started.wait()
    assert slaqd.ctl("drop", str(started.pid)).returncode == 0
    slaqd.start()
    assert slaqd.jobs() == {}
