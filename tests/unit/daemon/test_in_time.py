"""Brakes while a cycle lasts long: each says what it did before slaqctl gives up waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from living import wait_for
from put_together import Daemon, Make
from structlog.testing import capture_logs

from slaqd.client import TIMEOUT_S, Client
from slaqd.daemon.in_time import BRAKE_S, in_time
from slaqd.daemon.server import Server
from slaqd.errors import ControlError
from slaqd.types import Action, Outcome
from slaqd.wire import JobArgs, Verb

PATIENCE_S = 60.0


@pytest.fixture
def served(make: Make, tmp_path: Path) -> Iterator[Daemon]:
    """Give a daemon behind its socket, that holds one job."""
    daemon = make()
    daemon.start(1)
    daemon.cycle()
    server = Server(tmp_path / "s.sock", daemon.verbs.answer)
    yield daemon
    server.close()


@pytest.fixture
def end(served: Daemon) -> Iterator[Callable[[], None]]:
    """Begin a cycle that lasts, and give what ends it."""
    hangs, over = threading.Event(), threading.Event()

    def cycle() -> None:
        with served.loop.acting:
            hangs.set()
            over.wait(PATIENCE_S)

    thread = threading.Thread(target=cycle)

    def ended() -> None:
        over.set()
        thread.join()

    thread.start()
    assert hangs.wait(PATIENCE_S)
    yield ended
    ended()


@pytest.fixture
def busy(served: Daemon, end: Callable[[], None]) -> Daemon:
    """Give a daemon in a cycle that doesn't end before the test."""
    del end
    return served


def test_a_brake_waits_for_a_cycle_less_long_than_slaqctl_waits_for_the_brake() -> None:
    assert 0.0 < BRAKE_S <= TIMEOUT_S - 0.5


@pytest.mark.parametrize("job", [None, "1"])
def test_a_pause_is_told_to_be_in_force_though_a_cycle_lasts(
    busy: Daemon, tmp_path: Path, job: str | None
) -> None:
    said = Client(tmp_path / "s.sock").ask(Verb.PAUSE, str, JobArgs(job=job))
    assert "is paused: it keeps what it has" in said
    assert "slaqd is busy with a cycle, which may still change something" in said
    assert busy.loop.paused or busy.journal.paused()


def test_a_resume_is_told_to_be_done_though_a_cycle_lasts(busy: Daemon, tmp_path: Path) -> None:
    busy.journal.pause_all(paused=True)
    assert Client(tmp_path / "s.sock").ask(Verb.RESUME, str, JobArgs()) == "everything goes on"
    assert not busy.loop.paused


@pytest.mark.parametrize(("verb", "job"), [(Verb.RESTORE, None), (Verb.RESTORE, "1"), (Verb.DROP, "1")])
def test_what_has_to_wait_for_a_cycle_is_paused_and_says_to_ask_again(
    busy: Daemon, tmp_path: Path, verb: Verb, job: str | None
) -> None:
    with pytest.raises(
        ControlError, match=r"busy with a cycle or another brake; .* is paused already: ask again"
    ):
        Client(tmp_path / "s.sock").ask(verb, str, JobArgs(job=job))
    assert busy.loop.paused or busy.journal.paused()
    assert busy.held() == {"1": 8}


def test_what_was_told_to_ask_again_is_not_done_once_the_cycle_ends(
    served: Daemon, end: Callable[[], None], tmp_path: Path
) -> None:
    with pytest.raises(ControlError, match="ask again"):
        Client(tmp_path / "s.sock").ask(Verb.RESTORE, str, JobArgs(job="1"))
    end()
    served.cycle()
    assert served.held() == {"1": 8}
    assert "has back what it had" in Client(tmp_path / "s.sock").ask(Verb.RESTORE, str, JobArgs(job="1"))
    assert served.held() == {}


@pytest.mark.parametrize(("verb", "job"), [(Verb.RESTORE, None), (Verb.RESTORE, "1"), (Verb.DROP, "1")])
def test_what_lasts_itself_is_told_to_go_on_and_is_done_in_the_end(
    served: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Verb, job: str | None
) -> None:
    over, whole = threading.Event(), served.adapter.apply

    def slow(actions: Sequence[Action], deadline: float) -> Sequence[Outcome]:
        over.wait(PATIENCE_S)
        return whole(actions, deadline)

    monkeypatch.setattr(served.adapter, "apply", slow)
    with pytest.raises(
        ControlError, match=r"slaqd is still giving back .* is paused already: see slaqctl jobs"
    ):
        Client(tmp_path / "s.sock").ask(verb, str, JobArgs(job=job))
    over.set()
    with served.loop.between_acts(PATIENCE_S) as free:
        assert free
    assert served.held() == {}
    assert [one.key.id for one in served.journal.registrations()] == ([] if verb is Verb.DROP else ["1"])


def test_what_fails_after_its_asker_was_answered_is_logged(served: Daemon) -> None:
    over = threading.Event()

    def fails() -> None:
        over.wait(PATIENCE_S)
        raise RuntimeError("the reason")

    with capture_logs() as logs:
        with pytest.raises(ControlError, match="see slaqctl jobs"):
            in_time(served.loop, "job 1", fails)
        over.set()
        wait_for(lambda: logs, lambda: "nothing is logged")
    assert [(each["event"], each["error"]) for each in logs] == [
        ("a brake that took long has failed", "the reason")
    ]
