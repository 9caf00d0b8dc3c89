"""What can be asked on the control socket, and by whom."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from put_together import Daemon

from slaqd import wire
from slaqd.daemon import verbs as verbs_module
from slaqd.types import JobKey, Lever, Mode, Owner, Tag
from slaqd.wire import JobArgs, JobView, PlanView, Registered, StatusView, Verb


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    made.journal.close()


OWNER = Owner(uid=os.geteuid() + 1, name="eve")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, everybody=True)
    yield made
    made.journal.close()


def register(pgid: int, **said: Any) -> wire.RegisterArgs:
    filled = {"start": 7, "tag": Tag(), "name": "train.py", "cwd": "/", "waits": True, **said}
    return wire.RegisterArgs(pgid=pgid, **filled)


def jobs(daemon: Daemon) -> Mapping[str, JobView]:
    return {view.job: view for view in daemon.ask(Verb.JOBS, list[JobView])}


@pytest.mark.parametrize("uid", [0, os.geteuid()])
def test_root_and_ones_own_user_are_served(daemon: Daemon, uid: int) -> None:
    assert daemon.verbs.answer(wire.Request(v=1, verb=Verb.JOBS), uid).error is None


@pytest.mark.parametrize("verb", list(Verb))
def test_nobody_else_is_served_whatever_is_asked(daemon: Daemon, verb: Verb) -> None:
    reply = daemon.verbs.answer(wire.Request(v=1, verb=verb), os.geteuid() + 1)
    assert reply.error is not None
    assert reply.error.code == "not_permitted"


def test_status_tells_the_last_cycle(daemon: Daemon) -> None:
    daemon.start(1)
    sentence = daemon.cycle()
    view = daemon.ask(Verb.STATUS, StatusView)
    assert (view.sentence, view.cycles, view.running, view.waiting) == (sentence, 1, 1, 0)
    assert (view.mode, view.paused, view.pid, view.room, view.planned) == (
        Mode.ENFORCE,
        False,
        os.getpid(),
        10,
        8,
    )


def test_a_job_is_shown_from_its_registration_on(daemon: Daemon) -> None:
    assert daemon.ask(Verb.REGISTER, Registered, register(5)) == Registered(job="5", wait=True)
    view = jobs(daemon)["5"]
    assert (view.state, view.wait, view.reason) == ("waiting", True, "registered; the next cycle looks at it")
    daemon.cycle()
    view = jobs(daemon)["5"]
    assert (view.state, view.wait, view.units) == ("running", False, None) or view.state == "waiting"
    daemon.cycle()
    assert (jobs(daemon)["5"].state, jobs(daemon)["5"].wait, jobs(daemon)["5"].units) == (
        "running",
        False,
        10,
    )


def test_a_job_is_never_shown_twice(daemon: Daemon) -> None:
    daemon.ask(Verb.REGISTER, Registered, register(5))
    for _ in range(2):
        daemon.cycle()
        assert len(daemon.ask(Verb.JOBS, list[JobView])) == 1
    daemon.manager.ended.update(key for key in daemon.manager.held)
    for _ in range(2):
        daemon.cycle()
        (view,) = daemon.ask(Verb.JOBS, list[JobView])
        assert view.state == "ended"


def test_jobs_come_in_order_of_submission(daemon: Daemon) -> None:
    for number in (3, 1, 2):
        daemon.clock.sleep(1)
        daemon.ask(Verb.REGISTER, Registered, register(number))
    assert list(jobs(daemon)) == ["3", "1", "2"]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_command_waits_only_for_a_slaqd_that_acts(tmp_path: Path, mode: Mode) -> None:
    daemon = Daemon(tmp_path, mode=mode)
    assert daemon.ask(Verb.REGISTER, Registered, register(5)).wait is (mode is Mode.ENFORCE)
    daemon.journal.close()


def test_while_all_is_paused_a_command_starts_at_once(daemon: Daemon) -> None:
    daemon.ask(Verb.PAUSE, str, JobArgs())
    assert not daemon.ask(Verb.REGISTER, Registered, register(5)).wait


@pytest.mark.parametrize("lever", [Lever.NONE, Lever.QUEUE])
def test_a_command_that_cant_be_held_doesnt_wait(daemon: Daemon, lever: Lever) -> None:
    assert not daemon.ask(Verb.REGISTER, Registered, register(5, tag=Tag(lever=lever))).wait


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (register(500), "not_permitted", "belongs to eve"),
        (register(5, start=8), "not_found", "has ended or never was"),
        (register(5, start=2**63), "bad_request", "at `$.start`"),
        (register(5, start=-1), "bad_request", "at `$.start`"),
        (register(2**31), "bad_request", "at `$.pgid`"),
        (register(0), "not_found", "has ended or never was"),
        (register(-5), "not_found", "has ended or never was"),
        (register(5, tag=Tag(min=4, max=2)), "bad_request", "min is 4 and max is 2"),
        (register(5, tag=Tag(min=0)), "bad_request", "1 <= min <= max"),
        (register(5, tag=Tag(log="{foo}.csv")), "bad_request", "{foo} is not known"),
        (register(5, tag=Tag(log="a.csv"), cwd=""), "bad_request", "working directory is not known"),
        (register(5, cwd="home"), "bad_request", "not absolute"),
        (register(5, cwd="/" + "[" * 4096), "bad_request", "up to 4096 characters"),
        (register(5, cwd="/a\0b"), "bad_request", "no NUL"),
        (register(5, name="n" * 257), "bad_request", "up to 256 characters"),
        (register(5, tag=Tag(log="/" + "%x" * 511), name="[" * 256), "bad_request", "more than 4096"),
        (register(5, tag=Tag(done="x" * 1025)), "bad_request", "tag: done="),
        (register(5, tag=Tag(min=2**63)), "bad_request", "from 1 to 1000000"),
        (register(5, tag=Tag(max=10**30)), "bad_request", "from 1 to 1000000"),
        (register(5, tag=Tag(weight=1e9)), "bad_request", "from 0.1 to 10"),
    ],
)
def test_a_registration_that_cant_be_is_refused_in_words(
    daemon: Daemon, args: wire.RegisterArgs, code: str, said: str
) -> None:
    failure = daemon.ask(Verb.REGISTER, Registered, args)
    assert failure.code == code
    assert said in failure.text
    assert jobs(daemon) == {}


def test_the_largest_that_may_be_said_is_taken(daemon: Daemon) -> None:
    tag = Tag(log="/" + "x" * 1023, min=1_000_000, max=1_000_000, weight=10.0)
    args = register(5, tag=tag, name="n" * 256, cwd="/" + "c" * 4095)
    assert daemon.ask(Verb.REGISTER, Registered, args).job == "5"
    assert "nothing changed" not in daemon.cycle()


def test_what_one_user_has_registered_is_bounded_in_bytes(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_module, "MOST_REGISTERED_BYTES", 10_000)
    long = {"cwd": "/" + "ü" * 2000}
    codes = [
        getattr(daemon.ask(Verb.REGISTER, Any, register(at, **long)), "code", "ok") for at in range(1, 5)
    ]
    assert codes == ["ok", "ok", "ok", "refused"]
    assert "takes" in daemon.ask(Verb.REGISTER, Any, register(4)).text
    daemon.manager.ended.update(item.key for item in daemon.journal.registrations())
    daemon.cycle()
    assert daemon.ask(Verb.REGISTER, Any, register(4)).code == "refused"
    daemon.clock.sleep(3700)
    assert daemon.ask(Verb.REGISTER, Registered, register(4)).job == "4"


@pytest.mark.parametrize(
    "said",
    [
        {"min": 2**63, "max": 2**63}, {"min": 1, "max": 2**63}, {"min": -5}, {"weight": 1e300},
        {"log": "/" + "%x" * 16_000, "name": "[" * 32_000}, {"log": "x" * 60_000}, {"key": "k" * 60_000},
    ],
)  # fmt: skip
def test_what_an_older_slaqd_took_breaks_no_cycle(daemon: Daemon, said: dict[str, Any]) -> None:
    daemon.start(1)
    daemon.start(2, **said)
    for _ in range(2):
        assert "nothing changed" not in daemon.cycle()
    assert daemon.held()["1"] >= 1
    if "log" in said:
        view = jobs(daemon)["2"]
        assert (view.health, "more than 4096 characters" in view.note) == ("unreadable", True)


@pytest.mark.parametrize("args", [{"job": 5}, {"no": 1}, [1], "x", None])
def test_wrong_arguments_are_named(daemon: Daemon, args: Any) -> None:
    reply = daemon.verbs.answer(
        wire.Request(v=1, verb=Verb.SHOW, args=msgspec.Raw(msgspec.json.encode(args))), os.geteuid()
    )
    assert reply.error is not None
    assert reply.error.code == "bad_request"
    assert reply.error.text.startswith("show: ")


@pytest.mark.parametrize("verb", [Verb.SHOW, Verb.PAUSE, Verb.RESUME, Verb.RESTORE])
def test_a_job_that_isnt_there_is_not_found(daemon: Daemon, verb: Verb) -> None:
    failure = daemon.ask(verb, str, JobArgs(job="77"))
    assert failure.code == "not_found"
    assert "'77'" in failure.text


def test_of_an_id_used_twice_the_younger_job_is_shown(daemon: Daemon) -> None:
    first = daemon.start(5, name="first")
    daemon.cycle()
    daemon.manager.ended.add(first)
    daemon.cycle()
    assert daemon.ask(Verb.SHOW, JobView, JobArgs(job="5")).name == "first"
    later = msgspec.structs.replace(first, start=8)
    daemon.journal.register(
        msgspec.structs.replace(
            daemon.journal.ended(0.0)[0].registration, key=later, name="second", submitted=daemon.clock.wall()
        )
    )
    assert daemon.ask(Verb.SHOW, JobView, JobArgs(job="5")).name == "second"


def test_the_plan_gives_each_job_its_units_and_reason(daemon: Daemon) -> None:
    daemon.start(1, name="a")
    daemon.cycle()
    daemon.start(2, name="b")
    daemon.cycle()
    view = daemon.ask(Verb.PLAN, PlanView)
    assert [(row.job, row.name, row.now, row.units) for row in view.rows] == [
        ("1", "a", 8, 5),
        ("2", "b", None, 5),
    ]
    assert all(row.reason for row in view.rows)
    assert (view.policy, view.room) == ("slaq", 10)


def test_before_the_first_cycle_the_plan_is_empty(daemon: Daemon) -> None:
    assert daemon.ask(Verb.PLAN, PlanView).rows == ()


def test_an_exit_status_is_shown_with_the_ended_job(daemon: Daemon) -> None:
    key = daemon.start(1)
    daemon.cycle()
    assert daemon.ask(Verb.ENDED, None, wire.EndedArgs(job="1", start=7, status=137)) is None
    daemon.manager.ended.add(key)
    daemon.cycle()
    view = daemon.ask(Verb.SHOW, JobView, JobArgs(job="1"))
    assert (view.state, view.exit_status) == ("ended", 137)
    assert "with exit status 137" in view.reason


@pytest.mark.parametrize(
    ("start", "status", "named"),
    [(2**63, 0, "start"), (10**30, 0, "start"), (-1, 0, "start"), (7, 2**63, "status"), (7, -15, "status")],
)
def test_an_end_with_a_number_that_cant_be_is_a_bad_request(
    daemon: Daemon, start: int, status: int, named: str
) -> None:
    args = {"job": "1", "start": start, "status": status}
    failure = daemon.ask(Verb.ENDED, Any, args)
    assert (failure.code, f"at `$.{named}`" in failure.text) == ("bad_request", True)


def test_an_ended_job_is_shown_for_an_hour(daemon: Daemon) -> None:
    key = daemon.start(1)
    daemon.cycle()
    daemon.manager.ended.add(key)
    daemon.cycle()
    assert "1" in jobs(daemon)
    daemon.clock.sleep(3700)
    assert "1" not in jobs(daemon)


def test_pause_and_resume_say_what_they_did(daemon: Daemon) -> None:
    daemon.start(1)
    assert "everything is paused" in daemon.ask(Verb.PAUSE, str, JobArgs())
    assert daemon.ask(Verb.STATUS, StatusView).paused
    assert daemon.ask(Verb.RESUME, str, JobArgs()) == "everything goes on"
    assert not daemon.ask(Verb.STATUS, StatusView).paused
    assert "job 1 is paused" in daemon.ask(Verb.PAUSE, str, JobArgs(job="1"))
    daemon.cycle()
    assert jobs(daemon)["1"].paused
    assert daemon.held() == {}
    assert daemon.ask(Verb.RESUME, str, JobArgs(job="1")) == "job 1 goes on"
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_the_brakes_answer_while_a_cycle_hangs(daemon: Daemon) -> None:
    """A pause holds from now on; a restore says to ask again, and has paused the job meanwhile."""
    daemon.start(1)
    daemon.cycle()
    hangs, over = threading.Event(), threading.Event()

    def cycle() -> None:
        with daemon.loop.acting:
            hangs.set()
            over.wait(60)

    thread = threading.Thread(target=cycle)
    thread.start()
    try:
        assert hangs.wait(60)
        assert "everything is paused" in daemon.ask(Verb.PAUSE, str, JobArgs())
        said = daemon.ask(Verb.RESTORE, str, JobArgs(job="1"))
    finally:
        over.set()
        thread.join()
    assert (said.code, "ask again" in said.text) == ("refused", True)
    assert daemon.loop.paused
    daemon.cycle()
    assert jobs(daemon)["1"].paused


def test_a_restored_job_runs_free_until_it_is_resumed(daemon: Daemon) -> None:
    daemon.start(1)
    daemon.start(2)
    daemon.cycle()
    assert "job 1 has back what it had" in daemon.ask(Verb.RESTORE, str, JobArgs(job="1"))
    for _ in range(2):
        daemon.cycle()
        assert daemon.held() == {"2": 8}
    assert jobs(daemon)["1"].paused
    daemon.ask(Verb.RESUME, str, JobArgs(job="1"))
    daemon.cycle()
    daemon.cycle()
    assert daemon.held() == {"1": 5, "2": 5}


def test_all_that_is_restored_runs_free_until_all_is_resumed(daemon: Daemon) -> None:
    daemon.start(1)
    daemon.start(2)
    daemon.cycle()
    assert "what they had: 2" in daemon.ask(Verb.RESTORE, str, JobArgs())
    daemon.cycle()
    assert daemon.held() == {}
    assert daemon.ask(Verb.STATUS, StatusView).paused
    daemon.ask(Verb.RESUME, str, JobArgs())
    daemon.cycle()
    daemon.cycle()
    assert daemon.held() == {"1": 5, "2": 5}


def test_a_waiting_job_that_is_restored_may_start(daemon: Daemon) -> None:
    daemon.start(1, min=10, max=10)
    daemon.cycle()
    daemon.start(2, min=5, waits=True)
    daemon.cycle()
    assert jobs(daemon)["2"].wait
    daemon.ask(Verb.RESTORE, str, JobArgs(job="2"))
    daemon.cycle()
    assert not jobs(daemon)["2"].wait


def test_a_full_disk_is_a_refusal_in_words(daemon: Daemon) -> None:
    daemon.start(1)
    daemon.cycle()
    daemon.journal._db.execute("PRAGMA query_only = ON")
    for verb, args in (
        (Verb.REGISTER, register(5)),
        (Verb.PAUSE, JobArgs()),
        (Verb.RESTORE, JobArgs()),
        (Verb.ENDED, wire.EndedArgs(job="1", start=7, status=0)),
    ):
        failure = daemon.ask(verb, Any, args)
        assert failure.code == "unavailable"
        assert "the journal can't be used" in failure.text
    assert "1" in jobs(daemon)
    assert daemon.held() == {"1": 8}


def told(daemon: Daemon, uid: int = OWNER.uid) -> list[str]:
    return [one.what for one in daemon.ask(Verb.HISTORY, list[wire.EventView], {}, uid)]


def test_an_owner_finds_her_brake_in_her_history_before_any_cycle(shared: Daemon) -> None:
    shared.start(100, owner=OWNER)
    assert "is paused" in shared.ask(Verb.PAUSE, str, JobArgs(job="100"), OWNER.uid)
    assert sorted(told(shared)) == ["paused", "registered"]


def test_a_brake_on_a_reused_id_is_told_to_the_younger_jobs_owner(shared: Daemon) -> None:
    shared.start(100, owner=msgspec.structs.replace(OWNER, uid=OWNER.uid + 1))
    shared.cycle()
    younger = JobKey("fake", "100", 8)
    shared.journal.register(
        msgspec.structs.replace(
            shared.journal.registrations()[0], key=younger, owner=OWNER, submitted=shared.clock.wall() + 1.0
        )
    )
    shared.ask(Verb.PAUSE, str, JobArgs(job="100"))
    assert shared.journal.paused() == {younger}
    assert sorted(told(shared)) == ["paused", "registered"]


def test_a_brake_that_changes_nothing_is_no_event(shared: Daemon) -> None:
    shared.start(100, owner=OWNER)
    for verb in (Verb.RESUME, Verb.PAUSE, Verb.PAUSE, Verb.RESTORE, Verb.RESUME, Verb.RESUME):
        shared.ask(verb, str, JobArgs(job="100"), OWNER.uid)
    assert [what for what in told(shared) if what in {"paused", "resumed"}] == ["paused", "resumed"]


def test_a_job_given_back_already_is_not_given_back_again(daemon: Daemon) -> None:
    one = daemon.start(1)
    daemon.cycle()
    for _ in range(3):
        assert "has back what it had" in daemon.ask(Verb.RESTORE, str, JobArgs(job="1"))
        daemon.cycle()
    assert [row.kind for row in daemon.journal.actions()] == ["Adopt", "Restore"]
    daemon.ask(Verb.RESUME, str, JobArgs(job="1"))
    daemon.cycle()
    assert daemon.held() == {"1": 8}
    daemon.ask(Verb.RESTORE, str, JobArgs(job="1"))
    assert daemon.held() == {}
    assert [row.kind for row in daemon.journal.actions() if row.key == one][-2:] == ["Adopt", "Restore"]


@pytest.mark.parametrize(
    ("verb", "most"), [(Verb.HISTORY, verbs_module.HISTORIES_BURST), (Verb.PAUSE, verbs_module.BRAKES_BURST)]
)
def test_one_user_may_ask_only_so_often_and_nobody_else_is_kept_out(
    shared: Daemon, verb: Verb, most: float
) -> None:
    shared.start(100, owner=OWNER)
    asked = [shared.ask(verb, Any, JobArgs(job="100"), OWNER.uid) for _ in range(int(most) + 1)]
    busy = [one for one in asked if isinstance(one, wire.Failure)]
    assert [one.code for one in busy] == ["busy"]
    assert busy[0] is asked[-1]
    assert not isinstance(shared.ask(verb, Any, JobArgs(job="100")), wire.Failure)
