"""slaqctl against a socket: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from put_together import Call, Daemon

from slaqd import wire
from slaqd.daemon.server import Server

LOOKS = (("jobs",), ("plan",), ("status",), ("show", "1"))


@pytest.mark.parametrize("words", LOOKS)
def test_what_prints_data_prints_it_as_json_too(daemon: Daemon, call: Call, words: tuple[str, ...]) -> None:
    daemon.start(1, name="train")
    daemon.cycle()
    status, out, _err = call(*words, "--json")
    assert status == 0
    assert json.loads(out)
    status, out, _err = call(*words)
    assert status == 0
    assert out
    assert "\x1b" not in out


def test_a_table_of_jobs_says_what_each_holds_and_why(daemon: Daemon, call: Call) -> None:
    daemon.start(1, name="train", log="/no/such/log")
    daemon.cycle()
    daemon.cycle()
    _status, out, _err = call("jobs")
    header, row = out.splitlines()
    assert header.split()[:5] == ["JOB", "NAME", "USER", "STATE", "UNITS"]
    assert row.split()[:5] == ["1", "train", "me", "running", "8"]
    assert "/no/such/log" in row


def test_control_characters_in_a_name_are_escaped_everywhere(daemon: Daemon, call: Call) -> None:
    daemon.start(1, name="a\x1b[31m\nb")
    daemon.cycle()
    for words in (("jobs",), ("show", "1"), ("plan",)):
        _status, out, _err = call(*words)
        assert "\x1b" not in out
        assert "a\\x1b[31m\\nb" in out
    _status, out, _err = call("jobs", "--json")
    assert json.loads(out)[0]["name"] == "a\x1b[31m\nb"


def test_ended_jobs_are_listed_on_request(daemon: Daemon, call: Call) -> None:
    key = daemon.start(1, name="train")
    daemon.cycle()
    daemon.manager.ended.add(key)
    daemon.cycle()
    status, out, err = call("jobs")
    assert (status, out) == (0, "")
    assert "no jobs; start one with" in err
    assert "ended after" in call("jobs", "--all")[1]
    assert json.loads(call("jobs", "--json")[1]) == []
    assert len(json.loads(call("jobs", "--all", "--json")[1])) == 1


def test_the_brakes_say_what_they_did(daemon: Daemon, call: Call) -> None:
    daemon.start(1)
    daemon.cycle()
    assert call("pause", "1")[:2] == (0, "job 1 is paused: it keeps what it has until: slaqctl resume 1\n")
    assert call("resume", "1")[:2] == (0, "job 1 goes on\n")
    assert "everything is paused" in call("pause")[1]
    assert "paused (slaqctl resume ends it)" in call("status")[1]
    assert call("resume")[1] == "everything goes on\n"
    assert "what they had: 1" in call("restore", "--all")[1]
    assert daemon.held() == {}


@pytest.mark.parametrize(
    "words",
    [
        ("shaw",), ("jobs", "--colour"), ("show",), ("restore",), ("restore", "1", "--all"), ("run",),
        ("run", "--min", "0", "--", "true"), ("run", "--better", "up", "--", "true"), ("adopt", "me"),
        ("run", "--max", "many", "--", "true"), ("predict",), ("run", "--weight", "0", "--", "true"),
    ],
)  # fmt: skip
def test_wrong_usage_ends_with_2(call: Call, words: tuple[str, ...]) -> None:
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err


@pytest.mark.parametrize("command", ["show", "pause", "resume", "restore"])
@pytest.mark.usefixtures("daemon")
def test_a_job_that_isnt_there_ends_with_3(call: Call, command: str) -> None:
    status, out, err = call(command, "4711")
    assert (status, out) == (3, "")
    assert err.startswith("slaqctl: slaqd knows no ")


@pytest.mark.usefixtures("daemon")
def test_a_group_that_isnt_there_ends_with_3(call: Call) -> None:
    assert call("adopt", str(2**22 + 1))[0] == 3
    inner = os.fork()  # a process that leads no group
    if inner == 0:
        signal.pause()
    status, _out, err = call("adopt", str(inner))
    os.kill(inner, signal.SIGKILL)
    os.waitpid(inner, 0)
    assert status == 3
    assert f"it is in group {os.getpgrp()}" in err


@pytest.mark.parametrize("words", [*LOOKS, ("pause",), ("resume",), ("adopt", "{leader}")])
def test_without_a_daemon_it_ends_with_4(call: Call, words: tuple[str, ...]) -> None:
    status, out, err = call(*words)
    assert (status, out) == (4, "")
    assert "no slaqd is running there; start one with: slaqd" in err


def test_a_daemon_that_doesnt_answer_ends_with_4(call: Call, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "s.sock"))
        mute.listen()
        status, _out, err = call("jobs")
    assert status == 4
    assert "does not answer within 1.5 s" in err


def test_what_belongs_to_somebody_else_ends_with_5(call: Call, tmp_path: Path) -> None:
    server = Server(tmp_path / "s.sock", lambda _request, _uid: wire.failure("not_permitted", "not yours"))
    for words in LOOKS:
        status, out, err = call(*words)
        assert (status, out, err) == (5, "", "slaqctl: not yours\n")
    server.close()


def test_a_refusal_ends_with_1_and_its_text_steers_no_terminal(call: Call, tmp_path: Path) -> None:
    server = Server(tmp_path / "s.sock", lambda _request, _uid: wire.failure("refused", "no\x1b[2J"))
    status, out, err = call("jobs")
    server.close()
    assert (status, out, err) == (1, "", "slaqctl: no\\x1b[2J\n")


def test_a_broken_configuration_ends_with_1_and_says_where(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLAQ_SOCKET")
    config = tmp_path / "c.toml"
    config.write_text("[slaqd]\nepoc_s = 3\n", encoding="utf-8")
    status, _out, err = call("jobs", "--config", str(config))
    assert status == 1
    assert f"{config}:2: unknown key 'epoc_s'" in err


@pytest.mark.parametrize("lines", [{"a.jsonl": 30}, {"a.csv": 30}])
def test_a_log_is_read_without_a_daemon(call: Call, tmp_path: Path, lines: Mapping[str, int]) -> None:
    ((name, count),) = lines.items()
    log = tmp_path / name
    rows = [(step, 1 + 5 / step) for step in range(1, count + 1)]
    if name.endswith("csv"):
        log.write_text("step,loss\n" + "".join(f"{step},{loss}\n" for step, loss in rows), encoding="utf-8")
    else:
        log.write_text("".join(json.dumps({"step": k, "loss": x}) + "\n" for k, x in rows), encoding="utf-8")
    status, out, _err = call("read", str(log), "--json")
    assert status == 0
    assert json.loads(out)["losses"] == [loss for _step, loss in rows]
    assert len(call("read", str(log))[1].splitlines()) == count + 1
    status, out, _err = call("predict", str(log), "--ahead", "5", "--json")
    assert status == 0
    assert json.loads(out)["known"]
    assert len(call("predict", str(log), "--ahead", "5")[1].splitlines()) == 9


BAD = {
    "missing": None,
    "empty": b"",
    "rubbish": bytes(range(256)) * 40,
    "nan": b'{"step":1,"loss":NaN}\n{"step":2,"loss":NaN}\n{"step":3,"loss":NaN}\n',
    "esc\x1b[31m": b"\x1b[31m what is this\n" * 20,
}


@pytest.mark.parametrize("name", list(BAD))
@pytest.mark.parametrize("command", ["read", "predict"])
def test_a_log_that_is_no_good_ends_with_1_and_is_named(
    call: Call, tmp_path: Path, name: str, command: str
) -> None:
    log = tmp_path / name
    content = BAD[name]
    if content is not None:
        log.write_bytes(content)
    status, out, err = call(command, str(log))
    assert (status, out) == (1, "")
    assert str(tmp_path) in err
    assert "\x1b" not in err
    assert call(command, str(log), "--json")[0] == 1


def test_a_directory_is_no_log(call: Call, tmp_path: Path) -> None:
    status, _out, err = call("read", str(tmp_path))
    assert status == 1
    assert "is a directory" in err


def whole(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from slaqd.cli import main; main()", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **env}, timeout=60
    )


def test_help_lists_every_command_and_needs_no_daemon() -> None:
    done = whole("--help")
    assert done.returncode == 0
    for command in (
        "run",
        "adopt",
        "jobs",
        "show",
        "plan",
        "status",
        "read",
        "predict",
        "pause",
        "resume",
        "restore",
    ):
        assert f"\n  {command} " in done.stdout
    assert whole("--version").stdout.startswith("slaqctl, version ")


def test_a_pipe_that_is_closed_early_leaves_no_trace(daemon: Daemon, tmp_path: Path) -> None:
    for number in range(300):
        daemon.start(number + 1, name="x" * 200)
    daemon.cycle()
    command = [sys.executable, "-c", "from slaqd.cli import main; main()", "jobs"]
    env = {**os.environ, "SLAQ_SOCKET": str(tmp_path / "s.sock")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.read(10)
        started.stdout.close()
        err = started.stderr.read()
    assert b"Traceback" not in err


def test_on_a_terminal_no_color_means_no_colour(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start(1, name="train")
    daemon.cycle()
    leader, follower = os.openpty()
    env = {**os.environ, "SLAQ_SOCKET": str(tmp_path / "s.sock"), "NO_COLOR": "1", "TERM": "xterm"}
    command = [sys.executable, "-c", "from slaqd.cli import main; main()", "jobs"]
    subprocess.run(command, check=True, stdout=follower, env=env, timeout=60)
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert "train" in shown
    assert "\x1b[3" not in shown  # 30 to 37 and 38;… set colours
    assert "\x1b[9" not in shown


def test_without_standard_input_a_command_runs_all_the_same() -> None:
    words = [sys.executable, "-c", "from slaqd.cli import main; main()"]
    words += ["run", "--socket", "/no/such/socket", "--", "sh", "-c", "exit 7"]
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *words], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 7, done.stderr
