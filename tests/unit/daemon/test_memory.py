"""What outlives a daemon: pauses, plans, paces; and the alarm and the doubt about its journal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from put_together import Daemon
from structlog.testing import capture_logs

from slaqd.act import open_journal, schema
from slaqd.daemon.tally import Result
from slaqd.testing import ManualClock
from slaqd.types import Mode
from slaqd.wire import EventView, Failure, HistoryArgs, JobArgs, StatusView, Verb

NAME = "journal.sqlite"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    made.journal.close()


def again(daemon: Daemon, folder: Path, **said: object) -> Daemon:
    """Start slaqd anew after a kill."""
    daemon.journal.close()
    return Daemon(folder, clock=daemon.clock, manager=daemon.manager, **said)  # type: ignore[arg-type]


def log_more(log: Path, clock: ManualClock, first: int) -> None:
    """Write four iterations, the last one just now."""
    with log.open("a", encoding="utf-8") as out:
        for step in range(first, first + 4):
            point = {"step": step, "loss": 1 + 5 / step, "time": clock.wall() + 0.5 * (step - first - 3)}
            out.write(json.dumps(point) + "\n")


def events(daemon: Daemon, job: str | None = None) -> list[EventView]:
    return list(daemon.ask(Verb.HISTORY, list[EventView], HistoryArgs(job=job)))


# pauses, plans, paces


@pytest.mark.parametrize("job", [None, "1"])
def test_a_pause_and_its_end_survive_restarts(daemon: Daemon, tmp_path: Path, job: str | None) -> None:
    daemon.start(1)
    daemon.ask(Verb.PAUSE, str, JobArgs(job=job))
    second = again(daemon, tmp_path)
    second.cycle()
    assert second.manager.acts == []
    second.ask(Verb.RESUME, str, JobArgs(job=job))
    third = again(second, tmp_path)
    third.cycle()
    assert len(third.manager.acts) == 1
    third.journal.close()


def test_a_restart_knows_the_paces_that_were_measured(daemon: Daemon, tmp_path: Path) -> None:
    clock = daemon.clock
    assert isinstance(clock, ManualClock)
    log = tmp_path / "train.jsonl"
    one = daemon.start(1, log=str(log))
    for turn in range(30):
        log_more(log, clock, 1 + 4 * turn)
        daemon.cycle()
    known = daemon.loop._watch._jobs[one].pace.sums
    kept = {each.key: each.sums for each in daemon.journal.observations()}
    assert kept[one][0] > 0
    second = again(daemon, tmp_path)
    second.cycle()
    assert second.loop._watch._jobs[one].pace.sums == kept[one]
    second.loop.let_go()
    third = again(second, tmp_path)
    third.cycle()
    assert third.loop._watch._jobs[one].pace.sums == kept[one]
    assert known[0] >= kept[one][0] > 0
    third.journal.close()


def test_a_pace_of_another_log_is_not_taken_up(daemon: Daemon, tmp_path: Path) -> None:
    clock = daemon.clock
    assert isinstance(clock, ManualClock)
    one = daemon.start(1, log=str(tmp_path / "train.jsonl"))
    for turn in range(5):
        log_more(tmp_path / "train.jsonl", clock, 1 + 4 * turn)
        daemon.cycle()
    daemon.loop.let_go()
    assert {each.key for each in daemon.journal.observations()} == {one}
    daemon.start(1, log=str(tmp_path / "other.jsonl"))
    second = again(daemon, tmp_path)
    second.cycle()
    assert not second.loop._watch._jobs[one].pace.known
    second.journal.close()


def test_a_world_that_stands_still_writes_nothing(daemon: Daemon) -> None:
    for number in (1, 2):
        daemon.start(number)
    for _ in range(3):
        daemon.cycle()
    before = daemon.journal._db.total_changes
    for _ in range(100):
        daemon.cycle()
    assert daemon.journal._db.total_changes == before


# history


def test_the_history_tells_what_happened_in_order(daemon: Daemon) -> None:
    daemon.start(1)
    daemon.cycle()
    assert isinstance(daemon.clock, ManualClock)
    daemon.clock.advance(1)
    daemon.ask(Verb.PAUSE, str, JobArgs(job="1"))
    told = [(each.what, each.job, each.units) for each in events(daemon)]
    assert told[:2] == [("started", "", None), ("registered", "1", None)]
    assert told[2:-1] == [("planned", "1", 8), ("Adopt", "1", 8)]
    assert told[-1] == ("paused", "1", None)
    acted = next(each for each in events(daemon, "1") if each.what == "Adopt")
    assert (acted.outcome, acted.before) == ("Accepted", None)
    assert events(daemon, "77") == []


def test_the_history_of_a_job_that_ended_ends_with_its_end(daemon: Daemon) -> None:
    one = daemon.start(1)
    daemon.cycle()
    daemon.manager.ended.add(one)
    daemon.cycle()
    assert [each.what for each in events(daemon, "1")][-1] == "ended"


def test_since_leaves_out_what_came_before(daemon: Daemon) -> None:
    daemon.start(1)
    daemon.cycle()
    assert isinstance(daemon.clock, ManualClock)
    daemon.clock.advance(100)
    daemon.start(2)
    since = daemon.clock.wall() - 50
    told = daemon.ask(Verb.HISTORY, list[EventView], HistoryArgs(since=since))
    assert [(each.what, each.job) for each in told] == [("registered", "2")]


# a journal that can't be written


def broken(daemon: Daemon) -> None:
    """Make every write fail as a full disk does."""
    daemon.journal._db.execute("PRAGMA max_page_count = 1")
    daemon.journal._db.execute("PRAGMA query_only = 1")


def mended(daemon: Daemon) -> None:
    daemon.journal._db.execute("PRAGMA query_only = 0")
    daemon.journal._db.execute("PRAGMA max_page_count = 1000000")


def test_a_journal_that_cant_be_written_is_an_alarm_said_once_and_nothing_is_done(daemon: Daemon) -> None:
    daemon.start(1)
    daemon.cycle()
    daemon.start(2)
    broken(daemon)
    acts = len(daemon.manager.acts)
    with capture_logs() as logs:
        sentences = [daemon.cycle() for _ in range(5)]
    assert len(daemon.manager.acts) == acts
    assert all("nothing changed" in sentence for sentence in sentences)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == [
        "the journal can't be written"
    ]
    assert "readonly" in daemon.ask(Verb.STATUS, StatusView).alarm
    mended(daemon)
    with capture_logs() as logs:
        daemon.cycle()
        daemon.cycle()
    assert [each["event"] for each in logs].count("the journal can be written again") == 1
    assert len(daemon.manager.acts) > acts
    assert daemon.ask(Verb.STATUS, StatusView).alarm == ""


def test_an_alarm_ends_without_anything_to_do(daemon: Daemon) -> None:
    daemon.cycle()
    broken(daemon)
    assert isinstance(daemon.ask(Verb.PAUSE, str, JobArgs()), Failure)
    daemon.cycle()
    assert daemon.loop.alarm
    mended(daemon)
    daemon.cycle()
    assert daemon.loop.alarm == ""


@pytest.mark.parametrize("jobs", [0, 1])
def test_while_it_cant_be_written_every_cycle_says_and_counts_so_also_one_with_nothing_to_do(
    daemon: Daemon, jobs: int
) -> None:
    if jobs:
        daemon.start(1)
    for _ in range(3):
        quiet = daemon.cycle()
    broken(daemon)
    assert isinstance(daemon.ask(Verb.PAUSE, str, JobArgs()), Failure)
    for number in range(1, 6):
        sentence = daemon.cycle()
        counts = daemon.loop.view.counts
        assert sentence == daemon.ask(Verb.STATUS, StatusView).sentence == f"{quiet}; {daemon.loop.alarm}"
        assert "readonly" in sentence
        assert (counts.journal_writable, counts.enforcing, counts.cycles[Result.JOURNAL]) == (
            False,
            False,
            number,
        )
    mended(daemon)
    assert daemon.cycle() == quiet
    counts = daemon.loop.view.counts
    assert (counts.journal_writable, counts.enforcing, counts.cycles[Result.JOURNAL]) == (True, True, 5)


# a journal that was damaged


@pytest.fixture
def doubtful(daemon: Daemon, tmp_path: Path) -> Iterator[Daemon]:
    """Start over a journal that was changed behind slaqd's back; its two jobs hold units."""
    for number in (1, 2):
        daemon.start(number)
    daemon.cycle()
    daemon.journal.close()
    with closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as db:
        db.execute("DROP TRIGGER facts_update")
        db.execute("UPDATE facts SET value = '9' WHERE name = 'runs'")
        db.execute(next(each for each in schema.CREATE if "facts_update" in each))
    open_journal(tmp_path / NAME, 1_772_424_000.0).close()
    daemon.manager.acts.clear()
    made = again(daemon, tmp_path)
    yield made
    made.journal.close()


def test_in_doubt_it_says_so_and_acts_on_nothing_until_it_is_confirmed(doubtful: Daemon) -> None:
    doubtful.start(3, waits=True)
    for _ in range(3):
        sentence = doubtful.cycle()
    assert doubtful.manager.acts == []
    said = "paused until an admin says slaqctl resume: the journal was damaged"
    assert said in sentence
    status = doubtful.ask(Verb.STATUS, StatusView)
    assert status.paused
    assert status.alarm.startswith(said)
    assert doubtful.ask(Verb.RESUME, str, JobArgs(job="1")) == "job 1 goes on"
    doubtful.cycle()
    assert doubtful.manager.acts == []
    doubtful.ask(Verb.RESUME, str, JobArgs())
    doubtful.cycle()
    assert doubtful.manager.acts
    assert doubtful.ask(Verb.STATUS, StatusView).alarm == ""


def test_in_doubt_the_jobs_are_known_and_a_new_command_starts_at_once(doubtful: Daemon) -> None:
    doubtful.start(3, waits=True)
    doubtful.cycle()
    states = {key.id: (view.state, view.wait) for key, view in doubtful.loop.view.jobs.items()}
    assert states["3"] == ("waiting", False)
    assert states["1"] == states["2"] == ("running", False)


def test_in_doubt_a_stop_touches_nothing(doubtful: Daemon) -> None:
    held = doubtful.held()
    assert held
    doubtful.cycle()
    doubtful.loop.let_go()
    assert doubtful.adapter.closed is False
    assert doubtful.held() == held
    assert list(doubtful.journal.actions()) == []


def test_in_doubt_a_restart_is_still_in_doubt(doubtful: Daemon, tmp_path: Path) -> None:
    with capture_logs() as logs:
        third = again(doubtful, tmp_path, mode=Mode.ENFORCE)
    (said,) = [each for each in logs if each["log_level"] == "error"]
    assert said["do"].endswith("slaqctl resume")
    assert "set aside as" in said["why"]
    third.cycle()
    assert third.manager.acts == []
    assert "set aside" in [each.what for each in events(third)]
    third.journal.close()
