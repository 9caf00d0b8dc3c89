"""Children are made, bounded in number and in life, and ended whatever their user does with them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from agent_world import ALICE, BOB, GIDS, children, kill_as, uid_of
from living import wait_for

from slaqd.agent import child, forker
from slaqd.agent.become import UnknownUserError, User, find
from slaqd.agent.forker import Forker
from slaqd.agent.protocol import Failed, Gave, Get, Item
from slaqd.agent.turn import Child
from slaqd.errors import AgentUnavailable

HER, HIM = User(ALICE, GIDS[ALICE], (GIDS[ALICE],)), User(BOB, GIDS[BOB], (GIDS[BOB],))


@pytest.fixture
def made() -> Iterator[Forker]:
    forker = Forker()
    yield forker
    for pid in children(forker.pid):
        os.kill(pid, signal.SIGKILL)
    forker.close()


def test_one_user_has_four_children_at_most_and_another_as_many(made: Forker) -> None:
    ends = [made.fork(HER, 60)[1] for _ in range(forker._MOST_OF_ONE)]
    with pytest.raises(BlockingIOError):
        made.fork(HER, 60)
    ends.append(made.fork(HIM, 60)[1])
    ends[0].close()
    wait_for(lambda: len(children(made.pid)) == forker._MOST_OF_ONE, lambda: str(children(made.pid)))
    time.sleep(0.01)
    ends.append(made.fork(HER, 60)[1])
    for end in ends:
        end.close()
    wait_for(lambda: not children(made.pid), lambda: str(children(made.pid)))


@pytest.mark.parametrize("number", [0, signal.SIGSTOP])
def test_a_child_lives_no_longer_than_it_may_also_where_its_user_stopped_it(
    made: Forker, number: signal.Signals
) -> None:
    pid, end = made.fork(HER, 0.3)
    wait_for(lambda: uid_of(pid) in {ALICE, -1}, lambda: "it is hers, or has ended")
    if number:
        kill_as(ALICE, pid, number)
    with end:
        wait_for(lambda: not children(made.pid), lambda: str(children(made.pid)))


def test_a_child_is_killed_before_its_time_and_another_made(made: Forker) -> None:
    for _ in range(2 * forker._MOST_OF_ONE):
        pid, end = made.fork(HER, 60)
        wait_for(lambda pid=pid: uid_of(pid) == ALICE, lambda: "it is hers")
        made.kill(pid)
        with end:
            assert end.recv(1) == b""
    made.kill(os.getpid())
    made.kill(1)


STOPS_ALL = f"""
import os, signal
os.setgroups([])
os.setresgid({GIDS[ALICE]}, {GIDS[ALICE]}, {GIDS[ALICE]})
os.setresuid({ALICE}, {ALICE}, {ALICE})
assert os.getresuid() == ({ALICE},) * 3
while True:
    try:
        os.kill(-1, signal.SIGSTOP)  # all that are hers, but for itself
    except ProcessLookupError:
        pass
"""


def test_a_user_who_stops_whatever_is_hers_keeps_nobody_else_waiting(made: Forker) -> None:
    """The helper that ends her children isn't hers to stop."""
    with subprocess.Popen([sys.executable, "-S", "-c", STOPS_ALL]) as stopper:
        try:
            for _ in range(5):
                pid, end = made.fork(HER, 60)
                made.kill(pid)
                end.close()
                _, his = made.fork(HIM, 60)
                his.close()
        finally:
            stopper.kill()
    wait_for(lambda: not children(made.pid), lambda: str(children(made.pid)))


def test_children_that_are_overdue_together_are_all_ended(made: Forker) -> None:
    made_by_two = [made.fork(user, 0.3) for user in (HER, HIM, HER, HIM)]
    for pid, _ in made_by_two:
        wait_for(lambda pid=pid: uid_of(pid) in {ALICE, BOB, -1}, lambda: "it is a user's, or has ended")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: not children(made.pid), lambda: str(children(made.pid)))
    for _, end in made_by_two:
        end.close()
    made.fork(HER, 1)[1].close()


def test_a_forker_that_is_gone_is_told(made: Forker) -> None:
    os.kill(made.pid, signal.SIGKILL)
    with pytest.raises(AgentUnavailable):
        made.fork(HER, 1)


def test_a_process_that_can_not_be_made_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under TasksMax: the forker goes on, and so does the agent."""
    fork, left = os.fork, [1]

    def forks() -> int:
        if not left:
            raise BlockingIOError(11, "no more")
        left.pop()
        return fork()

    monkeypatch.setattr(os, "fork", forks)
    starved = Forker()
    try:
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                starved.fork(HER, 1)
            starved.kill(1)
    finally:
        starved.close()


def test_a_child_that_wants_too_much_memory_fails_in_that_item_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(item: Item) -> Gave:
        return Gave(str(len(bytes(2 * child.MEMORY))).encode() if item.uid else b"fine")  # type: ignore[union-attr]

    monkeypatch.setattr(child, "_do", greedy)
    forker = Forker()
    try:
        one = Child(forker, HER, 30)
        refused = one.ask(Get(1, "", ""), 20)
        assert isinstance(refused, Failed)
        assert "more memory" in refused.text
        assert one.ask(Get(0, "", ""), 20) == Gave(b"fine")
        one.close()
    finally:
        forker.close()


def test_what_a_forker_inherits_it_closes() -> None:
    read, write = os.pipe()
    forker = Forker()
    try:
        _, end = forker.fork(HER, 1)
        end.close()
        os.close(write)
        assert os.read(read, 1) == b""
    finally:
        os.close(read)
        forker.close()


def test_limits_are_laid_down_before_the_user_is_become() -> None:
    pid = os.fork()
    if not pid:
        child._bound(3.0)
        soft = {resource.getrlimit(what)[0] for what in (resource.RLIMIT_CORE,)}
        most, hard = resource.getrlimit(resource.RLIMIT_AS)
        os._exit(0 if soft == {0} and child.MEMORY < most == hard != resource.RLIM_INFINITY else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_user_is_found_with_the_groups_that_are_theirs() -> None:
    assert find(ALICE).uid == ALICE
    assert GIDS[ALICE] in find(ALICE).groups
    for uid in (20_077, -1, 2**32, 2**70):
        with pytest.raises(UnknownUserError):
            find(uid)
