"""slaqd and its agent for several users of a real machine, as installed."""

from __future__ import annotations

import json

import pytest
from service.systemd.conftest import AGENTS_DROP_INS, CONFIG
from service.systemd.jobs import TRAINS, UNITS, alive, end, held, known, quota, rows, start
from service.systemd.lab import Lab, wait_for

AGENT, SOCKET = "slaqd-agent", "slaqd-agent.socket"
USERS = ("alice", "bob")
FOLLOWS = """
import itertools, json, time
from slaqd.job import Follower
follower = Follower("ctl")
with open("train.jsonl", "w") as log:
    for step in itertools.count(1):
        if target := follower.poll():
            follower.done(target.units, step=step)
        print(json.dumps({"step": step, "loss": 1 / step}), file=log, flush=True)
        time.sleep(0.05)
"""

pytestmark = pytest.mark.service


def row(lab: Lab, name: str) -> dict[str, object]:
    """Give a job's row; an empty one while it isn't shown."""
    return next((each for each in rows(lab) if each["name"] == name), {})


def points(lab: Lab, name: str) -> int:
    return int(str(row(lab, name).get("points", 0)))


def put(lab: Lab, user: str, uid: str, path: str) -> str:
    """Have a program of a user's ask the agent to write a file; give what went wrong."""
    agent = "from slaqd.agent.client import Agent\nagent = Agent('/run/slaqd-agent.sock')\n"
    asks = f"{agent}agent.put({uid}, '/', {path!r}, b'x')"
    done = lab.try_("runuser", "-u", user, "--", "/opt/slaqd/bin/python", "-P", "-c", asks)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


# several users


def test_two_users_see_their_own_jobs_whose_closed_logs_are_read_and_whose_quotas_hold(holding: Lab) -> None:
    for user in USERS:
        start(holding, user)
    both = wait_for(lambda: (set(known(holding)) >= set(USERS)) and known(holding), "both", holding.said)
    for user in USERS:
        wait_for(lambda user=user: points(holding, user) >= 3, "a curve of three points", holding.said)
        (shown,) = rows(holding, user)
        assert (shown["user"], shown["job"], shown["health"]) == (user, both[user], "ok")
        assert holding.do("stat", "--format=%a %U", f"/home/{user}/train.jsonl").split() == ["600", user]
        assert both[user] in held(holding, both[user])
        assert quota(holding, both[user]) in {units * 5_000 for units in range(1, UNITS + 1)}
    assert {each["name"] for each in rows(holding, "carol")} == set(USERS)
    assert rows(holding, "dave") == []
    for user in USERS:
        end(holding, user)


def test_a_log_in_tmp_is_read(holding: Lab) -> None:
    program = TRAINS.replace('"train.jsonl"', '"/tmp/hers.jsonl"')
    start(holding, "alice", program=program, log="/tmp/hers.jsonl")  # noqa: S108 - as it says
    wait_for(lambda: row(holding, "alice").get("health") == "ok", "its curve", holding.said)
    end(holding, "alice")


def test_a_job_that_follows_a_file_finds_its_target_in_its_closed_home(holding: Lab) -> None:
    tag = "SLAQ_TAG=lever=file dir=ctl"
    start(holding, "alice", tag, program=FOLLOWS, python="/opt/slaqd/bin/python")
    wait_for(lambda: row(holding, "alice").get("units") == UNITS, "the job at its target", holding.said)
    target = json.loads(holding.do("cat", "/home/alice/ctl/target.json"))
    assert (target["units"], target["job"]) == (UNITS, row(holding, "alice")["job"])
    assert holding.do("stat", "--format=%a %U %G", "/home/alice/ctl/target.json").split() == [
        "600",
        "alice",
        "alice",
    ]
    end(holding, "alice")


def test_a_slaqd_taken_over_writes_for_users_alone_and_only_where_it_is_theirs(service: Lab) -> None:
    alice, bob = (service.do("id", "-u", user).strip() for user in USERS)
    assert put(service, "slaqd", alice, "/home/alice/target.json") == ""
    assert service.do("stat", "--format=%a %U", "/home/alice/target.json").split() == ["600", "alice"]
    assert "not a file of the lever" in put(service, "slaqd", alice, "/home/alice/.bashrc")
    assert "permission denied" in put(service, "slaqd", alice, "/home/bob/target.json")
    assert "belongs to uid 0" in put(service, "slaqd", bob, "/tmp/target.json")  # noqa: S108 - refused
    assert "least_uid" in put(service, "slaqd", "0", "/target.json")
    assert "is it running?" in put(service, "alice", alice, "/home/alice/target.json")
    service.do("rm", "/home/alice/target.json")


# without the agent


def test_an_agent_that_is_killed_costs_no_job_anything(holding: Lab, job: str) -> None:
    slaqd, before = holding.pid(), quota(holding, job)
    agent = wait_for(lambda: holding.runs(AGENT), "the agent", holding.said)
    holding.do("kill", "-KILL", str(agent))
    wait_for(lambda: "slaqd-agent does not answer" in holding.said(), "a cycle that says so", holding.said)
    wait_for(lambda: holding.runs(AGENT) not in (None, 0, agent), "another agent", holding.said)
    known_then = points(holding, "alice")
    wait_for(lambda: points(holding, "alice") > known_then, "the curve to go on", holding.said)
    assert (alive(holding, job), quota(holding, job), holding.pid()) == (True, before, slaqd)
    assert holding.show("NRestarts") == "0"


def test_while_the_agent_is_stopped_nothing_changes_and_each_cycle_says_why(holding: Lab, job: str) -> None:
    before = quota(holding, job)
    holding.do("systemctl", "stop", "slaqd-agent.socket")
    assert holding.show("ActiveState", AGENT) == "inactive"
    wait_for(lambda: "does not answer" in holding.show("StatusText"), "the reason", holding.said)
    assert (alive(holding, job), quota(holding, job)) == (True, before)
    holding.do("systemctl", "start", "slaqd-agent.socket")
    wait_for(lambda: "1 jobs running" in holding.show("StatusText"), "a cycle as before", holding.said)
    assert (alive(holding, job), quota(holding, job)) == (True, before)


def test_an_agent_that_hangs_costs_slaqd_no_more_than_its_cycles(holding: Lab, job: str) -> None:
    before, slaqd = quota(holding, job), holding.pid()
    agent = wait_for(lambda: holding.runs(AGENT), "the agent", holding.said)
    holding.do("kill", "-STOP", str(agent))
    wait_for(lambda: "does not answer" in holding.show("StatusText"), "the reason", holding.said)
    holding.do("kill", "-CONT", str(agent))
    wait_for(lambda: "1 jobs running" in holding.show("StatusText"), "a cycle as before", holding.said)
    assert (holding.pid(), holding.show("NRestarts"), quota(holding, job)) == (slaqd, "0", before)


def test_an_agent_that_goes_on_hanging_is_ended_by_its_watchdog(holding: Lab, job: str) -> None:
    before, slaqd = quota(holding, job), holding.pid()
    holding.write(f"{AGENTS_DROP_INS}/20-watch.conf", "[Service]\nWatchdogSec=6s\n")
    holding.do("systemctl", "daemon-reload")
    holding.do("systemctl", "restart", AGENT)
    agent = wait_for(lambda: holding.runs(AGENT), "the agent", holding.said)
    holding.do("kill", "-STOP", str(agent))
    over = (None, 0, agent)
    wait_for(lambda: holding.runs(AGENT) not in over, "another agent", lambda: holding.said(AGENT))
    wait_for(lambda: "1 jobs running" in holding.show("StatusText"), "a cycle as before", holding.said)
    assert (holding.pid(), quota(holding, job)) == (slaqd, before)


def test_an_upgrade_by_the_documented_steps_ends_no_job_and_keeps_the_configuration(
    holding: Lab, job: str
) -> None:
    before, config, slaqd = quota(holding, job), holding.do("cat", CONFIG), holding.pid()
    holding.follow("Upgrade")
    assert wait_for(holding.runs, "another slaqd", holding.said) != slaqd
    wait_for(lambda: quota(holding, job) == before, "the same quota", holding.said)
    assert (alive(holding, job), holding.do("cat", CONFIG)) == (True, config)


def test_an_agent_whose_configuration_is_wrong_is_not_started_for_ever(service: Lab) -> None:
    service.write(CONFIG, "[slaqd]\nepoch_s = 0.5\n[agent]\nuser = 'nosuch'\n")
    assert service.try_("systemctl", "restart", AGENT).returncode != 0
    wait_for(lambda: service.show("ActiveState", SOCKET) == "failed", "an end", lambda: service.said(AGENT))
    assert service.show("Result", SOCKET) == "trigger-limit-hit"
    assert service.show("ExecMainStatus", AGENT) == "78"
    assert f"{CONFIG}:4: agent.user: no user is called 'nosuch'" in service.said(AGENT)
    wait_for(lambda: "does not answer" in service.said(), "a cycle that says so", service.said)
    service.write(CONFIG, "[slaqd]\nepoch_s = 0.5\n")

    def mended() -> int | None:  # again until systemd has forgotten the tries
        service.try_("systemctl", "reset-failed", SOCKET)
        service.try_("systemctl", "restart", SOCKET, "slaqd")
        return service.runs(AGENT)

    wait_for(mended, "the agent", lambda: service.said(AGENT))


# what it says


def test_what_users_write_reaches_the_journal_without_what_steers_a_terminal(holding: Lab) -> None:
    evil = "\x1b[31mred\n\u202eevent=forged"
    program = f"{TRAINS}        print({evil!r}, file=log)\n"
    start(holding, "alice", name=evil, program=program)
    wait_for(lambda: row(holding, evil).get("points"), "a curve", holding.said)
    wait_for(lambda: "1 jobs running" in holding.show("StatusText"), "a cycle with it", holding.said)
    lines = holding.do(
        "journalctl", "--output=json", "--no-pager", "--unit=slaqd", f"--unit={AGENT}"
    ).splitlines()
    said = [json.loads(line)["MESSAGE"] for line in lines]
    assert said
    # What could steer a terminal comes out of the journal as numbers.
    assert [text for text in said if not (isinstance(text, str) and text.isprintable())] == []
    assert not any(text.startswith("event=forged") for text in said)
    end(holding, "alice")
