"""A slaqd that ends between a registration and its answer: the one that follows it is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest
from dying import dying
from put_together import Call, Daemon

from slaqd import client as clients
from slaqd.cli.doctor import _unanswered
from slaqd.client import AnswerLostError, Client, register
from slaqd.daemon.server import Server
from slaqd.errors import DaemonUnreachable
from slaqd.types import Severity, Tag
from slaqd.wire import RegisterArgs, StatusView, Verb

JOB = RegisterArgs(pgid=5, start=7, tag=Tag(), name="job", cwd="/", waits=True)


def test_an_answer_that_was_lost_is_told_from_a_slaqd_that_was_never_there(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with dying(path), pytest.raises(AnswerLostError, match="slaqd ended before it answered"):
        Client(path, 60).ask(Verb.STATUS, StatusView)
    with pytest.raises(DaemonUnreachable, match="no slaqd is running there") as caught:
        Client(path, 60).ask(Verb.STATUS, StatusView)
    assert not isinstance(caught.value, AnswerLostError)


def test_a_slaqd_that_follows_takes_the_registration_and_the_job_is_there_once(
    daemon: Daemon, tmp_path: Path
) -> None:
    daemon.start(5)
    path = tmp_path / "next.sock"
    servers: list[Server] = []
    told: list[str] = []

    def restart(news: str) -> None:
        told.append(news)
        servers.append(Server(path, daemon.verbs.answer))

    with dying(path):
        registered = register(Client(path, 60), JOB, 0.0, restart)
    servers[0].close()
    assert registered.job == "5"
    assert told == ["slaqd ended before it answered; waiting up to 10 s for it to be back"]
    assert [one.key.id for one in daemon.journal.registrations()].count("5") == 1


def test_where_none_follows_the_wait_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "GONE_S", 0.2)
    path, told = tmp_path / "s.sock", list[str]()
    with dying(path), pytest.raises(DaemonUnreachable, match="no slaqd is running there"):
        register(Client(path, 60), JOB, 0.01, told.append)
    assert len(told) == 1


def test_a_command_that_was_interrupted_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with dying(path), pytest.raises(AnswerLostError):
        register(Client(path, 60), JOB, 0.01, lambda _news: None, alive=lambda: False)


def test_without_any_slaqd_nothing_is_waited_for(tmp_path: Path) -> None:
    told = list[str]()
    with pytest.raises(DaemonUnreachable, match="no slaqd is running there"):
        register(Client(tmp_path / "s.sock", 60), JOB, 0.01, told.append)
    assert told == []


def test_a_command_that_changes_something_says_that_it_may_be_done(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLAQ_SOCKET", str(tmp_path / "dying.sock"))
    with dying(tmp_path / "dying.sock"):
        status, _, said = call("pause")
    assert (status, "it may have done what was asked, or not" in said) == (4, True)


def test_doctor_calls_a_slaqd_that_ended_while_it_was_asked_an_error_and_one_that_never_was_a_warning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.sock"
    with dying(path), pytest.raises(AnswerLostError) as lost:
        Client(path, 60).ask(Verb.STATUS, StatusView)
    assert _unanswered(lost.value).severity is Severity.ERROR
    with pytest.raises(DaemonUnreachable) as gone:
        Client(path, 60).ask(Verb.STATUS, StatusView)
    assert _unanswered(gone.value).severity is Severity.WARNING
