"""The control socket: who may reach it, what a bad peer can do."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slaqd import wire
from slaqd.client import Client, reachable
from slaqd.daemon.server import Server
from slaqd.errors import ControlError, DaemonUnreachable, NotPermitted, StateError


def echo(request: wire.Request, uid: int) -> wire.Reply:
    return wire.ok({"verb": request.verb.value, "uid": uid})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "s.sock"


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    made = Server(path, echo)
    yield made
    made.close()


def raw(path: Path, data: bytes, *, end: bool = True) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        sock.sendall(data)
        if end:
            sock.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := sock.recv(65536):
            got += chunk
        return got


@pytest.mark.usefixtures("server")
def test_only_its_owner_can_reach_it(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_where_several_users_are_served_all_may_knock(path: Path) -> None:
    server = Server(path, lambda _request, uid: wire.ok(uid), everybody=True)
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    finally:
        server.close()


@pytest.mark.usefixtures("server")
def test_the_kernel_says_who_asks(path: Path) -> None:
    assert Client(path).ask(wire.Verb.JOBS, dict[str, object]) == {"verb": "jobs", "uid": os.geteuid()}


@pytest.mark.usefixtures("server")
def test_rubbish_gets_a_refusal_and_the_next_one_an_answer(path: Path) -> None:
    for data in (b"rubbish\n", b"\xff\n", b"{}\n", b"x" * 70_000):
        assert b'"bad_request"' in raw(path, data)
    assert Client(path).ask(wire.Verb.JOBS, dict[str, object])["verb"] == "jobs"


@pytest.mark.usefixtures("server")
def test_peers_that_say_nothing_or_go_away_keep_nobody_out(path: Path) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    for sock in silent:
        sock.connect(str(path))
    for sock in silent[:10]:
        sock.send(b'{"v":1,')
        sock.close()
    assert raw(path, b"") == b""
    assert Client(path, timeout_s=30).ask(wire.Verb.JOBS, dict[str, object])["verb"] == "jobs"
    for sock in silent[10:]:
        sock.close()


@pytest.mark.usefixtures("server")
def test_many_may_ask_at_once(path: Path) -> None:
    got: list[str] = []

    def ask() -> None:
        got.append(Client(path, timeout_s=30).ask(wire.Verb.PLAN, dict[str, str | int])["verb"])  # type: ignore[arg-type]

    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["plan"] * 30


def test_a_fault_in_a_verb_is_a_refusal(path: Path) -> None:
    def broken(_request: wire.Request, _uid: int) -> wire.Reply:
        raise ZeroDivisionError

    server = Server(path, broken)
    with pytest.raises(ControlError, match="a fault of slaqd's own") as caught:
        Client(path).ask(wire.Verb.JOBS, dict)
    assert caught.value.code == "internal"
    server.close()


def test_what_a_dead_slaqd_left_is_replaced_and_nothing_stays_behind(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = Server(path, echo)
    assert Client(path).ask(wire.Verb.JOBS, dict[str, object])["verb"] == "jobs"
    server.close()
    assert not path.exists()


@pytest.mark.usefixtures("server")
def test_the_socket_of_a_living_slaqd_is_not_taken(path: Path) -> None:
    with pytest.raises(StateError, match="another process answers there"):
        Server(path, echo)
    assert Client(path).ask(wire.Verb.JOBS, dict[str, object])["verb"] == "jobs"


def test_a_file_in_the_sockets_place_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("my thesis", encoding="utf-8")
    with pytest.raises(StateError, match="no socket"):
        Server(path, echo)
    assert path.read_text(encoding="utf-8") == "my thesis"


def test_a_place_that_cant_be_is_said_with_its_path(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120) / "s.sock"
    with pytest.raises(StateError, match="the control socket can't be made"):
        Server(long, echo)
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="the control socket can't be made"):
        Server(tmp_path / "file" / "s.sock", echo)


def test_without_a_daemon_the_client_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="no slaqd is running there"):
        Client(tmp_path / "no.sock").ask(wire.Verb.JOBS, list)


def serving(path: Path, *chunks: bytes, hold: threading.Event | None = None) -> threading.Thread:
    """Answer one connection with raw bytes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as sock:
            sock.recv(65536)
            for chunk in chunks:
                sock.sendall(chunk)
            if hold is not None:
                hold.wait(60)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\n", b"{}\n", b'{"v":1,"ok":7}\n', b"", b'{"v":1}']
)
def test_an_answer_that_makes_no_sense_is_no_daemon(tmp_path: Path, answer: bytes) -> None:
    thread = serving(tmp_path / "s", answer)
    with pytest.raises(DaemonUnreachable):
        Client(tmp_path / "s").ask(wire.Verb.JOBS, list[wire.JobView])
    thread.join(30)


def test_a_daemon_that_is_stuck_is_told_from_one_that_is_gone(tmp_path: Path) -> None:
    hold = threading.Event()
    thread = serving(tmp_path / "s", b'{"v":1,', hold=hold)
    with pytest.raises(DaemonUnreachable, match=r"does not answer within 0\.2 s"):
        Client(tmp_path / "s", timeout_s=0.2).ask(wire.Verb.JOBS, list)
    hold.set()
    thread.join(30)


def test_an_answer_in_many_pieces_is_put_together(tmp_path: Path) -> None:
    pieces = [bytes([byte]) for byte in b'{"v":1,"ok":["a","b"]}\n']
    thread = serving(tmp_path / "s", *pieces)
    assert Client(tmp_path / "s", timeout_s=30).ask(wire.Verb.JOBS, list[str]) == ["a", "b"]
    thread.join(30)


def test_a_refusal_for_another_user_is_not_permitted(tmp_path: Path) -> None:
    thread = serving(tmp_path / "s", wire.encode(wire.failure("not_permitted", "not yours")))
    with pytest.raises(NotPermitted, match="not yours"):
        Client(tmp_path / "s").ask(wire.Verb.JOBS, list)
    thread.join(30)


def test_text_that_is_no_utf8_is_a_bad_request_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="not UTF-8 text") as caught:
        Client(tmp_path / "s").ask(wire.Verb.SHOW, wire.JobView, wire.JobArgs(job="\udcff"))
    assert caught.value.code == "bad_request"


def test_the_socket_that_exists_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "a", tmp_path / "b"
    assert reachable([here, there]) == here
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(there))
    assert reachable([here, there]) == there

    def locked(_path: Path) -> bool:
        raise PermissionError

    monkeypatch.setattr(Path, "is_socket", locked)
    assert reachable([here, there]) == here


def test_a_client_knocks_again_where_the_door_was_shut(path: Path) -> None:
    """A slaqd with too many at its door hangs up without an answer."""
    knocks = 0
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def door() -> None:
            nonlocal knocks
            for knocks in (1, 2, 3):
                with listener.accept()[0] as peer:
                    peer.recv(65536)
                    if knocks == 3:
                        peer.sendall(wire.encode(wire.ok("at last")))

        thread = threading.Thread(target=door)
        thread.start()
        assert Client(path, timeout_s=30).ask(wire.Verb.JOBS, str) == "at last"
        thread.join()
    assert knocks == 3
