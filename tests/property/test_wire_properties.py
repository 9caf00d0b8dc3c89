"""Any bytes as a line on the control socket: a reply, never an exception, and slaqd as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from put_together import Daemon

from slaqd import wire
from slaqd.daemon.server import answer_line

CODES = {"bad_request", "not_found", "not_permitted", "refused", "busy", "version"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["job", "pgid", "start", "status", "tag", "name", "cwd", "waits"]


@pytest.fixture(scope="class")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give one daemon to one test: any verb in another may have paused it or dropped its job."""
    made = Daemon(tmp_path_factory.mktemp("state"))
    made.start(1)
    made.cycle()
    yield made
    made.journal.close()


def replied(daemon: Daemon, line: bytes) -> wire.Reply:
    """Give the reply as the other end reads it; ``internal`` would be a fault of slaqd's own."""
    reply = msgspec.json.decode(
        wire.encode(answer_line(line, os.geteuid(), daemon.verbs.answer)), type=wire.Reply
    )
    assert reply.v == wire.VERSION
    if reply.error is not None:
        assert reply.error.code in CODES, reply.error.text
        assert reply.error.text
    return reply


@given(st.binary(max_size=200))
@example(b"\xff\xfe")
@example(b'{"v":1,"verb":"show","args":{"job":"\xff"}}')
@example(b'{"v":1,"verb":"show","args":{"job":"\\ud800"}}')
@example(b'{"v":1,"verb":"jobs"}{"v":1,"verb":"jobs"}')
@example(b"[" * 60_000)
@example(b"1" * (wire.MAX_LINE + 1))
def test_any_bytes_get_a_reply(daemon: Daemon, line: bytes) -> None:
    replied(daemon, line)


@given(JSON)
def test_any_json_gets_a_reply(daemon: Daemon, value: object) -> None:
    replied(daemon, json.dumps(value).encode())


@given(
    st.sampled_from([verb.value for verb in wire.Verb]), st.dictionaries(st.sampled_from(NAMES), JSON) | JSON
)
def test_any_arguments_of_any_verb_get_a_reply(daemon: Daemon, verb: str, args: object) -> None:
    replied(daemon, json.dumps({"v": 1, "verb": verb, "args": args}).encode())


NUMBERS = st.integers() | st.sampled_from([-(2**70), -1, 0, 1, 7, 2**31, 2**63 - 1, 2**63, 2**70])


@given(
    st.integers(1, 99) | NUMBERS, st.just(7) | NUMBERS, st.text(max_size=10), st.text(max_size=10), st.text()
)
@example(1, 7, "a\x00b", "/", "x")
@example(1, 7, "{foo}", "/", "x")
@example(1, 7, "relative", "", "x")
@example(1, 7, "{name}", "/", "../../etc")
def test_any_registration_gets_a_reply_and_the_next_cycle_lives(
    daemon: Daemon, pgid: int, start: int, log: str, cwd: str, name: str
) -> None:
    args = {"pgid": pgid, "start": start, "tag": {"log": log}, "name": name, "cwd": cwd, "waits": True}
    replied(daemon, json.dumps({"v": 1, "verb": "register", "args": args}).encode())
    assert "nothing changed" not in daemon.cycle()


SIGNS = st.sampled_from(["[", "ü", "%x", "{name}", "\0", "\n", "/", "a", "\U0001f600"])
LONG = st.builds(
    lambda sign, times, head: head + sign * times, SIGNS, st.integers(0, 16_000), st.sampled_from(["", "/"])
)
WORDS = st.none() | st.text(max_size=10) | LONG
SAID = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["log", "key", "format", "dir", "worker", "done", "signal"], WORDS),
        **dict.fromkeys(["min", "max"], st.none() | NUMBERS | st.just(10**30)),
        **dict.fromkeys(["weight", "target", "grace"], st.none() | st.floats(allow_nan=False) | NUMBERS),
        "better": st.sampled_from(["higher", "lower", "no"]),
        "lever": st.sampled_from(["cpus", "file", "none", "queue", "no"]),
    },
)


@settings(deadline=None)  # no duration is promised
@given(st.integers(2, 99), SAID, WORDS | st.just("job"), WORDS | st.just("/"), st.sampled_from([True, False]))
def test_whatever_is_registered_the_next_cycle_works_for_the_others(
    daemon: Daemon, pgid: int, tag: dict[str, object], name: str | None, cwd: str | None, waits: object
) -> None:
    args = {"pgid": pgid, "start": 7, "tag": tag, "name": name, "cwd": cwd, "waits": waits}
    replied(daemon, json.dumps({"v": 1, "verb": "register", "args": args}).encode())
    assert "nothing changed" not in daemon.cycle()
    assert daemon.held()["1"] >= 1
    assert all(len(msgspec.json.encode(job)) < 40_000 for job in daemon.journal.registrations())


@given(NUMBERS, NUMBERS, NUMBERS)
def test_any_end_gets_a_reply(daemon: Daemon, job: int, start: int, status: int) -> None:
    args = {"job": str(job), "start": start, "status": status}
    replied(daemon, json.dumps({"v": 1, "verb": "ended", "args": args}).encode())


@given(st.integers())
def test_another_version_is_refused_in_words(daemon: Daemon, version: int) -> None:
    reply = replied(daemon, json.dumps({"v": version, "verb": "jobs"}).encode())
    assert (reply.error is None) == (version == wire.VERSION)


@given(st.binary(max_size=60), st.integers(1, 2**31 - 1))
def test_a_stranger_learns_nothing(daemon: Daemon, line: bytes, uid: int) -> None:
    if uid == os.geteuid():
        return
    for asked in (line, b'{"v":1,"verb":"jobs"}', b'{"v":1,"verb":"restore","args":{}}'):
        reply = answer_line(asked, uid, daemon.verbs.answer)
        assert reply.error is not None
        assert reply.error.code in {"bad_request", "not_permitted", "version"}
