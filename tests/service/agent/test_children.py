"""When the agent forks, for whom, and in which order a child lays down its rights: the kernel's own list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from agent_world import ALICE, BOB, AgentProcess, Trees, is_ok, rows, source
from living import straced

from slaqd.agent.protocol import Source

pytestmark = pytest.mark.service

MADE = re.compile(r"\b(?:clone3?|v?fork)\b.*= (\d+)$")  # also where it was cut in two by another's line
ORDER = ("setitimer", "setgroups", "setresgid", "setresuid", "openat2")


def asked(trees: Trees) -> list[Source]:
    """Give three logs of Alice's and two of Bob's."""
    hers = [trees.file(trees.alice / name) for name in "abc"]
    his = [trees.file(trees.bob / name, rows(), BOB) for name in "de"]
    return [source(log, root=trees.alice) for log in hers] + [source(log, BOB, root=trees.bob) for log in his]


def grow(trees: Trees, count: int) -> None:
    for folder, names, uid in ((trees.alice, "abc", ALICE), (trees.bob, "de", BOB)):
        for name in names:
            trees.file(folder / name, rows(count), uid)


def calls(path: Path) -> dict[int, list[str]]:
    """Sort the calls that strace saw by process."""
    found: dict[int, list[str]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        pid, _, call = line.partition(" ")
        found.setdefault(int(pid), []).append(call.strip())
    return found


def made(seen: dict[int, list[str]], forker: int) -> list[int]:
    """List the children of the forker, oldest first."""
    return [int(found[1]) for call in seen.get(forker, ()) if (found := MADE.search(call))]


def test_where_nothing_grew_nothing_is_forked(agent: AgentProcess, trees: Trees, tmp_path: Path) -> None:
    sources = asked(trees)
    agent.settled(*sources)
    with straced(agent.forker, tmp_path / "err", "-e", "trace=process", "-o", str(tmp_path / "calls")):
        for _ in range(20):
            agent.look(*sources)
    assert made(calls(tmp_path / "calls"), agent.forker) == []


def test_a_look_forks_once_for_each_user_with_grown_logs_however_many(
    agent: AgentProcess, trees: Trees, tmp_path: Path
) -> None:
    sources = asked(trees)
    agent.settled(*sources)
    forker = agent.forker
    with straced(forker, tmp_path / "err", "-e", "trace=process", "-o", str(tmp_path / "calls")):
        for count in (5, 6, 7):
            grow(trees, count)
            seen = agent.look(*sources)
            assert all(is_ok(seen[each.job], count) for each in sources)
    assert len(made(calls(tmp_path / "calls"), forker)) == 2 * 3


def test_a_child_arms_its_alarm_before_it_lays_down_its_rights_and_opens_no_users_file_before(
    agent: AgentProcess, trees: Trees, tmp_path: Path
) -> None:
    sources = asked(trees)
    agent.settled(*sources)
    grow(trees, 5)
    trace = "trace=process,setitimer,setgroups,setresgid,setresuid,openat2,open,openat"
    with straced(agent.forker, tmp_path / "err", "-e", trace, "-o", str(tmp_path / "calls")):
        forker = agent.forker
        agent.look(*sources)
    seen = calls(tmp_path / "calls")
    children = made(seen, forker)
    assert len(children) == 2
    for child in children:
        names = [call.partition("(")[0] for call in seen[child]]
        first = [names.index(name) for name in ORDER]
        assert first == sorted(first), names
        before = seen[child][: names.index("setresuid")]
        assert not [call for call in before if str(trees.top) in call or ".py" in call], before
