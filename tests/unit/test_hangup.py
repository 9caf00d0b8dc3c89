"""What a hang-up means to whoever hears it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from slaqd import hangup
from slaqd.hangup import HangUp


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether there is one, to be changed."""
    there = [True]
    monkeypatch.setattr(hangup, "_has_terminal", lambda: there[0])
    before = signal.getsignal(signal.SIGHUP)
    yield there
    signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_was_closed_is_told_from_a_wish(terminal: list[bool]) -> None:
    heard = HangUp()
    assert not heard.closed
    terminal[0] = False
    assert heard.closed
    assert not HangUp().closed, "it never had one"


def test_who_was_told_to_outlive_the_terminal_does(terminal: list[bool]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup(1) does
    heard = HangUp()
    heard.hear()
    terminal[0] = False
    signal.raise_signal(signal.SIGHUP)
    assert heard.asked
    assert not heard.closed
    heard.hear_no_more()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
