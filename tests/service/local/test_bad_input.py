"""Whatever a user gives: a clear message, the job shown as such, and the job beside it unharmed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from living import BUSY, PATIENCE_S, SLAQD, Slaqd, wait_for

pytestmark = pytest.mark.service

NAN = b"".join(b'{"step": %d, "loss": NaN}\n' % step for step in range(1, 6))
LOGS = {
    "empty": b"",
    "rubbish": bytes(range(256)) * 64,
    "nan": NAN,
    "words": b"starting up\nloading data\nno numbers here\n" * 20,
    "huge line": b"x" * 3_000_000,
    "half a line": b'{"step": 1, "lo',
    "numbers too large": b'{"step": 1e400, "loss": 1e400}\n' * 5,
    "no loss": b'{"epoch": 1, "lr": 0.1}\n' * 5,
    "unclosed": b'{"a": ' * 20_000 + b"\n",
    "nul": b"\0" * 100_000,
}


@pytest.fixture
def slaqd(tmp_path: Path) -> Iterator[Slaqd]:
    made = Slaqd(tmp_path, policy="slaq").start()
    yield made
    made.clean()


def test_bad_logs_are_named_and_hurt_no_job(slaqd: Slaqd, tmp_path: Path) -> None:
    for name, content in LOGS.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a directory").mkdir()
    os.mkfifo(tmp_path / "a pipe")
    (tmp_path / "in a circle").symlink_to(tmp_path / "in a circle")
    names = [*LOGS, "a directory", "a pipe", "in a circle", "missing"]
    slaqd.training("good")
    for name in names:
        slaqd.run(name, sys.executable, "-c", BUSY, options=["--log", str(tmp_path / name), "--max", "2"])
    for name in names:
        view = slaqd.comes_to(name, state="running", units=2)
        assert view.health != "ok", name
        assert str(tmp_path / name) in f"{view.log} {view.note}", view
        assert view.health in {"empty", "half a line"} or view.note, view
        shown = slaqd.ctl("show", view.job)
        assert shown.returncode == 0
        assert str(tmp_path / name) in shown.stdout
        assert view.health in shown.stdout
    rows = slaqd.ctl("jobs").stdout.splitlines()
    assert len(rows) == 2 + len(names)
    healths = {name: slaqd.job(name).health for name in names}
    expected = {"missing": "missing", "empty": "empty", "a directory": "unreadable", "nan": "diverged"}
    assert {name: healths[name] for name in expected} == expected
    good = wait_for(lambda: next((v for v in [slaqd.job("good")] if v.points > 10), None), slaqd.said)
    assert good.health == "ok"
    assert (good.units or 0) > 2
    assert "a fault" not in slaqd.said()


def test_a_log_that_comes_late_is_followed_from_then_on(slaqd: Slaqd, tmp_path: Path) -> None:
    log = tmp_path / "late.jsonl"
    slaqd.run("late", sys.executable, "-c", BUSY, options=["--log", str(log)])
    slaqd.comes_to("late", state="running", health="missing")
    log.write_text("".join(f'{{"step": {k}, "loss": {5 / k}}}\n' for k in range(1, 6)), encoding="utf-8")
    slaqd.comes_to("late", health="ok", points=5)
    log.unlink()
    log.mkdir()
    slaqd.comes_to("late", health="unreadable")
    assert slaqd.job("late").points == 5


def test_jobs_that_exit_at_once_come_and_go(slaqd: Slaqd) -> None:
    slaqd.busy("beside", "--min", "2", "--max", "2")
    slaqd.comes_to("beside", units=2)
    started = [slaqd.run(f"quick-{n}", "/bin/sh", "-c", f"exit {n}") for n in range(8)]
    assert [one.wait(PATIENCE_S) for one in started] == list(range(8))
    for number in range(8):
        slaqd.comes_to(f"quick-{number}", state="ended", exit_status=number)
    assert slaqd.quota("beside") == 2
    assert "a fault" not in slaqd.said()


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Slaqd]:
    """Run a slaqd that leads a process group of its own, and holds jobs by keepers."""
    made = Slaqd(tmp_path, means="keeper")
    with made.log.open("ab") as log:
        words = [*SLAQD, "--config", str(made.config)]
        made.process = subprocess.Popen(words, stderr=log, env=made.env, process_group=0)
    yield made
    made.clean()


def test_slaqds_own_group_and_its_keepers_are_not_adopted(apart: Slaqd) -> None:
    assert apart.process is not None
    wait_for(lambda: "cycle=1" in apart.said(), apart.said)
    apart.busy("a", "--max", "7")
    apart.comes_to("a", units=7)
    own = apart.process.pid
    children = [each.read_text(encoding="ascii") for each in Path(f"/proc/{own}/task").glob("*/children")]
    (keeper,) = " ".join(children).split()
    for group, said in (str(own), "is the one that slaqd runs in"), (keeper, "is a keeper's"):
        done = apart.ctl("adopt", group)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"slaqctl: process group {group} {said}" in done.stderr
    assert list(apart.jobs()) == ["a"]


def test_a_job_whose_processes_are_killed_is_shown_as_ended(slaqd: Slaqd) -> None:
    free = slaqd.free_group()
    assert slaqd.ctl("adopt", str(free.pid), "--name", "victim").returncode == 0
    slaqd.comes_to("victim", state="running")
    free.kill()
    slaqd.comes_to("victim", state="ended", exit_status=None)  # not reaped yet: a zombie is not alive
    free.wait()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("run", "--log", "{foo}.csv", "--", "true"), 1, "{foo} is not known"),
        (("run", "--log", "a\nb", "--", "true"), 1, "printable characters"),
        (("run", "--log", "", "--", "true"), 1, "printable characters"),
        (("run", "--min", "5", "--max", "2", "--", "true"), 1, "min=5 is above max=2"),
        (("run", "--", "no-such-command-anywhere"), 127, "no-such-command-anywhere: no such command"),
        (("adopt", "4194305"), 3, "no process group has the id 4194305"),
        (("adopt", "2"), 3, "leads no group"),
    ],
)
def test_what_cant_be_is_said_and_registers_nothing(
    slaqd: Slaqd, words: tuple[str, ...], status: int, said: str
) -> None:
    done = slaqd.ctl(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert slaqd.jobs() == {}


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("slaq:v1 logg=x", "unknown key 'logg'"),
        ("slaq:v1 min=none", "min=none"),
        ("slaq:v9 log=x", "slaq:v9"),
    ],
)
def test_a_bad_tag_in_the_environment_is_said(slaqd: Slaqd, tag: str, said: str) -> None:
    slaqd.env["SLAQ_TAG"] = tag
    done = slaqd.ctl("run", "--", "true")
    assert done.returncode == 1
    assert said in done.stderr


def test_the_tag_in_the_environment_counts_and_options_win(slaqd: Slaqd) -> None:
    slaqd.env["SLAQ_TAG"] = "slaq:v1 min=3 max=9"
    slaqd.busy("tagged", "--max", "4")
    view = slaqd.comes_to("tagged", units=4)
    assert (view.min, view.max) == (3, 4)


def test_a_job_that_asks_to_be_left_alone_runs_at_once_and_free(slaqd: Slaqd) -> None:
    slaqd.env["SLAQ_TAG"] = "slaq:v1 lever=none"
    assert slaqd.run("free", "/bin/sh", "-c", "exit 4").wait(PATIENCE_S) == 4


def test_a_place_that_is_no_text_is_said_and_the_command_runs_unmanaged(slaqd: Slaqd, tmp_path: Path) -> None:
    strange = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(strange)  # noqa: PTH102 - a path that is no text
    done = slaqd.ctl("run", "--", "/bin/sh", "-c", "exit 7", cwd=strange)
    assert done.returncode == 7
    assert (
        "running unmanaged: slaqd can't be told the working directory: its name is not UTF-8" in done.stderr
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[slaqd]\nepoc_s = 3\n", "{path}:2: unknown key 'epoc_s' in [slaqd]; known: mode, adapter, epoch_s"),
        ("[adapter.local]\nunits = 3\n", "{path}:2: unknown key 'units' in [adapter.local]"),
        ("[adapter.local]\n\nunit_milli = 1\n", "{path}:3: adapter.local.unit_milli: "),
        ("[policy]\nname = 'fairest'\n", "{path}:2: policy.name: no policy is called 'fairest'"),
        ("[slaqd]\nadapter = 'pbs'\n", "{path}:2: slaqd.adapter: no adapter is called 'pbs'"),
        ("[slaqd]\nsocket = '/etc'\n", "{path}:2: slaqd.socket: '/etc' is a directory"),
        ('[slaqd]\nstate_dir = "/a\\u0000"\n', "{path}:2: slaqd.state_dir: has a NUL in it"),
        ("[agent]\nsocket = 'a'\n", "{path}:2: agent.socket: 'a' is not an absolute path"),
        ("nonsense", "{path}: not TOML: "),
        (None, "{path}: can't be read: No such file or directory"),
    ],
)
@pytest.mark.parametrize("check", [True, False], ids=["check", "start"])
def test_a_bad_configuration_ends_with_78_and_the_place(
    tmp_path: Path, text: str | None, said: str, *, check: bool
) -> None:
    path = tmp_path / "c.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "slaqd.daemon",
        "--config",
        str(path),
        *(["--check-config"] if check else []),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.startswith("slaqd: " + said.format(path=path))
    assert "Traceback" not in done.stderr


def test_a_good_configuration_is_called_good(tmp_path: Path) -> None:
    slaqd = Slaqd(tmp_path)
    words = [sys.executable, "-m", "slaqd.daemon", "--config", str(slaqd.config), "--check-config"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == f"{slaqd.config}: good\n"
    assert not slaqd.state.exists()


@pytest.mark.parametrize(("key", "status"), [("state_dir", 78), ("socket", 74)])
def test_a_place_that_cant_be_used_ends_slaqd_and_is_named(tmp_path: Path, key: str, status: int) -> None:
    (tmp_path / "file").write_text("my thesis", encoding="utf-8")
    slaqd = Slaqd(tmp_path)
    place = tmp_path / "file" if key == "socket" else tmp_path / "file" / "state"
    old = slaqd.socket if key == "socket" else slaqd.state
    text = slaqd.config.read_text(encoding="utf-8").replace(str(old), str(place))
    slaqd.config.write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "slaqd.daemon", "--config", str(slaqd.config)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == status
    assert f"{place}: " in done.stderr
    assert (tmp_path / "file").read_text(encoding="utf-8") == "my thesis"
