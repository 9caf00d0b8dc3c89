"""Whose requests are answered: every verb, asked by owner, stranger, slaqd's own user and root."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from put_together import MYSELF, Daemon

from slaqd import wire
from slaqd.config import EnforceSection
from slaqd.daemon import rights as rights_module
from slaqd.daemon import verbs as verbs_module
from slaqd.daemon.rights import Rights
from slaqd.errors import AdapterUnavailable
from slaqd.testing import ManualClock
from slaqd.types import JobKey, Owner, Tag
from slaqd.wire import EndedArgs, JobArgs, JobView, PlanView, RegisterArgs, StatusView, Verb

EVE = Owner(uid=MYSELF.uid + 1, name="eve")
BOB = Owner(uid=MYSELF.uid + 2, name="bob")
HERS = "100"  # 100 on are eve's, by the manager's word
ON_ONE = (Verb.SHOW, Verb.PAUSE, Verb.RESUME, Verb.RESTORE, Verb.DROP)
ON_ALL = (Verb.PAUSE, Verb.RESUME, Verb.RESTORE, Verb.DOCTOR)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, everybody=True)
    made.start(1)
    made.start(100, owner=EVE)
    made.cycle()
    yield made
    made.journal.close()


def code(answer: Any) -> str:
    return answer.code if isinstance(answer, wire.Failure) else "ok"


@pytest.mark.parametrize("uid", [0, MYSELF.uid, EVE.uid])
@pytest.mark.parametrize("verb", ON_ONE)
def test_a_job_is_its_owners_and_the_admins(daemon: Daemon, verb: Verb, uid: int) -> None:
    assert code(daemon.ask(verb, Any, JobArgs(job=HERS), uid)) == "ok"


@pytest.mark.parametrize("verb", ON_ONE)
@pytest.mark.parametrize(("uid", "job"), [(BOB.uid, HERS), (BOB.uid, "1"), (EVE.uid, "1")])
def test_anothers_job_is_neither_shown_nor_touched(daemon: Daemon, verb: Verb, uid: int, job: str) -> None:
    before = len(daemon.manager.acts)
    answer = daemon.ask(verb, Any, JobArgs(job=job), uid)
    assert answer.code == "not_permitted"
    assert f"you are uid {uid}" in answer.text
    assert len(daemon.manager.acts) == before
    assert daemon.journal.paused() == frozenset()


@pytest.mark.parametrize("verb", ON_ALL)
@pytest.mark.parametrize("uid", [EVE.uid, BOB.uid])
def test_brakes_on_everything_are_the_admins(daemon: Daemon, verb: Verb, uid: int) -> None:
    assert daemon.ask(verb, Any, {}, uid).code == "not_permitted"
    assert not daemon.loop.paused
    assert daemon.manager.restored == set()


@pytest.mark.parametrize("uid", [0, MYSELF.uid])
@pytest.mark.parametrize("verb", ON_ALL)
def test_admins_may_pull_every_brake(daemon: Daemon, verb: Verb, uid: int) -> None:
    assert code(daemon.ask(verb, Any, {}, uid)) == "ok"


@pytest.mark.parametrize(
    ("uid", "seen"), [(0, {"1", HERS}), (MYSELF.uid, {"1", HERS}), (EVE.uid, {HERS}), (BOB.uid, set())]
)
def test_lists_show_only_what_a_user_may_see(daemon: Daemon, uid: int, seen: set[str]) -> None:
    daemon.journal.register(msgspec.structs.replace(daemon.journal.registrations()[0], submitted=1.0))
    assert {view.job for view in daemon.ask(Verb.JOBS, list[JobView], {}, uid)} == seen
    assert {row.job for row in daemon.ask(Verb.PLAN, PlanView, {}, uid).rows} == seen
    daemon.manager.ended.update(item.key for item in daemon.journal.registrations())
    daemon.cycle()
    assert {view.job for view in daemon.ask(Verb.JOBS, list[JobView], {}, uid)} == seen
    assert isinstance(daemon.ask(Verb.STATUS, StatusView, {}, uid), StatusView)


@pytest.mark.parametrize(
    ("uid", "pgid", "said"),
    [
        (EVE.uid, 101, "ok"),
        (0, 101, "ok"),
        (0, 2, "ok"),
        (BOB.uid, 101, "not_permitted"),
        (EVE.uid, 2, "not_permitted"),
    ],
)
def test_a_job_is_registered_by_its_owner_as_the_manager_says(
    daemon: Daemon, uid: int, pgid: int, said: str
) -> None:
    args = RegisterArgs(pgid=pgid, start=7, tag=Tag(), name="x", cwd="/")
    assert code(daemon.ask(Verb.REGISTER, Any, args, uid)) == said
    assert (len(daemon.journal.registrations()) == 3) is (said == "ok")


@pytest.mark.parametrize(("uid", "said"), [(EVE.uid, "ok"), (0, "ok"), (BOB.uid, "not_permitted")])
def test_an_exit_status_is_told_by_the_owner(daemon: Daemon, uid: int, said: str) -> None:
    answer = daemon.ask(Verb.ENDED, Any, EndedArgs(job=HERS, start=7, status=9), uid)
    assert ("ok" if answer is None else answer.code) == said
    daemon.manager.ended.update(item.key for item in daemon.journal.registrations())
    daemon.cycle()
    rows = {row.registration.key.id: row.exit_status for row in daemon.journal.ended(0.0)}
    assert rows[HERS] == (9 if said == "ok" else None)


@pytest.mark.parametrize("slept", [0.0, 3700.0])
def test_an_exit_status_of_a_job_that_ended_long_ago_is_still_its_owners(
    daemon: Daemon, slept: float
) -> None:
    daemon.manager.ended.update(item.key for item in daemon.journal.registrations())
    daemon.cycle()
    daemon.clock.sleep(slept)
    told = [
        (BOB.uid, HERS, 7, "not_permitted"), (EVE.uid, "1", 7, "not_permitted"),
        (EVE.uid, HERS, 8, "not_found"), (BOB.uid, "55", 7, "not_found"), (EVE.uid, HERS, 7, "ok"),
    ]  # fmt: skip
    for status, (uid, job, start, said) in enumerate(told, start=3):
        answer = daemon.ask(Verb.ENDED, Any, EndedArgs(job=job, start=start, status=status), uid)
        assert ("ok" if answer is None else answer.code) == said
    rows = {row.registration.key.id: row.exit_status for row in daemon.journal.ended(0.0)}
    assert rows == {"1": None, HERS: 7}


@pytest.mark.parametrize("low", [11, 1_000_000])
def test_anothers_minimum_above_the_machine_leaves_ones_job_an_even_share(tmp_path: Path, low: int) -> None:
    made = Daemon(tmp_path, everybody=True, enforce=EnforceSection(users=("me", "eve")))
    made.start(1, max=10)
    made.start(100, owner=EVE, max=10)
    for number in range(101, 104):
        args = RegisterArgs(pgid=number, start=7, tag=Tag(min=low, weight=10.0), name="x", cwd="/")
        assert code(made.ask(Verb.REGISTER, Any, args, EVE.uid)) == "ok"
    for _ in range(3):
        made.cycle()
    assert made.held() == {"1": 5, HERS: 5}
    shown = made.ask(Verb.SHOW, JobView, JobArgs(job="101"), EVE.uid)
    assert f"its minimum is {low} units, there are 10 in all" in shown.reason
    made.journal.close()


def test_the_owner_of_an_act_is_asked_of_the_manager_not_of_the_registration(daemon: Daemon) -> None:
    """A reused id: what was registered as hers is another's now."""
    daemon.start(3, owner=EVE)  # the manager says that 3 is ours
    daemon.cycle()
    assert daemon.ask(Verb.PAUSE, str, JobArgs(job="3"), EVE.uid).code == "not_permitted"


def test_a_user_may_ask_the_manager_only_so_often(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[JobKey] = []
    owner = daemon.adapter.owner

    def counts(key: JobKey) -> Owner:
        asked.append(key)
        return owner(key)

    monkeypatch.setattr(daemon.adapter, "owner", counts)
    most = int(rights_module.ASKS_BURST)
    answers = [code(daemon.ask(Verb.PAUSE, str, JobArgs(job="1"), BOB.uid)) for _ in range(most + 5)]
    assert answers == ["not_permitted"] * most + ["busy"] * 5
    assert len(asked) == most
    assert code(daemon.ask(Verb.PAUSE, str, JobArgs(job=HERS), EVE.uid)) == "ok"
    daemon.clock.sleep(1.0)
    assert code(daemon.ask(Verb.PAUSE, str, JobArgs(job="1"), BOB.uid)) == "not_permitted"


def test_the_admins_brakes_work_while_the_manager_is_away(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_key: JobKey) -> Owner:
        raise AdapterUnavailable("no answer")

    monkeypatch.setattr(daemon.adapter, "owner", away)
    assert daemon.ask(Verb.PAUSE, str, JobArgs(job=HERS), EVE.uid).code == "unavailable"
    assert code(daemon.ask(Verb.PAUSE, str, JobArgs(job=HERS), 0)) == "ok"


def test_a_user_may_have_only_so_many_jobs_registered(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verbs_module.MOST_REGISTERED == 10_000
    monkeypatch.setattr(verbs_module, "MOST_REGISTERED", 3)

    def register(pgid: int, uid: int) -> str:
        args = RegisterArgs(pgid=pgid, start=7, tag=Tag(), name="x", cwd="/")
        return code(daemon.ask(Verb.REGISTER, Any, args, uid))

    assert [register(pgid, EVE.uid) for pgid in (101, 102, 103, 104)] == ["ok", "ok", "refused", "refused"]
    assert register(102, EVE.uid) == "ok"  # one of hers once more is none more
    assert register(5, 0) == "ok"
    daemon.manager.ended.add(JobKey("fake", "101", 7))
    daemon.cycle()
    assert register(103, EVE.uid) == "ok"


@pytest.mark.parametrize("verb", list(Verb))
def test_where_one_user_is_served_a_stranger_gets_nothing(tmp_path: Path, verb: Verb) -> None:
    daemon = Daemon(tmp_path)
    assert daemon.ask(verb, Any, {}, os.geteuid() + 1).code == "not_permitted"
    daemon.journal.close()


def test_members_of_the_admin_group_may_do_what_root_may(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights_module, "is_member", lambda uid, group: (uid, group) == (BOB.uid, "hpc"))
    assert daemon.ask(Verb.PAUSE, str, {}, BOB.uid).code == "not_permitted"
    section = msgspec.structs.replace(daemon.loop.config.slaqd, admin_group="hpc")
    daemon.loop.reload(lambda: msgspec.structs.replace(daemon.loop.config, slaqd=section))
    daemon.loop.renew()
    assert code(daemon.ask(Verb.PAUSE, str, {}, BOB.uid)) == "ok"
    assert code(daemon.ask(Verb.SHOW, Any, JobArgs(job=HERS), BOB.uid)) == "ok"
    refused = daemon.ask(Verb.PAUSE, str, {}, EVE.uid)
    assert (refused.code, "the group hpc" in refused.text) == ("not_permitted", True)


def test_who_is_in_a_group_is_asked_of_the_name_service_now_and_then(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    clock = ManualClock()

    def counts(uid: int, _group: str) -> bool:
        asked.append(uid)
        return len(asked) == 1

    monkeypatch.setattr(rights_module, "is_member", counts)
    rights = Rights(daemon.adapter, clock, everybody=True, admins=lambda: "hpc")
    assert [rights.admin(BOB.uid) for _ in range(3)] == [True] * 3
    clock.advance(rights_module.MEMBER_S)  # taken out of the group meanwhile
    assert not rights.admin(BOB.uid)
    assert asked == [BOB.uid] * 2


def test_membership_is_what_the_system_says() -> None:
    games = pwd.getpwnam("games")
    group = grp.getgrgid(games.pw_gid).gr_name
    assert rights_module.is_member(games.pw_uid, group)
    assert not rights_module.is_member(games.pw_uid, "shadow")
    assert not rights_module.is_member(games.pw_uid, "no-such-group")
    assert not rights_module.is_member(4_000_000_000, group)
