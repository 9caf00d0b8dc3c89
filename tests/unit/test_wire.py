"""The wire of the control socket, as stored examples and as both ends use it."""

from __future__ import annotations

import msgspec
import pytest

from slaqd import wire
from slaqd.types import Struct, Tag

REQUEST = b'{"v":1,"verb":"show","args":{"job":"4711"}}\n'


def test_a_request_is_one_line_of_json() -> None:
    args = msgspec.Raw(msgspec.json.encode(wire.JobArgs(job="4711")))
    assert wire.encode(wire.Request(v=1, verb=wire.Verb.SHOW, args=args)) == REQUEST


def test_an_answer_and_a_refusal_look_as_documented() -> None:
    assert wire.encode(wire.ok({"a": 1})) == b'{"v":1,"ok":{"a":1}}\n'
    refusal = wire.failure("not_found", "no such job")
    assert wire.encode(refusal) == b'{"v":1,"error":{"code":"not_found","text":"no such job"}}\n'


def test_an_answer_of_nothing_is_an_answer_still() -> None:
    reply = msgspec.json.decode(wire.encode(wire.ok(None)), type=wire.Reply)
    assert reply.error is None
    assert isinstance(reply.ok, msgspec.Raw)
    assert bytes(reply.ok) == b"null"


def test_newlines_in_texts_dont_break_the_line() -> None:
    assert wire.encode(wire.failure("refused", "one\ntwo\r\n")).count(b"\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        b'{"v":1,"verb":"reboot"}',
        b'{"v":1}',
        b'{"verb":"jobs"}',
        b'{"v":1,"verb":"jobs","extra":1}',
        b'{"v":"1","verb":"jobs"}',
        b"[]",
        b"",
    ],
)
def test_what_is_no_request_is_not_decoded(line: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        msgspec.json.decode(line, type=wire.Request)


@pytest.mark.parametrize(
    "message",
    [
        wire.RegisterArgs(
            pgid=7, start=1, tag=Tag(log="a b", min=1, weight=0.5), name="ü\n", cwd="/", held=True
        ),
        wire.EndedArgs(job="7", start=1, status=143),
        wire.Registered(job="7", wait=True),
        wire.PlanView(policy="slaq", room=3, rows=(wire.PlanRow("7", "a", None, 2, 0.1, "gain"),)),
    ],
)
def test_messages_come_back_as_they_went(message: Struct) -> None:
    assert msgspec.json.decode(wire.encode(message), type=type(message)) == message
