"""A child that was taken over: what it says is not believed, and steers nothing."""

from __future__ import annotations

import queue
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played_child import CURVE, SOURCE, FakeForker, answering, forged, framed

from slaqd.agent import turn as turns
from slaqd.agent.become import User
from slaqd.agent.child import MOST_STATE
from slaqd.agent.growth import Signature
from slaqd.agent.protocol import Done, Failed, Gave, Read, Reading, pack
from slaqd.agent.turn import Child, Task, Trail, Turn, Users

QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def results(draw: st.DrawFn) -> bytes:
    """Draw what looks like a result and has a field or two of any kind."""
    fields = msgspec.to_builtins(
        draw(st.sampled_from([Done(pack(CURVE), b"", again=False), Gave(b""), Failed(1, "")])),
        builtin_types=(bytes,),
    )
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=2)):
        fields[name] = draw(VALUES)
    if isinstance(fields.get("points"), dict) and fields["points"]:
        name = draw(st.sampled_from(sorted(fields["points"])))
        fields["points"][name] = draw(VALUES)
    return framed(fields)


def turned(monkeypatch: pytest.MonkeyPatch, serve: Callable[[socket.socket], None]) -> Task:
    """Let a child that serves so read one source of a turn's; give the task after it."""
    trail = Trail(SOURCE)
    task = Task(20_001, 0.0, 1, [trail], time.monotonic() + 60)
    forker = FakeForker()
    forker.serve = serve
    monkeypatch.setattr(turns, "wear", lambda _: None)
    monkeypatch.setattr(turns, "signature", lambda *_: Signature())
    monkeypatch.setattr(Users, "find", lambda _, uid: User(uid, uid, ()))
    turn = Turn(task, Users(), forker, queue.SimpleQueue())  # type: ignore[arg-type]
    turn.run()
    forker.close()
    assert turn.fault is None
    return task


@given(data=st.binary(max_size=100) | VALUES.map(framed) | results())
@QUICK
def test_whatever_a_child_says_the_turn_ends_well(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        task = turned(patch, answering(data))
    (trail,) = [*task.hung, *(Trail(SOURCE) for _ in task.readings)]
    for reading in task.readings:
        assert reading.job == SOURCE.job
        assert reading.refused.isprintable()
    assert (trail.trouble == "") == bool(task.readings)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (Gave(b""), "an answer to another question"),
        (Done(forged(count=0), b"", again=False), "no log gives"),
        (Done(pack(CURVE), bytes(MOST_STATE + 1), again=False), "remembers too much"),
    ],
)
def test_what_no_child_of_ours_says_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, answer: Any, trouble: str
) -> None:
    task = turned(monkeypatch, answering(framed(answer)))
    assert task.readings == []
    assert trouble in task.hung[0].trouble


def test_words_of_a_childs_steer_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    task = turned(monkeypatch, answering(framed(Failed(1, "\x1b[2J\u202e"))))
    assert task.readings == [Reading(SOURCE.job, refused=r"\x1b[2J\u202e")]


def test_an_answer_that_comes_byte_by_byte_is_waited_for_no_longer_than_any_other() -> None:
    """A timeout of the socket's own would begin anew with each byte."""
    forker = FakeForker()

    def drip(sock: socket.socket) -> None:
        try:
            sock.sendall(struct.pack(">I", 1000))
            while True:
                time.sleep(0.02)
                sock.sendall(b"x")
        except OSError:
            return

    forker.serve = drip
    child = Child(forker, User(20_001, 20_001, ()), 1.0)  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        child.ask(Read(SOURCE, b"", 0.0), 0.3)
    assert forker.killed == [1]
    forker.close()
