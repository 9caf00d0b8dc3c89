"""What travels between slaqd, its agent and the agent's children."""

from __future__ import annotations

import math
import random
import socket
import struct
from array import array
from typing import Any

import msgspec
import pytest
from played_child import CURVE, SOURCE, forged, framed

from slaqd.agent.protocol import (
    KEEP,
    LONGEST,
    ClosedError,
    Done,
    Failed,
    Gave,
    Get,
    Hello,
    Look,
    Looked,
    Put,
    Reading,
    Request,
    Result,
    UseHands,
    pack,
    receive,
    send,
    unpack,
)
from slaqd.types import Curve, Health


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (Hello(), Request),
        (Look(1.5, (SOURCE,)), Request),
        (Put(20_001, "/", "/target.json", b"{}"), Request),
        (Get(20_001, "/", "/ack.json"), Request),
        (UseHands(b"\x80"), Request),
        (Done(pack(CURVE), b"state", again=True), Result),
        (Gave(None), Result),
        (Failed(5, "no"), Result),
        (Looked((Reading("job", pack(CURVE)), Reading("other", refused="no")), 3), Looked),
    ],
)
def test_a_message_arrives_as_it_was_sent(message: Any, kind: Any) -> None:
    here, there = socket.socketpair()
    with here, there:
        send(here, message)
        assert receive(there, kind) == message


def test_a_curve_travels_whole() -> None:
    assert repr(unpack(pack(CURVE))) == repr(CURVE)
    assert unpack(pack(Curve())).health is Health.EMPTY


def test_paths_and_notes_of_any_kind_travel_and_steer_nothing() -> None:
    odd = msgspec.structs.replace(CURVE, path="/\udcff\x1b[2J", note="\ud800\r\n\u202e" + "x" * 10_000)
    points = pack(odd)
    assert msgspec.msgpack.encode(points)
    forged = msgspec.structs.replace(points, path="\x1b[2J", note="\r" * 10_000)
    for curve in (unpack(points), unpack(forged)):
        assert (curve.path + curve.note).isprintable()
        assert len(curve.note) <= 6 * LONGEST


def doubles(*values: float) -> bytes:
    return array("d", values).tobytes()


@pytest.mark.parametrize(
    "points",
    [
        forged(steps=b"\0"),
        forged(steps=doubles(1, 2)),
        forged(steps=doubles(1, 3, 2)),
        forged(steps=doubles(1, 1, 2)),
        forged(steps=doubles(1, 2, math.inf)),
        forged(steps=doubles(math.nan, 2, 3)),
        forged(losses=doubles(1, math.nan, 2)),
        forged(losses=doubles(1, -math.inf, 2)),
        forged(first=math.nan),
        forged(lowest=math.inf),
        forged(largest_change=math.nan),
        forged(count=2),
        forged(count=-1),
        forged(
            steps=doubles(*range(KEEP + 1)),
            losses=doubles(*range(KEEP + 1)),
            seconds=doubles(*range(KEEP + 1)),
            count=KEEP + 1,
        ),
    ],
)
def test_a_curve_that_no_log_gives_is_refused(points: Any) -> None:
    with pytest.raises(ValueError, match=r"curve|multiple"):
        unpack(points)


def test_what_is_said_of_a_message_too_long_or_senseless_is_that_the_other_side_is_lost() -> None:
    noise = random.Random(1).randbytes(64)  # noqa: S311 - any will do
    for data, most in ((framed(Hello()), 3), (struct.pack(">I", 64) + noise, 100), (b"\0\0", 100)):
        here, there = socket.socketpair()
        with here, there:
            here.sendall(data)
            here.shutdown(socket.SHUT_WR)
            with pytest.raises(ClosedError):
                receive(there, Request, most)
