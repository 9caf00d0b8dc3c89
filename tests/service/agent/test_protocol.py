"""Whatever bytes come to the agent's socket, and whoever sends them: it serves on, and slaqd goes on."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from agent_world import ALICE, AgentProcess, Trees, as_user, is_ok, source
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slaqd.agent.protocol import MOST, Hello, Look, send
from slaqd.agent.service import MOST_AT_ONCE
from slaqd.errors import AgentUnavailable

pytestmark = pytest.mark.service

SHORT = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
KEYS = ("now", "sources", "uid", "root", "path", "text", "request", "job", "tag")
ASKED = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(["hello", "look", "put", "get", "hands", "read", ""]),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
)


def framed(message: object) -> bytes:
    data = msgspec.msgpack.encode(message)
    return struct.pack(">I", len(data)) + data


def connected(agent: AgentProcess) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(str(agent.socket))
    return sock


def said_to(agent: AgentProcess, data: bytes) -> None:
    """Send it all, and wait until the agent hangs up."""
    with connected(agent) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except (BrokenPipeError, ConnectionResetError):
            return


def any_bytes(agent: AgentProcess, data: bytes) -> None:
    said_to(agent, data)
    assert agent.alive, agent.said()


@given(data=st.binary(max_size=300) | VALUES.map(framed) | ASKED.map(framed))
@SHORT
def test_any_bytes_leave_the_agent_alive(agent: AgentProcess, data: bytes) -> None:
    any_bytes(agent, data)


@pytest.mark.soak
@given(data=st.binary(max_size=300) | VALUES.map(framed) | ASKED.map(framed))
@LONG
def test_ten_thousand_times_any_bytes_leave_the_agent_alive(agent: AgentProcess, data: bytes) -> None:
    any_bytes(agent, data)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", MOST + 1),
        b"\xff" * 64,
        struct.pack(">I", 100_000) + b"\x91" * 100_000,
        framed({"type": "forget"}),
        framed({"type": "__class__"}),
        framed({"type": "look", "now": 0, "sources": "x" * 100}),
        struct.pack(">I", 9) + b"short",
        b"\0",
        b"",
    ],
)
def test_what_makes_no_sense_is_hung_up_on(agent: AgentProcess, data: bytes) -> None:
    said_to(agent, data)
    assert agent.client.hello().version


def test_halves_of_messages_keep_nobody_waiting(agent: AgentProcess, trees: Trees) -> None:
    agent.client.close()
    asked = source(trees.file(trees.alice / "log"))
    with ExitStack() as stack:
        for _ in range(MOST_AT_ONCE - 1):
            stack.enter_context(connected(agent)).sendall(framed(Hello())[:-1])
        assert is_ok(agent.settled(asked)[asked.job])
    agent.client.close()
    with ExitStack() as stack:
        for _ in range(MOST_AT_ONCE - 1):
            send(stack.enter_context(connected(agent)), Look(0.0, (asked,)))
        assert is_ok(agent.settled(asked)[asked.job])


def test_whoever_is_neither_slaqd_nor_root_is_hung_up_on(agent: AgentProcess) -> None:
    agent.socket.chmod(0o666)

    def asks(expected: Callable[[Any], bool]) -> Callable[[], object]:
        def work() -> None:
            with connected(agent) as sock:
                try:
                    sock.sendall(framed(Hello()))
                    answer = sock.recv(1000)
                except (BrokenPipeError, ConnectionResetError):
                    answer = b""
                assert expected(answer)

        return work

    as_user(ALICE, asks(lambda answer: answer == b""))
    as_user(1, asks(lambda answer: b"greeting" in answer))
    agent.socket.chmod(0o600)
    assert "not slaqd: sent away" in agent.said()


def test_an_agent_that_was_away_is_missed_once_and_then_told_all_anew(
    agent: AgentProcess, trees: Trees
) -> None:
    one, two = (source(trees.file(trees.alice / name)) for name in ("one", "two"))
    assert all(map(is_ok, agent.settled(one, two).values()))
    assert agent.process is not None
    agent.process.kill()
    agent.process.wait()
    with pytest.raises(AgentUnavailable, match="is it running"):
        agent.look(one, two)
    agent.start()
    assert [is_ok(curve) for curve in agent.look(one, two).values()] == [True, True]
    agent.process.kill()
    agent.process.wait()
    agent.start()
    with pytest.raises(AgentUnavailable):
        agent.look(one, two)
    assert [is_ok(curve) for curve in agent.look(one, two).values()] == [True, True]
    again = agent.look(one, two)
    assert all(curve is again[job] for job, curve in agent.look(one, two).items()), "they did not change"
