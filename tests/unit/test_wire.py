"""The wire of the control socket, as stored examples and as both ends use it."""

from __future__ import annotations

import msgspec
import pytest

from slaqd import wire
from slaqd.types import Struct, Tag

STATUS = {
    **dict.fromkeys(("version", "policy", "adapter", "sentence", "state_dir", "config"), "x"),
    **dict.fromkeys(
        ("pid", "uid", "epoch_s", "started", "cycles", "room", "planned", "running", "waiting"), 1
    ),
    "mode": "observe",
    "paused": False,
    "pools": {},
}
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
            pgid=7, start=1, tag=Tag(log="a b", min=1, weight=0.5), name="ü\n", cwd="/", waits=True
        ),
        wire.EndedArgs(job="7", start=1, status=143),
        wire.Registered(job="7", wait=True),
        wire.PlanView(policy="slaq", room=3, rows=(wire.PlanRow("7", "a", None, 2, 0.1, "gain"),)),
    ],
)
def test_messages_come_back_as_they_went(message: Struct) -> None:
    assert msgspec.json.decode(wire.encode(message), type=type(message)) == message


@pytest.mark.parametrize(
    "answer",
    [
        wire.ok(1),
        wire.failure("refused", "no"),
        wire.Registered(job="7", wait=True),
        wire.PlanView(policy="slaq", room=3, rows=(wire.PlanRow("7", "a", None, 2, 0.1, "gain"),)),
        wire.JobView("7", 1, "a", "me", "running", "local", "cpus", 1, 8, 5.0),
        msgspec.convert(STATUS, wire.StatusView),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_what_a_newer_slaqd_says_beside_is_passed_over(answer: Struct) -> None:
    def more(value: object) -> object:
        if isinstance(value, dict):
            return {**{name: more(inner) for name, inner in value.items()}, "news": 1}
        return [more(inner) for inner in value] if isinstance(value, list) else value

    line = msgspec.json.encode(more(msgspec.json.decode(wire.encode(answer))))
    seen = msgspec.json.decode(line.replace(b'"pools":{"news":1}', b'"pools":{}'), type=type(answer))
    assert type(seen) is type(answer)


def test_every_answer_may_grow_and_no_question() -> None:
    structs = [each for each in vars(wire).values() if isinstance(each, type) and issubclass(each, Struct)]
    mine = {each for each in structs if each.__module__ == wire.__name__}
    strict = {each.__name__ for each in mine if each.__struct_config__.forbid_unknown_fields}
    assert strict == {"Request", "JobArgs", "NamedJobArgs", "HistoryArgs", "RegisterArgs", "EndedArgs"}
