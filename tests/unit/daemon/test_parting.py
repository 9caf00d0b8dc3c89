"""What becomes of jobs when slaqd stops or restores them, and who is told of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from put_together import Daemon, Make
from slaqd_local import processes
from structlog.testing import capture_logs

from slaqd.act import Journal
from slaqd.act.past import Ask, read_past
from slaqd.adapter import Registration, load
from slaqd.config import Config, EnforceSection, SlaqdSection
from slaqd.daemon.offline import restore_offline
from slaqd.errors import AdapterUnavailable, StateError
from slaqd.types import JobKey, Lever, Owner, Snapshot, Tag
from slaqd.wire import EventView

EVE = Owner(uid=os.geteuid() + 1, name="eve")


@pytest.fixture
def daemon(make: Make) -> Daemon:
    made: Daemon = make(enforce=EnforceSection(users=("eve",)))
    made.start(1)
    made.start(2, owner=EVE)
    made.cycle()
    assert set(made.held()) == {"1", "2"}
    return made


@pytest.fixture
def sleeper() -> Iterator[int]:
    wait = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(wait, start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


def restores(told: list[EventView]) -> list[tuple[str, str | None]]:
    return [(event.job, event.outcome) for event in told if event.what == "Restore"]


def restores_of(daemon: Daemon, uid: int | None = None) -> list[tuple[str, str | None]]:
    return restores(list(daemon.journal.past(Ask(uid=uid))))


def test_an_owner_is_told_that_her_job_was_let_go_when_slaqd_stopped(daemon: Daemon) -> None:
    daemon.loop.let_go()
    assert restores_of(daemon, EVE.uid) == [("2", "Accepted")]
    assert sorted(restores_of(daemon)) == [("1", "Accepted"), ("2", "Accepted")]


def test_an_owner_is_told_of_the_restore_of_a_job_that_no_cycle_has_seen(daemon: Daemon) -> None:
    young = daemon.start(3, owner=EVE)
    daemon.loop.restore([young], "asked")
    assert restores_of(daemon, EVE.uid) == [("3", "Accepted")]


def test_an_owner_is_told_of_a_restore_without_a_daemon(tmp_path: Path, sleeper: int) -> None:
    seen = processes.read(sleeper)
    assert seen is not None
    journal = Journal(tmp_path / "journal.sqlite")
    key = JobKey("local", str(sleeper), seen.start)
    journal.register(Registration(key, EVE, Tag(), "job", "/", 0.0))
    journal.close()
    assert restore_offline(Config(slaqd=SlaqdSection(adapter="local", state_dir=str(tmp_path))), None) == 1
    assert restores(read_past(journal.path, Ask(uid=EVE.uid))) == [(str(sleeper), "Accepted")]


@pytest.mark.parametrize("error", [AdapterUnavailable("no answer"), StateError("no answer")])
def test_a_stop_that_cant_tell_whether_jobs_were_let_go_says_that_it_doesnt_know(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def closes(*, restore: bool) -> None:
        assert restore
        raise error

    monkeypatch.setattr(daemon.adapter, "close", closes)
    with capture_logs() as logs:
        daemon.loop.let_go()
    rows = [row for row in daemon.journal.actions() if row.kind == "Restore"]
    assert [(row.outcome, row.outcome_why) for row in rows] == [("Unknown", "slaqd stopped: no answer")] * 2
    assert [(each["event"], each["error"]) for each in logs] == [("jobs may be held still", "no answer")]
    assert "stopped" in [event.what for event in daemon.journal.past(Ask())]


def test_a_stop_writes_nothing_of_a_job_that_keeps_its_last_target(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = daemon.adapter.snapshot

    def follows(deadline: float) -> Snapshot:
        seen = look(deadline)
        first, second = seen.jobs
        jobs = (msgspec.structs.replace(first, lever=Lever.FILE), second)
        return msgspec.structs.replace(seen, jobs=jobs)

    monkeypatch.setattr(daemon.adapter, "snapshot", follows)
    daemon.loop.let_go()
    assert restores_of(daemon) == [("2", "Accepted")]


def test_a_restore_without_a_daemon_closes_the_adapter_though_the_manager_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    def away(_self: object, _deadline: float) -> None:
        raise AdapterUnavailable("no answer")

    monkeypatch.setattr(load("local"), "snapshot", away)
    monkeypatch.setattr(load("local"), "close", lambda _self, *, restore: closed.append(restore))
    Journal(tmp_path / "journal.sqlite").close()
    with pytest.raises(AdapterUnavailable):
        restore_offline(Config(slaqd=SlaqdSection(adapter="local", state_dir=str(tmp_path))), None)
    assert closed == [False]
