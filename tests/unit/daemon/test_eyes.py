"""The logs of all jobs, read as oneself or by the agent: what a cycle makes of either."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from put_together import Daemon

from slaqd.agent.protocol import Source
from slaqd.client import GONE_S
from slaqd.daemon.eyes import OwnEyes
from slaqd.daemon.loop import Loop
from slaqd.errors import AgentUnavailable
from slaqd.types import Curve, Health, Tag


def source(path: Path, job: str = "1", **said: str) -> Source:
    return Source(job=job, uid=0, root=str(path.parent), path=str(path), tag=Tag(**said))


def write(path: Path, *losses: float) -> None:
    with path.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps({"loss": loss, "other_loss": 2 * loss}) + "\n" for loss in losses)


class Agent:
    """An agent that can be away."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[Sequence[Source]] = []

    def look(self, sources: Sequence[Source], now: float) -> Mapping[str, Curve]:
        del now
        self.asked.append(sources)
        if self.away:
            raise AgentUnavailable("/run/a.sock: slaqd-agent does not answer")
        return {each.job: Curve(health=Health.EMPTY, path=each.path) for each in sources}


def test_a_curve_that_does_not_change_is_the_same_object(tmp_path: Path) -> None:
    eyes, path = OwnEyes(), tmp_path / "a.jsonl"
    write(path, 3.0, 2.0)
    first = eyes.look([source(path, key="loss")], 1.0)["1"]
    assert eyes.look([source(path, key="loss")], 2.0)["1"] is first
    write(path, 1.0)
    assert list(eyes.look([source(path, key="loss")], 3.0)["1"].losses) == [3.0, 2.0, 1.0]


def test_other_words_for_a_job_begin_its_curve_anew(tmp_path: Path) -> None:
    eyes, path = OwnEyes(), tmp_path / "a.jsonl"
    write(path, 3.0, 2.0)
    eyes.look([source(path, key="loss")], 1.0)
    assert list(eyes.look([source(path, key="other_loss")], 2.0)["1"].losses) == [6.0, 4.0]


def test_logs_of_jobs_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    eyes, path = OwnEyes(), tmp_path / "a.jsonl"
    write(path, 3.0)
    eyes.look([source(path)], 1.0)
    assert eyes.look([], 2.0) == {}
    assert eyes._logs == {}


def test_the_agent_is_told_whose_log_it_is_and_where_the_jobs_tree_begins(tmp_path: Path) -> None:
    daemon, agent = Daemon(tmp_path), Agent()
    loop = Loop(daemon.parts, None, agent)
    daemon.start(1, log="m.csv")
    loop.once()
    (asked,) = agent.asked[0]
    assert (asked.uid, asked.root, asked.path) == (daemon.journal.registrations()[0].owner.uid, "/", "/m.csv")
    daemon.journal.close()


def test_while_the_agent_is_away_nothing_is_changed_and_the_sentence_says_why(tmp_path: Path) -> None:
    daemon, agent = Daemon(tmp_path), Agent()
    loop = Loop(daemon.parts, None, agent)
    daemon.start(1, log="m.csv")
    loop.once()
    loop.once()
    acts = len(daemon.manager.acts)
    assert acts
    agent.away = True
    daemon.start(2, log="n.csv")
    assert loop.once().endswith("; nothing changed: /run/a.sock: slaqd-agent does not answer")
    assert len(daemon.manager.acts) == acts
    agent.away = False
    loop.once()
    assert len(daemon.manager.acts) > acts
    daemon.journal.close()


def test_while_the_agent_is_away_jobs_that_ended_are_closed_and_the_others_shown(tmp_path: Path) -> None:
    daemon, agent = Daemon(tmp_path), Agent()
    loop = Loop(daemon.parts, None, agent)
    first, second = daemon.start(1, log="m.csv"), daemon.start(2, log="n.csv")
    loop.once()
    agent.away = True
    daemon.manager.ended.add(first)
    daemon.start(3, log="o.csv")
    loop.once()
    assert [item.key for item in daemon.journal.registrations()][:1] == [second]
    assert {view.name for view in loop.view.jobs.values()} == {"job"}
    assert len(loop.view.jobs) == 2
    daemon.journal.close()


def test_a_command_waits_for_an_agent_that_is_away_as_long_as_for_slaqd_and_no_longer(tmp_path: Path) -> None:
    daemon, agent = Daemon(tmp_path), Agent()
    loop, agent.away = Loop(daemon.parts, None, agent), True
    key = daemon.start(1, waits=True, log="m.csv")
    loop.once()
    assert loop.view.jobs[key].wait
    daemon.clock.sleep(GONE_S)
    loop.once()
    assert not loop.view.jobs[key].wait
    assert [item.waits for item in daemon.journal.registrations()] == [False]
    agent.away = False
    other = daemon.start(2, waits=True, log="n.csv")
    loop.once()
    assert other in daemon.manager.held
    daemon.journal.close()


def test_a_brake_frees_those_who_wait_though_the_agent_is_away(tmp_path: Path) -> None:
    daemon, agent = Daemon(tmp_path), Agent()
    loop, agent.away = Loop(daemon.parts, None, agent), True
    key = daemon.start(1, waits=True, log="m.csv")
    daemon.journal.pause_all(paused=True)
    loop.once()
    assert not loop.view.jobs[key].wait
    daemon.journal.close()
