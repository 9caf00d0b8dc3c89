"""The door of the control socket: nobody keeps the others out, and floods are counted by uid."""

from __future__ import annotations

import errno
import os
import resource
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from slaqd import client as clients
from slaqd import wire
from slaqd.client import Client
from slaqd.daemon.door import Buckets, Limits, Turns
from slaqd.daemon.server import Server
from slaqd.errors import ControlError
from slaqd.testing import ManualClock

PATIENCE_S = 60.0
ASK = wire.encode(wire.Request(v=1, verb=wire.Verb.JOBS))
Serving = Callable[..., Path]


def echo(request: wire.Request, uid: int) -> wire.Reply:
    return wire.ok({"verb": request.verb.value, "uid": uid})


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made: list[Server] = []

    def one(limits: Limits = Limits(), answer: Callable[[wire.Request, int], wire.Reply] = echo) -> Path:  # noqa: B008 - frozen
        path = tmp_path / "s.sock"
        made.append(Server(path, answer, limits))
        return path

    yield one
    for server in made:
        server.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with ExitStack() as made:
        yield made
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected(path: Path, stack: ExitStack) -> socket.socket:
    sock = stack.enter_context(socket.socket(socket.AF_UNIX))
    sock.settimeout(PATIENCE_S)
    sock.connect(str(path))
    return sock


def asked(path: Path) -> str:
    return Client(path).ask(wire.Verb.JOBS, dict[str, str | int])["verb"]  # type: ignore[return-value]  # echo's own


def test_a_thousand_clients_half_of_them_silent_leave_an_answer_within_slaqctls_time(
    serving: Serving, stack: ExitStack
) -> None:
    assert clients.TIMEOUT_S < 2
    path = serving()
    for number in range(1000):
        sock = connected(path, stack)
        if number % 2:
            try:
                sock.sendall(ASK)
            except BrokenPipeError:  # sent away for those that came after
                continue
    assert asked(path) == "jobs"


def test_silent_clients_that_never_stop_coming_leave_an_answer(serving: Serving, stack: ExitStack) -> None:
    path, over = serving(), threading.Event()
    came = threading.Event()

    def flood() -> None:
        open_: list[socket.socket] = []
        while not over.is_set() and len(open_) < 3000:
            open_.append(connected(path, stack))
            if len(open_) > 200:
                came.set()
                over.wait(0.005)

    thread = threading.Thread(target=flood)
    thread.start()
    assert came.wait(PATIENCE_S)
    try:
        assert [asked(path) for _ in range(5)] == ["jobs"] * 5
    finally:
        over.set()
        thread.join()


def test_clients_that_ask_and_never_take_their_answer_leave_an_answer(
    serving: Serving, stack: ExitStack
) -> None:
    """Of one uid; a large answer fills the socket and holds a thread until the deadline."""
    large = wire.ok(["x" * 1000] * 5000)

    def answer(request: wire.Request, _uid: int) -> wire.Reply:
        return large if request.verb is wire.Verb.JOBS else wire.ok("fine")

    path = serving(Limits(read_s=0.2), answer)
    for _ in range(40):
        connected(path, stack).sendall(ASK)
    assert Client(path, PATIENCE_S).ask(wire.Verb.PLAN, str) == "fine"


def test_one_uid_that_floods_keeps_no_other_out(serving: Serving, tmp_path: Path) -> None:
    """Real uids: a child becomes another user and holds a thousand connections."""
    assert os.geteuid() == 0, "becoming another user needs root"
    path = serving()
    path.chmod(0o777)
    for folder in path.parents:  # to be passed through: what all may write to is no place for others' tests
        if str(folder).startswith(str(tmp_path.parents[1])):
            folder.chmod(0o711)
    ready, told = os.pipe()
    gate, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        _flood(path, told, gate)
    os.close(told)
    os.close(gate)
    try:
        count = struct.unpack("i", os.read(ready, 4))[0]
        assert count == 1000
        answer = Client(path).ask(wire.Verb.JOBS, dict[str, str | int])
        assert answer == {"verb": "jobs", "uid": 0}
    finally:
        os.close(go)
        os.close(ready)
        os.waitpid(child, 0)


def _flood(path: Path, told: int, gate: int) -> None:
    """Hold a thousand silent connections as another user, until the gate is shut."""
    try:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        open_ = []
        for _ in range(1000):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(path))
            open_.append(sock)
        os.write(told, struct.pack("i", len(open_)))
        os.read(gate, 1)
    finally:
        os._exit(0)


def test_who_asks_too_often_is_told_so_and_served_again_later() -> None:
    clock = ManualClock()
    buckets = Buckets(2.0, 3.0, clock.monotonic)
    assert [buckets.take(7) for _ in range(5)] == [True, True, True, False, False]
    assert buckets.take(8)
    clock.advance(1.0)
    assert [buckets.take(7) for _ in range(3)] == [True, True, False]
    clock.advance(100.0)
    assert [buckets.take(7) for _ in range(4)] == [True, True, True, False]


def test_buckets_of_users_that_are_gone_are_forgotten() -> None:
    clock = ManualClock()
    buckets = Buckets(1.0, 10.0, clock.monotonic)
    for uid in range(5000):
        buckets.take(uid)
        clock.advance(0.01)
    assert len(buckets) <= 101


def test_root_is_never_told_that_it_asks_too_often(serving: Serving) -> None:
    assert os.geteuid() == 0, "the one who asks is root here"
    path = serving(Limits(per_s=0.001, burst=2.0))
    assert [asked(path) for _ in range(6)] == ["jobs"] * 6


def test_a_busy_slaqd_is_asked_again_until_the_time_is_up(tmp_path: Path) -> None:
    path, times = tmp_path / "s", 0
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def door() -> None:
            nonlocal times
            for times in (1, 2, 3):
                with listener.accept()[0] as sock:
                    sock.recv(65536)
                    reply = wire.ok("at last") if times == 3 else wire.failure("busy", "wait a moment")
                    sock.sendall(wire.encode(reply))

        thread = threading.Thread(target=door)
        thread.start()
        assert Client(path, timeout_s=30).ask(wire.Verb.JOBS, str) == "at last"
        thread.join()
    assert times == 3


def test_a_slaqd_that_stays_busy_is_a_refusal_in_words(serving: Serving) -> None:
    path = serving(answer=lambda _request, _uid: wire.failure("busy", "uid 7 asks too often"))
    with pytest.raises(ControlError, match="uid 7 asks too often") as caught:
        Client(path, timeout_s=0.3).ask(wire.Verb.JOBS, str)
    assert caught.value.code == "busy"


def test_a_silent_client_is_sent_away_after_its_time(serving: Serving, stack: ExitStack) -> None:
    path = serving(Limits(read_s=0.1))
    sock = connected(path, stack)
    sock.sendall(b'{"v":1,')
    assert sock.recv(10) == b""


def test_a_message_that_is_too_long_is_refused_before_it_ends(serving: Serving, stack: ExitStack) -> None:
    sock = connected(serving(), stack)
    sock.sendall(b"x" * (wire.MAX_LINE + 1))
    assert b'"bad_request"' in sock.recv(65536)


def asker(stack: ExitStack) -> socket.socket:
    """Give slaqd's side of a connection whose other side waits for the answer."""
    mine, its = socket.socketpair()
    stack.enter_context(its)
    return mine


def test_of_one_uid_only_some_are_answered_at_a_time_and_the_others_in_their_turn(stack: ExitStack) -> None:
    free, lock = threading.Event(), threading.Lock()
    running: dict[int, int] = {1: 0, 2: 0}
    most: dict[int, int] = {1: 0, 2: 0}
    done: list[int] = []

    def serve(_sock: socket.socket, uid: int, _line: bytes) -> None:
        with lock:
            running[uid] += 1
            most[uid] = max(most[uid], running[uid])
        free.wait(PATIENCE_S)
        with lock:
            running[uid] -= 1
            done.append(uid)

    turns = Turns(serve, Limits(answers_per_uid=3))
    for uid in [1] * 10 + [2] * 2:
        turns.add(asker(stack), uid, b"x\n")
    until = time.monotonic() + PATIENCE_S
    while running != {1: 3, 2: 2}:
        assert time.monotonic() < until, running
        time.sleep(0.01)
    free.set()
    while len(done) < 12:
        assert time.monotonic() < until, done
        time.sleep(0.01)
    assert most == {1: 3, 2: 2}


def test_where_too_many_wait_the_door_is_shut_to_that_uid_alone(stack: ExitStack) -> None:
    free = threading.Event()
    turns = Turns(lambda *_: free.wait(PATIENCE_S) and None, Limits(answers_per_uid=1, waiting_per_uid=2))
    socks = [asker(stack) for _ in range(5)]
    for sock in socks[:4]:
        turns.add(sock, 1, b"x\n")
    turns.add(socks[4], 2, b"x\n")
    assert [sock.fileno() == -1 for sock in socks] == [False, False, False, True, False]
    free.set()
    until = time.monotonic() + PATIENCE_S
    while any(sock.fileno() != -1 for sock in socks):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_connection_that_the_kernel_cant_watch_is_hung_up_on_and_the_next_one_is_answered(
    serving: Serving, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, refused = serving(), selectors.DefaultSelector.register, list[object]()

    def full(self: Any, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if data is not None and not refused:
            refused.append(data)
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, fileobj, events, data)

    monkeypatch.setattr(selectors.DefaultSelector, "register", full)
    assert connected(path, stack).recv(1) == b""
    assert asked(path) == "jobs"
    assert len(refused) == 1


def test_who_has_hung_up_before_its_turn_gets_nothing_done_and_who_only_says_no_more_does(
    serving: Serving, stack: ExitStack
) -> None:
    busy, free = threading.Event(), threading.Event()
    done: list[str] = []

    def answer(request: wire.Request, _uid: int) -> wire.Reply:
        if request.verb is wire.Verb.PLAN:
            busy.set()
            free.wait(PATIENCE_S)
        done.append(request.verb.value)
        return wire.ok("done")

    path = serving(Limits(answers_per_uid=1), answer)
    asked = {}
    for verb in (wire.Verb.PLAN, wire.Verb.DROP, wire.Verb.SHOW, wire.Verb.JOBS):
        asked[verb] = connected(path, stack)
        asked[verb].sendall(wire.encode(wire.Request(v=1, verb=verb)))
        assert busy.wait(PATIENCE_S)
    asked[wire.Verb.SHOW].shutdown(socket.SHUT_WR)  # as `nc -N` does once it has asked
    asked[wire.Verb.DROP].close()
    free.set()
    assert b'"done"' in asked[wire.Verb.JOBS].recv(65536)
    assert b'"done"' in asked[wire.Verb.SHOW].recv(65536)
    assert done == ["plan", "show", "jobs"]
