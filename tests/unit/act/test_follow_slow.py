"""Users whose files answer slowly, or not for long: the wait is their own, and the others go on."""

from __future__ import annotations

import errno
from collections import Counter, defaultdict
from pathlib import Path

import msgspec
import pytest
from following import Following

from slaqd.act.filetime import LATE, SLOW
from slaqd.errors import AgentUnavailable
from slaqd.testing import ManualClock, MemoryStore
from slaqd.types import Accepted, Admit, Adopt, Job, JobKey, Owner, Refused, Snapshot, State, Struct

HERS, HIS = 20_001, 20_002


class Slow:
    """An `AsUser` of memory whose files take time, by user, and may end in an error all the same."""

    agent = True

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.takes: defaultdict[int, float] = defaultdict(float)
        self.ends: dict[int, OSError] = {}
        self.silent = False
        self.files: dict[str, bytes] = {}
        self.asked: list[int] = []

    def put(self, uid: int, root: str, path: str, text: bytes) -> None:
        self._wait(uid, root)
        self.files[path] = text

    def get(self, uid: int, root: str, path: str) -> bytes | None:
        self._wait(uid, root)
        return self.files.get(path)

    def hands(self, request: Struct, kind: type[object]) -> object:
        raise PermissionError(f"{request} {kind}")

    def _wait(self, uid: int, root: str) -> None:
        assert root
        if self.silent:
            raise AgentUnavailable("slaqd-agent does not answer")
        self.asked.append(uid)
        self.clock.advance(self.takes[uid])
        if uid in self.ends:
            raise self.ends[uid]


class Users(Following):
    """Jobs of several users; job ``n`` of each is told its targets in memory."""

    user: Slow  # type: ignore[assignment]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, units=200, clock=ManualClock())
        assert isinstance(self.clock, ManualClock)
        self.user = Slow(self.clock)
        self.again()

    def of(self, uid: int, *numbers: int, waits: bool = False) -> list[JobKey]:
        keys = [self.start(number, made=False, waits=waits) for number in numbers]
        assert isinstance(self.store, MemoryStore)
        for registration in self.store.registrations():
            if registration.key in keys:
                owner = Owner(uid, f"u{uid}")
                self.store.register(msgspec.structs.replace(registration, owner=owner))
        return keys

    def gaps(self) -> dict[int, str | None]:
        """Look, and give each job's gap by its number; the snapshot itself has none."""
        snapshot = self.snapshot()
        assert snapshot.gaps == ()
        return {int(job.key.id): job.gap for job in snapshot.jobs}

    def rounds(self, times: int) -> list[set[int]]:
        """Look some times, and give each time the numbers of the jobs whose answers were read."""
        return [{number for number, gap in self.gaps().items() if gap is None} for _ in range(times)]


@pytest.fixture
def world(tmp_path: Path) -> Users:
    return Users(tmp_path)


def eio() -> OSError:
    return OSError(errno.EIO, "input/output error")


# one user


def test_slow_files_that_end_in_an_error_cost_their_own_user_alone(world: Users) -> None:
    """Seven jobs of 1.9 s each filled the ten seconds, and nobody's job was planned for, ever."""
    world.of(HERS, *range(1, 8))
    world.of(HIS, 8)
    world.user.takes[HERS], world.user.ends[HERS] = 1.9, eio()
    for _ in range(10):
        began, before = world.clock.monotonic(), len(world.user.asked)
        gaps = world.gaps()
        assert gaps.pop(8) is None
        assert Counter(gaps.values()) == {SLOW: 6, str(eio()): 1}
        assert world.user.asked[before:].count(HERS) == 1
        assert world.clock.monotonic() - began == pytest.approx(1.9)


def test_many_that_are_just_quick_enough_alone_cost_as_much_as_a_slow_one(world: Users) -> None:
    world.of(HERS, *range(1, 22))
    world.of(HIS, 30)
    world.user.takes[HERS], world.user.ends[HERS] = 0.49, eio()
    gaps = world.gaps()
    assert gaps[30] is None
    assert world.user.asked.count(HERS) == 3
    assert list(gaps.values()).count(SLOW) == 18


def test_jobs_that_were_not_reached_come_first_in_the_next_look(world: Users) -> None:
    """Also where asking fails: a job whose directory is broken is no reason never to ask for the others."""
    world.of(HERS, *range(1, 8))
    world.user.takes[HERS] = 0.4
    reached = world.rounds(4)
    assert all(reached)
    assert set().union(*reached) == set(range(1, 8))
    world.user.takes[HERS], world.user.ends[HERS] = 1.9, eio()
    troubled = [{number for number, gap in world.gaps().items() if gap != SLOW} for _ in range(7)]
    assert sorted(number for each in troubled for number in each) == list(range(1, 8))


def test_whom_the_agent_turns_away_is_asked_for_once_a_look(world: Users) -> None:
    world.of(HERS, 1, 2, 3)
    world.of(HIS, 4)
    world.user.ends[HERS] = OSError(errno.ETIMEDOUT, "tried again in 9 s")
    for turn in range(3):
        gaps = world.gaps()
        assert gaps[4] is None
        assert Counter(gaps.values()) == {"[Errno 110] tried again in 9 s": 1, SLOW: 2, None: 1}
        assert world.user.asked.count(HERS) == turn + 1
    del world.user.ends[HERS]
    assert set(world.gaps().values()) == {None}


def test_a_job_that_nothing_is_known_of_for_its_own_slowness_counts_as_its_manager_sees_it(
    world: Users,
) -> None:
    keys = world.of(HERS, 1, 2)
    for key in keys:
        world.inner.seen[key] = 3
    world.user.takes[HERS], world.user.ends[HERS] = 1.9, eio()
    snapshot = world.snapshot()
    assert snapshot.gaps == ()
    assert [(job.held, job.target) for job in snapshot.jobs] == [(3, None)] * 2
    assert all(job.gap for job in snapshot.jobs)


def test_whose_files_are_slow_is_told_little_at_once_and_is_let_in_all_the_same(world: Users) -> None:
    world.of(HERS, 1)
    (waiting,) = world.of(HERS, 2, waits=True)
    (second,) = world.of(HERS, 3)
    world.gaps()
    world.user.takes[HERS] = 0.5
    name, (first, *_) = world.manager.incarnation, world.store.registrations()
    batch = [Adopt("a", first.key, name, 2), Adopt("b", second, name, 2)]
    assert world.act(*batch) == [Accepted(), Refused(SLOW, retry=True)]
    assert world.act(*batch) == [Accepted(), Accepted()]
    world.user.ends[HERS] = OSError(errno.ETIMEDOUT, "tried again in 9 s")
    world.gaps()
    asked = len(world.user.asked)
    assert world.set(3) != Accepted()
    assert world.act(Admit("c", waiting, name, 2)) == [Accepted()]
    assert len(world.user.asked) == asked


def test_who_has_more_jobs_than_a_look_can_read_is_told_all_the_same(world: Users) -> None:
    world.of(HERS, *range(1, 200))
    world.user.takes[HERS] = 1 / 128
    assert list(world.gaps().values()).count(None) == 64
    assert world.adopt(1) == Accepted()


# many users


def test_all_users_together_get_a_third_of_the_time_and_the_quick_come_first(world: Users) -> None:
    """All were reached once, as always but at the start: a new job is only itself not reached."""
    slow = range(HERS + 10, HERS + 20)
    for number, uid in enumerate(slow, 1):
        world.of(uid, number)
    world.of(HIS, 20)
    world.rounds(1)
    for uid in slow:
        world.user.takes[uid], world.user.ends[uid] = 0.9, eio()
    world.of(HIS, 21)
    began = world.clock.monotonic()
    gaps = world.gaps()
    assert world.clock.monotonic() - began == pytest.approx(3.6)
    assert list(gaps.values()).count(LATE) >= 6
    assert gaps[21] is None
    world.rounds(1)  # four users more are found out
    asked = len(world.user.asked)
    for _ in range(8):
        gaps = world.gaps()
        assert (gaps[20], gaps[21]) == (None, None)
    assert set(slow) <= set(world.user.asked[asked:])


def test_one_of_each_users_jobs_comes_after_the_other(world: Users) -> None:
    world.of(HERS, 1, 2, 3)
    world.of(HIS, 4)
    world.of(HIS + 1, 5)
    world.gaps()
    world.user.asked.clear()
    world.gaps()
    assert world.user.asked == [HERS, HIS, HIS + 1, HERS, HERS]


def test_at_the_start_what_others_kept_from_being_read_is_not_given_away(world: Users) -> None:
    """The journal is lost, and what a job was told is in its files alone."""
    slow = [HERS + 11, HERS + 12, HERS + 13]
    hers = [key for number, uid in enumerate(slow, 1) for key in world.of(uid, number)]
    his = world.of(HIS, 9)
    world.gaps()
    world.set(8, 9, Adopt)
    for key in [*hers, *his]:
        world.store.forget(key)
    for uid in slow:
        world.user.takes[uid], world.user.ends[uid] = 1.9, eio()
    world.again()
    assert world.snapshot().gaps == (
        f"what job 3 was told can't be read: {LATE}",
        f"what job 9 was told can't be read: {LATE}",
    )
    snapshot = world.snapshot()
    assert snapshot.gaps == ()
    assert _job(snapshot.jobs, 9).held == 8
    world.of(HIS, 10, 11, 12)
    assert world.snapshot().gaps == ()


def test_an_agent_that_is_gone_is_the_snapshots_gap_where_a_job_is_unknown(world: Users) -> None:
    world.of(HERS, 1)
    world.gaps()
    world.of(HIS, 2)
    world.user.silent = True
    assert world.snapshot().gaps == ("what job 2 was told can't be read: slaqd-agent does not answer",)


def test_after_the_deadline_no_file_is_asked_for(world: Users) -> None:
    world.of(HERS, 1)
    world.gaps()
    asked = len(world.user.asked)
    inner = world.inner.snapshot

    def slowly(deadline: float) -> Snapshot:
        seen = inner(deadline)
        world.clock.sleep(11.0)
        return seen

    world.inner.snapshot = slowly  # type: ignore[method-assign]
    snapshot = world.snapshot()
    assert (snapshot.gaps, snapshot.jobs[0].gap, len(world.user.asked)) == ((), LATE, asked)
    assert snapshot.jobs[0].state is State.RUNNING


def _job(jobs: tuple[Job, ...], number: int) -> Job:
    return next(job for job in jobs if job.key.id == str(number))
