"""Which sources are left alone, for how long, and which of them hang together."""

from __future__ import annotations

import threading

import pytest

from slaqd.agent.forker import Forker
from slaqd.agent.protocol import Source
from slaqd.agent.quarantine import FIRST_S, LONGEST_S, Quarantine, Rests, mount_of, together
from slaqd.agent.session import MOST_LOST, MOST_LOST_OF_ONE, Hangs
from slaqd.agent.turn import Task, Trail, Turn, Users, parted
from slaqd.types import Tag

POINTS = ["/home", "/home/big", "/mnt/with space"]


def test_each_time_it_hangs_a_source_is_left_alone_twice_as_long() -> None:
    quarantine, now, lengths = Quarantine(), 100.0, []
    for _ in range(8):
        quarantine.put(["a"], now)
        lengths.append(quarantine.left("a", now))
        now += lengths[-1]
        assert quarantine.left("a", now) == 0
        assert quarantine.hangs("a")
    assert lengths[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert lengths[-2:] == [LONGEST_S, LONGEST_S]


def test_a_source_that_answers_begins_with_a_short_term_again() -> None:
    quarantine = Quarantine()
    for _ in range(5):
        quarantine.put(["a", "b"], 0.0)
    quarantine.release("a")
    assert (quarantine.left("a", 0.0), quarantine.hangs("a")) == (0.0, False)
    quarantine.put(["a"], 0.0)
    assert quarantine.left("a", 0.0) == FIRST_S < quarantine.left("b", 0.0)


def test_what_no_job_names_any_more_is_forgotten() -> None:
    quarantine = Quarantine()
    quarantine.put(["a", "b"], 0.0)
    quarantine.keep({"b", "c"})
    assert [quarantine.hangs(job) for job in "abc"] == [False, True, False]


def test_a_path_lies_on_the_longest_mount_point_that_begins_it() -> None:
    found = {
        path: mount_of(path, POINTS)
        for path in (
            "/home/a/log",
            "/home/big/log",
            "/home/bigger/log",
            "/mnt/with space/x",
            "/var/x",
            "/home",
        )
    }
    assert list(found.values()) == ["/home", "/home/big", "/home", "/mnt/with space", "", ""]


def test_paths_on_no_mount_of_their_own_do_not_hang_together() -> None:
    others = ["/home/b", "/home/big/b", "/var/b"]
    assert together("/home/a", others, POINTS) == {"/home/b"}
    assert together("/var/a", others, POINTS) == set()


def trail(job: str, uid: int = 20_001, *, looked: int = 0, trouble: str = "") -> Trail:
    return Trail(Source(job, uid, "/", f"/{job}", Tag()), looked=looked, trouble=trouble)


def test_sources_come_longest_not_looked_at_first_and_troubled_ones_last() -> None:
    trails = [
        trail("a", looked=3),
        trail("b", looked=1, trouble="hangs"),
        trail("c", looked=2),
        trail("d", 20_002),
    ]
    found = {uid: [each.source.job for each in mine] for uid, mine in parted(trails).items()}
    assert found == {20_001: ["c", "a", "b"], 20_002: ["d"]}


def test_an_answer_that_is_full_leaves_the_rest_for_the_next_look() -> None:
    task = Task(20_001, 0.0, 1, [trail("a")], float("inf"))
    assert not task.is_over()
    task.space.left = 0
    assert task.is_over()


def test_a_user_whose_looks_hang_gets_no_more_of_them_and_others_do() -> None:
    hangs, end, forker = Hangs(), threading.Event(), object.__new__(Forker)
    lost = []
    for number in range(MOST_LOST_OF_ONE):
        turn = Turn(Task(20_001, 0.0, 1, [trail(str(number))], 0.0), Users(), forker, done=None)  # type: ignore[arg-type]
        turn.run = end.wait  # type: ignore[method-assign, assignment]
        turn.start()
        lost.append(turn)
        hangs.lose(turn)
    assert [hangs.is_full(uid) for uid in (20_001, 20_002)] == [True, False]
    end.set()
    for turn in lost:
        turn.join()
    assert not hangs.is_full(20_001)
    assert hangs.lost() == []
    assert MOST_LOST >= MOST_LOST_OF_ONE


def test_who_takes_long_rests_until_it_was_a_share_of_the_time_and_who_is_quick_never() -> None:
    rests = Rests(1.0, share=0.25)
    rests.took(5, 2.0, now=10.0)
    rests.took(6, 1.0, now=10.0)
    assert [rests.left(uid, 10.0) for uid in (5, 6, 7)] == [4.0, 0.0, 0.0]
    assert rests.left(5, 14.0) == 0.0
    rests.took(6, 0.1, now=19.0)
    assert set(rests._accounts) == {6}


@pytest.mark.parametrize("seconds", [0.05, 0.49, 1.9, 5.0])
def test_many_that_are_short_cost_no_more_than_a_few_that_are_long(seconds: float) -> None:
    """Whoever asks again as soon as may be gets a tenth of a long time, and what is free once."""
    rests, now, taken = Rests(0.5, share=0.1), 100.0, 0.0
    while now < 1100.0:
        if rests.left(7, now):
            now += 0.01
            continue
        now += seconds
        taken += seconds
        rests.took(7, seconds, now)
    assert 95.0 < taken < 0.1 * 1000.0 + 0.5 + 2 * seconds


def test_a_share_of_the_time_is_never_too_much() -> None:
    rests = Rests(0.5, share=0.1)
    for turn in range(1, 1000):
        assert rests.left(7, 3.0 * turn) == 0.0
        rests.took(7, 0.29, 3.0 * turn)
