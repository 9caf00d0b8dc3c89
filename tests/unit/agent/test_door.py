"""Who may converse with the agent, how many at a time, and when it is to be thought to hang."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from living import wait_for

from slaqd.agent import service
from slaqd.agent.client import Agent
from slaqd.agent.protocol import ClosedError, Greeting, Hello, Reply, receive, send
from slaqd.agent.service import Door

ME = frozenset({os.geteuid()})


class Slow:
    """A session that answers when it is let."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def answer(self, _request: object) -> Greeting:
        self.go_on.wait(60)
        return Greeting("1", 1)


@pytest.fixture
def session() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.go_on.set()


def knock(door: Door) -> socket.socket:
    here, there = socket.socketpair()
    door.let_in(there)
    return here


def is_hung_up(sock: socket.socket) -> bool:
    sock.settimeout(0.2)
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False


def door(session: Any, allowed: frozenset[int] = ME) -> Door:
    return Door(allowed, lambda: session)


def test_who_is_not_on_the_list_is_sent_away(session: Slow) -> None:
    made = door(session, frozenset({os.geteuid() + 1}))
    with knock(made) as sock:
        assert is_hung_up(sock)
    assert made.talks == {}


def test_one_conversation_too_many_is_sent_away_and_the_door_is_open_once_one_ends(session: Slow) -> None:
    made = door(session)
    socks = [knock(made) for _ in range(service.MOST_AT_ONCE)]
    with knock(made) as sock:
        assert is_hung_up(sock)
    socks[0].close()
    wait_for(lambda: len(made.talks) < service.MOST_AT_ONCE, lambda: "one conversation has ended")
    with knock(made) as sock:
        assert not is_hung_up(sock)
    for each in socks:
        each.close()


def test_a_conversation_that_the_other_side_has_ended_takes_no_place_though_its_thread_is_late(
    session: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        session.go_on.wait(60)
        raise ClosedError

    monkeypatch.setattr(service, "receive", late)
    made = door(session)
    for _ in range(3 * service.MOST_AT_ONCE):
        knock(made).close()
    assert len(made.talks) == 3 * service.MOST_AT_ONCE
    with knock(made) as sock:
        assert not is_hung_up(sock)


def test_an_answer_under_way_keeps_its_place_though_nobody_waits_for_it(session: Slow) -> None:
    made = door(session)
    for _ in range(service.MOST_AT_ONCE):
        with knock(made) as sock:
            send(sock, Hello())
            wait_for(lambda: all(talk.since for talk in made.talks.values()), lambda: "all are under way")
    with knock(made) as sock:
        assert is_hung_up(sock)


def test_an_answer_that_takes_too_long_means_that_the_agent_hangs_and_silence_does_not(session: Slow) -> None:
    made = door(session)
    with knock(made) as sock:
        far = time.monotonic() + 10 * service.STUCK_S
        assert not made.hangs(far)
        send(sock, Hello())
        wait_for(lambda: any(talk.since for talk in made.talks.values()), lambda: "the answer is under way")
        assert not made.hangs(time.monotonic())
        assert made.hangs(far)
        session.go_on.set()
        assert receive(sock, Reply) == Greeting("1", 1)
        assert not made.hangs(far)


def test_it_says_when_it_serves_and_feeds_its_watchdog(tmp_path: Path) -> None:
    config, where = tmp_path / "slaqd.toml", tmp_path / "s"
    config.write_text(f"[slaqd]\nadapter = 'nobody'\n[agent]\nsocket = '{where}'\nuser = 'daemon'\n")
    words = [str(Path(sys.executable).with_name("slaqd-agent")), "--config", str(config)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(60)
        with subprocess.Popen(words, env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}) as agent:
            assert heard.recv(4096) == b"READY=1"
            with closing(Agent(str(where))) as client:
                client.hello()
                assert heard.recv(4096) == b"WATCHDOG=1\nSTATUS=conversations: 1"
            agent.terminate()
