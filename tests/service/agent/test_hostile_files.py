"""The corpus of hostile files: each is read or refused as its row says, and nobody else's bytes come back."""

from __future__ import annotations

import pytest
from agent_world import ALICE, BOB, DAVE, AgentProcess, Trees, is_ok, leaks, own, rows, source
from hostile import CASES, Case, sources
from living import wait_for

from slaqd.observe.log import PATIENCE
from slaqd.types import Curve, Health

pytestmark = pytest.mark.service

STEERS = ("\x1b", "\r", "\n", "\u202e")


@pytest.fixture
def agent(fresh: AgentProcess) -> AgentProcess:
    return fresh


@pytest.fixture(scope="module")
def readings(shared: AgentProcess) -> dict[str, Curve]:
    """Look at all of them together, until nothing more is read of any."""
    asked = list(sources(shared.trees()).values())
    seen = shared.settled(*asked)

    def look() -> bool:
        seen.update(shared.settled(*asked))
        return not any("read so far" in curve.note for curve in seen.values())

    wait_for(
        look, lambda: str({job: curve.note for job, curve in seen.items() if "read so far" in curve.note})
    )
    return seen


def test_the_corpus_has_sixty_cases_and_no_name_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_file_comes_to_what_its_row_says(case: Case, readings: dict[str, Curve]) -> None:
    curve = readings[case.name]
    assert (curve.health, curve.count) == (case.health, case.points), curve
    assert case.words in curve.note


def test_nothing_of_somebody_elses_comes_back(shared: AgentProcess, readings: dict[str, Curve]) -> None:
    assert len(readings) == len(CASES)
    assert leaks(shared, readings) == []


def test_nothing_that_steers_a_terminal_comes_back(readings: dict[str, Curve]) -> None:
    shown = "".join(curve.note + curve.path for curve in readings.values())
    assert [sign for sign in STEERS if sign in shown] == []


def test_a_file_that_was_refused_is_read_once_its_owner_has_mended_it(
    agent: AgentProcess, trees: Trees
) -> None:
    log, other = trees.file(trees.alice / "log", mode=0), trees.alice / "other"
    asked = source(log, root=trees.alice)
    assert "permission denied" in agent.settled(asked)[asked.job].note
    other.hardlink_to(own(log, ALICE, 0o644))
    assert "several names" in agent.settled(asked)[asked.job].note
    other.unlink()
    assert is_ok(agent.settled(asked)[asked.job])


def test_a_log_that_is_cut_short_or_replaced_between_two_looks_begins_anew(
    agent: AgentProcess, trees: Trees
) -> None:
    log = trees.file(trees.alice / "log", rows(9))
    asked = source(log, root=trees.alice)
    assert is_ok(agent.settled(asked)[asked.job], 9)
    trees.file(log, rows(2))
    assert is_ok(agent.settled(asked)[asked.job], 2)
    trees.file(trees.alice / "new", rows(6)).rename(log)
    assert is_ok(agent.settled(asked)[asked.job], 6)
    trees.file(trees.alice / "new", uid=BOB).rename(log)
    seen = [agent.settled(asked)[asked.job] for _ in range(PATIENCE)]
    assert [curve.count for curve in seen] == [6] * PATIENCE
    assert seen[-1].health is Health.UNREADABLE
    assert "belongs to uid" in seen[-1].note
    assert leaks(agent, {asked.job: seen[-1]}) == []


def test_the_owner_of_a_source_counts_not_who_may_read_it(agent: AgentProcess, trees: Trees) -> None:
    """Bob's job names Alice's log, and Alice's job the same one."""
    log = trees.file(trees.alice / "log")
    seen = agent.settled(source(log, job="hers"), source(log, BOB, job="his"))
    assert is_ok(seen["hers"])
    assert "belongs to uid" in seen["his"].note


@pytest.mark.parametrize("uid", [-1, 0, 1, ALICE - 1])
def test_nothing_is_read_as_root_or_as_the_systems_own(agent: AgentProcess, trees: Trees, uid: int) -> None:
    asked = source(trees.file(trees.alice / "log"), uid)
    assert "acts for users from uid" in agent.settled(asked)[asked.job].note


@pytest.mark.parametrize("uid", [20_077, 2**31, 2**32 - 1, 2**32 + ALICE, 2**62])
def test_a_uid_that_nobody_has_is_refused(agent: AgentProcess, trees: Trees, uid: int) -> None:
    asked = source(trees.file(trees.alice / "log"), uid)
    assert "no user has the uid" in agent.settled(asked)[asked.job].note


def test_a_name_that_is_no_utf_8_costs_no_other_source_its_reading(agent: AgentProcess, trees: Trees) -> None:
    good, odd = source(trees.file(trees.alice / "log")), source("/\udcff", DAVE)
    seen = agent.settled(odd, good)
    assert is_ok(seen[good.job])
    assert "not UTF-8" in seen[odd.job].note
