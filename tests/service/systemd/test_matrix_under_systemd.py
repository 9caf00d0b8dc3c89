"""Another user's job: every verb in the name of every kind of user, with real uids."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from service.systemd.jobs import end, known, rows, start
from service.systemd.lab import Lab, wait_for

from slaqd.wire import VERSION, Verb

PROGRAM = (Path(__file__).parent / "matrix.py").read_text(encoding="utf-8")
STRANGER = 54_321  # no user at all has this uid
ROLES = ("owner", "other", "stranger", "admin", "root")

pytestmark = pytest.mark.service


class Job(NamedTuple):
    """The job that everybody asks for; it is the owner's."""

    id: str
    start: int


class Question(NamedTuple):
    """A verb with arguments, and what becomes of it for each role."""

    verb: Verb
    args: Callable[[Job], Mapping[str, Any]]
    told: Mapping[str, str]


def all_may(yes: str) -> dict[str, str]:
    return dict.fromkeys(ROLES, yes)


def own(yes: str, no: str) -> dict[str, str]:
    return {role: no if role in {"other", "stranger"} else yes for role in ROLES}


ADMINS_ALONE = {role: "done" if role in {"admin", "root"} else "not_permitted" for role in ROLES}
SEES, ACTS = own("sees it", "sees nothing of it"), own("done", "not_permitted")
SHOWS = own("sees it", "not_permitted")


def nothing(_job: Job) -> dict[str, Any]:
    return {}


def named(job: Job) -> dict[str, Any]:
    return {"job": job.id}


def registered(job: Job) -> dict[str, Any]:
    return {"pgid": int(job.id), "start": job.start, "tag": {"max": 2}, "name": "theirs", "cwd": "/"}


def ended(job: Job) -> dict[str, Any]:
    return {"job": job.id, "start": job.start, "status": 3}


QUESTIONS = (
    Question(Verb.STATUS, nothing, all_may("sees nothing of it")),
    Question(Verb.JOBS, nothing, SEES),
    Question(Verb.SHOW, named, SHOWS),
    Question(Verb.PLAN, nothing, SEES),
    Question(Verb.HISTORY, nothing, SEES),
    Question(Verb.HISTORY, named, SEES),
    Question(Verb.DOCTOR, nothing, ADMINS_ALONE),
    Question(Verb.ENDED, ended, ACTS),
    Question(Verb.PAUSE, named, ACTS),
    Question(Verb.RESUME, named, ACTS),
    Question(Verb.RESTORE, named, ACTS),
    Question(Verb.PAUSE, nothing, ADMINS_ALONE),
    Question(Verb.RESUME, nothing, ADMINS_ALONE),
    Question(Verb.RESTORE, nothing, ADMINS_ALONE),
    Question(Verb.DROP, named, ACTS),
    Question(Verb.REGISTER, registered, ACTS),  # last: it makes the job anew that each drop took away
)
LOOKS = frozenset({Verb.STATUS, Verb.JOBS, Verb.SHOW, Verb.PLAN, Verb.HISTORY})


def test_the_questions_name_every_verb() -> None:
    assert {question.verb for question in QUESTIONS} == set(Verb)


def test_every_verb_does_for_every_kind_of_user_what_it_may_and_no_more(holding: Lab) -> None:
    start(holding, "alice")
    wait_for(lambda: known(holding).get("alice"), "a running job", holding.said)
    (shown,) = rows(holding)
    job = Job(shown["job"], shown["start"])
    uids = {role: uid(holding, role) for role in ROLES}
    refused = [(role, each) for each in QUESTIONS for role in ROLES if each.told[role] == "not_permitted"]
    assert told(holding, job, uids, refused) == [each.told[role] for role, each in refused]
    (after,) = rows(holding)
    kept = ("job", "name", "paused", "max", "exit_status", "ended", "state")
    assert {key: after[key] for key in kept} == {key: shown[key] for key in kept}

    register = QUESTIONS[-1]
    done = [(role, each) for each in QUESTIONS for role in ROLES if each.told[role] != "not_permitted"]
    pairs = [pair for role, each in done for pair in (("owner", register), (role, each))]
    replies = told(holding, job, uids, pairs)
    assert set(replies[::2]) == {"done"}
    assert list(zip(pairs[1::2], replies[1::2], strict=True)) == [
        (pair, pair[1].told[pair[0]]) for pair in done
    ]
    end(holding, "alice")


def uid(lab: Lab, role: str) -> int:
    who = {"owner": "alice", "other": "bob", "admin": "carol", "root": "root"}
    return int(lab.do("id", "-u", who[role])) if role in who else STRANGER


def told(lab: Lab, job: Job, uids: Mapping[str, int], asked: Sequence[tuple[str, Question]]) -> list[str]:
    """Ask, and put what came of it into a few words."""
    questions = [
        (uids[role], {"v": VERSION, "verb": each.verb, "args": each.args(job)}) for role, each in asked
    ]
    done = lab.do("/usr/bin/python3", "-c", PROGRAM, "/run/slaqd/slaqd.sock", json.dumps(questions))
    return [in_words(each, reply, job) for (_, each), reply in zip(asked, json.loads(done), strict=True)]


def in_words(question: Question, reply: Mapping[str, Any], job: Job) -> str:
    if "error" in reply:
        return str(reply["error"]["code"])
    if question.verb not in LOOKS:
        return "done"
    return "sees it" if f'"job": "{job.id}"' in json.dumps(reply["ok"]) else "sees nothing of it"
