"""slaqctl doctor, drop, and what slaqctl says of a slaqd that doesn't answer as it should."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
from put_together import Call, Daemon

from slaqd import wire
from slaqd.daemon.server import Server


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "c.toml"
    file.write_text(f"[slaqd]\nstate_dir = '{tmp_path / 'state'}'\nsocket = '{tmp_path / 's.sock'}'\n")
    file.chmod(0o600)
    return file


def answering(path: Path, line: bytes) -> threading.Thread:
    """Answer each connection with the same bytes, until ``path`` is gone."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.settimeout(0.05)

    def serve() -> None:
        with listener:
            while path.exists():
                try:
                    sock = listener.accept()[0]
                except TimeoutError:
                    continue
                with sock:
                    sock.recv(65536)
                    sock.sendall(line)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_doctor_says_what_a_running_slaqd_says(daemon: Daemon, call: Call) -> None:
    daemon.cycle()
    status, out, err = call("doctor")
    assert (status, err) == (0, "")
    assert "ok       slaqd 0.1.0 runs as uid" in out
    assert "ok       a manager of memory with 10 units" in out


def test_doctor_prints_json_and_ends_with_1_where_anything_is_an_error(daemon: Daemon, call: Call) -> None:
    daemon.manager.down = "silence"
    daemon.cycle()
    status, out, _err = call("doctor", "--json")
    assert status == 1
    wrong = [each for each in json.loads(out) if each["severity"] == "error"]
    assert [each["what"] for each in wrong] == ["cycle 1: nothing changed: silence"]
    assert wrong[0]["do"]
    status, out, _err = call("doctor")
    assert status == 1
    assert f"error    cycle 1: nothing changed: silence\n         do: {wrong[0]['do']}" in out


def test_doctor_works_without_a_daemon(call: Call, config: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    status, out, _err = call("doctor", "--config", str(config))
    assert status == 0
    assert "warning  " in out.splitlines()[0]
    assert "no slaqd is running there; start one with: slaqd" in out
    assert "ok       the manager (local) answers: pools local" in out
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[slaqd]\nmod = 'x'\n", "c.toml:2: unknown key 'mod'"),
        ("[policy]\nname = 'x'\n", "c.toml:2: policy.name: no policy is called 'x'"),
        ("[adapter.local]\nunits = 1\n", "c.toml:2: unknown key 'units'"),
    ],
)
def test_doctor_names_what_is_wrong_with_a_configuration(
    call: Call, config: Path, text: str, said: str
) -> None:
    config.write_text(text)
    status, out, _err = call("doctor", "--config", str(config))
    assert status == 1
    assert said in out


def test_doctor_against_a_slaqd_that_hangs_is_an_error_and_looks_at_the_rest(
    call: Call, config: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "s.sock"))
        mute.listen()
        status, out, _err = call("doctor", "--config", str(config))
    assert status == 4
    assert out.startswith("error    ")
    assert "does not answer within 1.5 s" in out
    assert "the manager (local) answers" in out


def test_doctor_on_anothers_slaqd_is_an_error(call: Call, tmp_path: Path) -> None:
    server = Server(tmp_path / "s.sock", lambda _request, _uid: wire.failure("not_permitted", "not yours"))
    status, out, _err = call("doctor")
    server.close()
    assert status == 5
    assert out.startswith("error    not yours\n         do: ask as root")


def test_drop_says_what_it_did(daemon: Daemon, call: Call) -> None:
    daemon.start(1)
    daemon.cycle()
    status, out, _err = call("drop", "1")
    assert status == 0
    assert out.endswith("job 1 has back what it had, and slaqd knows it no more\n")
    assert daemon.held() == {}
    assert call("drop", "1")[0] == 3
    assert call("drop")[0] == 2


def test_what_only_another_slaqds_journal_could_do_is_not_done(call: Call, config: Path) -> None:
    config.write_text(config.read_text().replace("s.sock", "other.sock"))
    for words in (("drop", "1"), ("restore", "1"), ("restore", "--all")):
        status, out, err = call(*words, "--config", str(config))
        assert (status, out) == (4, "")
        assert "no slaqd is running there" in err
        assert err.endswith("to do it without one, name its configuration: --config FILE\n")


def test_jobs_and_status_show_what_halts_slaqd(daemon: Daemon, call: Call) -> None:
    daemon.start(1)
    stop = Path(daemon.loop.config.path).parent / "stop"
    stop.touch()
    daemon.loop.config_error = "c.toml:2: unknown key 'mod'"
    daemon.cycle()
    status, out, err = call("jobs")
    assert status == 0
    assert out.splitlines()[1].startswith("1 ")
    assert err == f"halted by the file {stop}\nc.toml:2: unknown key 'mod'\n"
    out = call("status")[1]
    assert f"halted by the file {stop}: nothing is changed until it is gone" in out
    assert "not in use  c.toml:2: unknown key 'mod'" in out
    assert json.loads(call("status", "--json")[1])["halted"] == f"halted by the file {stop}"


# a slaqd that doesn't answer as it should; tests/service/local/test_unreachable.py has real ones


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "the connection was closed before the answer"),
        (b'{"v":2,"ok":{}}\n', "slaqd speaks version 2, this slaqctl 1"),
        (b'{"v":2,"error":{"code":"x","text":"y"}}\n', "slaqd speaks version 2, this slaqctl 1"),
        (wire.encode(wire.failure("version", "this slaqd speaks 0")), "this slaqd speaks 0"),
        (b'{"v":1,"ok":{"of":"another time"}}\n', "makes no sense to this version"),
        (b"HTTP/1.1 400 Bad Request\n", "makes no sense to this version"),
    ],
)
def test_a_slaqd_of_another_version_is_4(call: Call, tmp_path: Path, line: bytes, said: str) -> None:
    path = tmp_path / "s.sock"
    thread = answering(path, line)
    status, out, err = call("status")
    path.unlink()
    thread.join()
    assert (status, out) == (4, "")
    assert said in err


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"v": 2, "verb": "jobs"}, "not 2"),
        ({"v": 2, "verb": "sing", "new": 1}, "not 2"),
        ({"v": 1, "verb": "sing"}, "it knows no 'sing'"),
    ],
)
@pytest.mark.usefixtures("daemon")
def test_a_slaqd_says_that_it_is_of_another_version(
    tmp_path: Path, request_: dict[str, object], said: str
) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(tmp_path / "s.sock"))
        sock.sendall(json.dumps(request_).encode() + b"\n")
        reply = json.loads(sock.recv(65536))
    assert reply["error"]["code"] == "version"
    assert said in reply["error"]["text"]


def test_a_slaqd_that_is_asked_too_often_is_a_refusal(call: Call, tmp_path: Path) -> None:
    server = Server(tmp_path / "s.sock", lambda _request, _uid: wire.failure("busy", "wait a moment"))
    status, _out, err = call("jobs")
    server.close()
    assert (status, err) == (1, "slaqctl: wait a moment\n")
