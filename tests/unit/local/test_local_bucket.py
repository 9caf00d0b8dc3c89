"""The keeper's token bucket and its pipe, without any process."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slaqd_local.keeper import DEBT_S, Bucket, Lines


def run(rate: float, seconds: float, late: float, speed: float) -> float:
    """Let a job that always wants the CPU run; give its share over its rate."""
    bucket, used, now, holds = Bucket(2), 0.0, 0.0, False
    bucket.rate = rate
    bucket.step(0.0, 0.0, running=True)
    while now < seconds:
        spent_all, earned_enough = bucket.saved <= 0, bucket.saved >= bucket.slice * 0.999
        holds = not earned_enough if holds else spent_all and not bucket.free
        elapsed = max(0.002, min(0.25, bucket.wait(running=not holds))) + late
        spent = 0.0 if holds else elapsed * speed
        bucket.step(elapsed, spent, running=not holds)
        now, used = now + elapsed, used + spent
    return used / now / rate


@given(st.floats(0.02, 1.5), st.floats(0, 0.01), st.sampled_from([1.0, 2.0]))
def test_late_wake_ups_are_made_up_for(rate: float, late: float, speed: float) -> None:
    assert run(rate, 60, late, speed) == pytest.approx(min(1.0, speed / rate), rel=0.1)


def test_a_rate_of_all_cores_is_free() -> None:
    bucket = Bucket(2)
    assert bucket.free
    bucket.rate = 1.99
    assert not bucket.free


def test_what_an_idle_job_saves_is_bounded_and_so_are_debts() -> None:
    bucket = Bucket(2)
    bucket.rate = 0.5
    bucket.step(1000.0, 0.0, running=True)
    assert bucket.saved == bucket.most
    bucket.step(1.0, 1000.0, running=True)
    assert bucket.saved == -0.5 * DEBT_S


def test_half_a_line_is_no_line_and_an_end_is_an_end() -> None:
    reader, writer = os.pipe()
    lines = Lines(reader)
    os.write(writer, b"hold 100\nmem")
    assert lines.read() == [b"hold 100"]
    os.write(writer, b"bers 1 2\n\n")
    assert lines.read() == [b"members 1 2"]
    os.close(writer)
    assert lines.read() is None
    os.close(reader)
