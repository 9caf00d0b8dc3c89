"""A real slaqd over real jobs on this machine, from the command line as people use it."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from living import PATIENCE_S, SLAQCTL, Make, Slaqd, quota_of, wait_for

pytestmark = pytest.mark.service


def test_two_jobs_share_the_room_and_the_kernel_holds_them(make: Make) -> None:
    slaqd = make().start()
    slaqd.busy("a")
    slaqd.busy("b", "--min", "3", "--max", "3")
    slaqd.comes_to("b", state="running", units=3, lever="cpus")
    slaqd.comes_to("a", state="running", units=37)
    assert (slaqd.quota("a"), slaqd.quota("b")) == (37, 3)


@pytest.mark.parametrize("enforce", [True, False], ids=["enforce", "observe"])
@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
    ],
)
def test_a_command_ends_with_its_own_status(make: Make, script: str, status: int, *, enforce: bool) -> None:
    slaqd = make(mode="enforce" if enforce else "observe").start()
    assert slaqd.run("job", "/bin/sh", "-c", script).wait(PATIENCE_S) == status
    view = slaqd.comes_to("job", state="ended", exit_status=status)
    assert f"exit status {status}" in view.reason


@pytest.mark.parametrize(
    ("content", "mode", "status", "said"),
    [
        (None, 0, 127, "no such command"),
        ("#!/bin/sh\n", 0o644, 126, "not executable"),
        ("#!/no/such/interpreter\n", 0o755, 126, "No such file or directory"),
    ],
)
def test_a_command_that_cant_be_run_ends_as_in_a_shell(
    make: Make, tmp_path: Path, content: str | None, mode: int, status: int, said: str
) -> None:
    slaqd = make().start()
    command = tmp_path / "command"
    if content is not None:
        command.write_text(content, encoding="utf-8")
        command.chmod(mode)
    assert slaqd.run("job", str(command)).wait(PATIENCE_S) == status
    assert said in slaqd.told("job")
    assert str(command) in slaqd.told("job")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_job(make: Make, tmp_path: Path, number: signal.Signals) -> None:
    slaqd = make().start()
    ready = tmp_path / "ready"
    script = f"trap 'exit 42' {number.name[3:]}; touch {ready}; while :; do sleep 0.05; done"
    started = slaqd.run("job", "/bin/sh", "-c", script)
    wait_for(ready.exists, lambda: slaqd.told("job"))
    started.send_signal(number)
    assert started.wait(PATIENCE_S) == 42


def test_a_command_waits_while_there_is_no_room_and_is_told_so(make: Make) -> None:
    slaqd = make().start()
    first = slaqd.busy("first", "--min", "30", "--max", "30")
    slaqd.comes_to("first", units=30)
    second = slaqd.run("second", "/bin/sh", "-c", "exit 5", options=["--min", "20"])
    slaqd.comes_to("second", state="waiting", wait=True)
    wait_for(lambda: "needs 20 units, 10 free" in slaqd.told("second"), lambda: slaqd.told("second"))
    assert second.poll() is None
    first.terminate()
    assert second.wait(PATIENCE_S) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_waits_can_be_ended(make: Make, number: signal.Signals) -> None:
    slaqd = make().start()
    slaqd.busy("first", "--min", "40", "--max", "40")
    slaqd.comes_to("first", units=40)
    second = slaqd.run("second", "/bin/sh", "-c", "touch never")
    slaqd.comes_to("second", state="waiting")
    second.send_signal(number)
    assert second.wait(PATIENCE_S) == 128 + number
    slaqd.comes_to("second", state="ended")
    assert not Path("never").exists()


def test_observing_changes_nothing(make: Make) -> None:
    slaqd = make(mode="observe").start()
    slaqd.busy("a")
    free = slaqd.free_group()
    assert slaqd.ctl("adopt", str(free.pid), "--name", "b").returncode == 0
    slaqd.comes_to("b", state="running", plan=20, units=None)
    slaqd.comes_to("a", state="running", plan=20, units=None)
    slaqd.cycles(2)
    assert (slaqd.quota("a"), slaqd.quota("b")) == (None, None)
    assert "observing only" in slaqd.status().sentence


def test_what_runs_already_is_adopted_with_its_children(make: Make) -> None:
    slaqd = make().start()
    free = slaqd.free_group("/bin/sh", "-c", f"{sys.executable} -c 'while True: pass' & wait")
    done = slaqd.ctl("adopt", str(free.pid), "--max", "5", "--name", "b")
    assert done.stdout == f"job {free.pid} (b) is slaqd's now\n"
    slaqd.comes_to("b", units=5)
    (child,) = Path(f"/proc/{free.pid}/task/{free.pid}/children").read_text(encoding="ascii").split()
    wait_for(lambda: quota_of(int(child)) == 5, slaqd.said)


def test_a_training_is_followed_to_its_loss(make: Make) -> None:
    slaqd = make(policy="slaq").start()
    slaqd.training("t")
    view = wait_for(lambda: (v := slaqd.jobs().get("t")) and v.points > 20 and v, slaqd.said)
    assert view.health == "ok"
    assert view.loss is not None
    assert 1 < view.loss < 5
    wait_for(lambda: slaqd.job("t").fall is not None, slaqd.said)
    assert "t.jsonl" in slaqd.ctl("show", view.job).stdout


def test_pause_keeps_what_a_job_has_and_resume_goes_on(make: Make) -> None:
    slaqd = make().start()
    slaqd.busy("a")
    slaqd.comes_to("a", units=40)
    job = slaqd.job("a").job
    assert slaqd.ctl("pause", job).returncode == 0
    slaqd.busy("b", "--min", "1")
    slaqd.comes_to("b", state="waiting")
    slaqd.cycles(2)
    assert slaqd.quota("a") == 40
    assert slaqd.ctl("resume", job).returncode == 0
    slaqd.comes_to("b", units=20)
    slaqd.comes_to("a", units=20)


def test_restore_lifts_one_job_and_resume_takes_it_up_again(make: Make) -> None:
    slaqd = make().start()
    slaqd.busy("a", "--max", "10")
    slaqd.busy("b", "--max", "10")
    slaqd.comes_to("a", units=10)
    slaqd.comes_to("b", units=10)
    job = slaqd.job("a").job
    assert slaqd.ctl("restore", job).returncode == 0
    slaqd.cycles(2)
    assert (quota_of(int(job)), slaqd.quota("b")) == (None, 10)
    assert slaqd.ctl("resume", job).returncode == 0
    slaqd.comes_to("a", units=10, paused=False)


def test_a_graceful_stop_lifts_the_quotas_and_a_new_start_finds_the_jobs(make: Make) -> None:
    slaqd = make().start()
    started = slaqd.busy("a", "--max", "10")
    slaqd.comes_to("a", units=10)
    job = slaqd.job("a").job
    assert slaqd.stop() == 0
    assert quota_of(int(job)) is None
    assert not slaqd.socket.exists()
    assert started.poll() is None
    slaqd.start()
    view = slaqd.comes_to("a", units=10)
    assert view.job == job


def test_after_a_crash_restore_lifts_the_quotas_without_a_daemon(make: Make) -> None:
    slaqd = make().start()
    slaqd.busy("a", "--max", "10")
    slaqd.comes_to("a", units=10)
    job = slaqd.job("a").job
    assert slaqd.stop(signal.SIGKILL) == -signal.SIGKILL
    assert quota_of(int(job)) == 10
    done = slaqd.ctl("restore", "--all")
    assert done.returncode == 0, done.stderr
    assert "no daemon is running" in done.stdout
    assert quota_of(int(job)) is None
    assert slaqd.ctl("restore", "4711").returncode == 3


def test_without_a_daemon_a_command_runs_unmanaged_with_a_warning(make: Make) -> None:
    slaqd = make()
    assert slaqd.run("job", "/bin/sh", "-c", "exit 9").wait(PATIENCE_S) == 9
    assert "running unmanaged" in slaqd.told("job")
    assert "no slaqd is running" in slaqd.told("job")


def test_once_does_one_cycle_and_leaves_what_it_set(make: Make) -> None:
    slaqd = make().start()
    slaqd.busy("a", "--max", "10")
    slaqd.comes_to("a", units=10)
    job = slaqd.job("a").job
    slaqd.stop()
    done = subprocess.run(
        [sys.executable, "-m", "slaqd.daemon", "--config", str(slaqd.config), "--once"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True, env=slaqd.env,
    )  # fmt: skip
    assert "cycle=1" in done.stderr
    assert quota_of(int(job)) is not None
    slaqd.start()


def test_the_daemons_own_words_are_one_line_a_cycle_without_escapes(make: Make) -> None:
    slaqd = make().start()
    slaqd.run("a\x1b[31m\nb", "/bin/sh", "-c", "sleep 1").wait(PATIENCE_S)
    slaqd.cycles(3)
    slaqd.stop()
    said = slaqd.said()
    assert "\x1b" not in said
    lines = said.splitlines()
    assert all(line.startswith("timestamp=") for line in lines)
    assert sum('event="no jobs"' in line or "running" in line for line in lines) >= 3


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def _state(pid: int) -> str:
    return _stat(pid)[0]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


SHELL = ("bash", "--norc", "--noprofile", "-i")


class Screen:
    """A shell, or another command, on a terminal of its own."""

    def __init__(self, slaqd: Slaqd, words: Sequence[str] = SHELL) -> None:
        self.shown = ""
        self.pid, self.leader = pty.fork()
        if self.pid == 0:
            env = {**slaqd.env, "PS1": "ready> ", "TERM": "dumb"}
            os.execvpe(words[0], list(words), env)  # noqa: S606 - a shell with job control is the point

    def types(self, text: str) -> None:
        os.write(self.leader, text.encode())

    def shows(self, text: str) -> None:
        """Wait until the screen shows ``text`` beyond what it had shown so far."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < until, f"the screen never showed {text!r}: {self.shown!r}"
            if select.select([self.leader], [], [], 0.5)[0]:
                self.shown += os.read(self.leader, 65536).decode(errors="replace")
        self.shown = self.shown.partition(text)[2]

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.leader)


@pytest.fixture
def screen(make: Make) -> Iterator[tuple[Screen, Slaqd]]:
    slaqd = make(epoch_s=0.3).start()
    made = Screen(slaqd)
    made.shows("ready> ")
    yield made, slaqd
    made.close()


def line(slaqd: Slaqd, script: str, ampersand: str = "") -> str:
    """Write the line that people type."""
    python = shlex.quote(SLAQCTL[2])
    return (
        f"{SLAQCTL[0]} -c {python} run --config {slaqd.config} --name job -- "
        f"bash -c {shlex.quote(script)} 2>/dev/null{ampersand}\n"
    )


def test_ctrl_c_reaches_the_job(screen: tuple[Screen, Slaqd]) -> None:
    terminal, slaqd = screen
    terminal.types(
        line(slaqd, "trap 'echo ca''ught; exit 3' INT; echo st''arted; while :; do sleep 0.05; done")
    )
    terminal.shows("started")
    terminal.types("\x03")
    terminal.shows("caught")
    terminal.types("echo sta''tus=$?\n")
    terminal.shows("status=3")


def test_ctrl_z_stops_the_job_and_fg_goes_on_with_it(screen: tuple[Screen, Slaqd]) -> None:
    terminal, slaqd = screen
    terminal.types(line(slaqd, "echo st''arted; read -r word; echo got-$word"))
    terminal.shows("started")
    terminal.types("\x1a")
    terminal.shows("Stopped")
    terminal.types("echo at the pr''ompt\n")
    terminal.shows("at the prompt")
    job = int(slaqd.job("job").job)
    assert _state(job) == "T"
    terminal.types("fg\n")
    wait_for(
        lambda: _state(job) != "T",
        slaqd.said,
    )
    terminal.types("bread\n")
    terminal.shows("got-bread")


def test_ctrl_z_in_a_script_stops_the_script_too(screen: tuple[Screen, Slaqd], tmp_path: Path) -> None:
    terminal, slaqd = screen
    script = tmp_path / "script"
    script.write_text(line(slaqd, "echo st''arted; read -r word; echo got-$word") + "echo aft''er\n", "utf-8")
    terminal.types(f"sh {script}\n")
    terminal.shows("started")
    terminal.types("\x1a")
    terminal.shows("Stopped")
    terminal.types("fg\n")
    terminal.types("bread\n")
    terminal.shows("got-bread")
    terminal.shows("after")


def test_ctrl_z_without_a_shell_to_go_on_after_it_is_passed_over(make: Make) -> None:
    slaqd = make().start()
    terminal = Screen(slaqd, shlex.split(line(slaqd, "echo started; read -r word; echo got-$word"))[:-1])
    terminal.shows("started")
    terminal.types("\x1a")
    terminal.types("bread\n")
    terminal.shows("got-bread")
    terminal.close()


def test_a_job_sent_to_the_background_leaves_the_prompt_alone(screen: tuple[Screen, Slaqd]) -> None:
    terminal, slaqd = screen
    terminal.types(line(slaqd, "echo st''arted; sleep 2; echo fin''ished"))
    terminal.shows("started")
    terminal.types("\x1a")
    terminal.shows("Stopped")
    terminal.types("bg\n")
    terminal.types("echo still the pr''ompt\n")
    terminal.shows("still the prompt")
    terminal.shows("finished")
    terminal.types("wait; echo and aft''er\n")
    terminal.shows("and after")


def test_a_job_in_the_background_that_reads_can_be_brought_to_the_front(screen: tuple[Screen, Slaqd]) -> None:
    terminal, slaqd = screen
    terminal.types(line(slaqd, "echo st''arted; read -r word; echo got-$word", " &"))
    terminal.shows("started")
    job = int(slaqd.job("job").job)
    wait_for(lambda: _state(job) == "T", slaqd.said)
    wait_for(lambda: _state(_parent(job)) == "T", slaqd.said)
    terminal.types("fg\n")
    terminal.types("bread\n")
    terminal.shows("got-bread")
    terminal.shows("ready> ")
