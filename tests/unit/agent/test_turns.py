"""What a turn forks, reads, remembers and leaves for later, with a child that a test plays."""

from __future__ import annotations

import errno
import os
import queue
import socket
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from played_child import CURVE, SOURCE, FakeForker, answering, framed, reading

from slaqd.agent import turn as turns
from slaqd.agent.become import User
from slaqd.agent.child import MOST_STATE
from slaqd.agent.growth import Signature
from slaqd.agent.protocol import Done, Failed, Gave, Get, Look, Looked, Read, Result, Source, pack, receive
from slaqd.agent.session import Session
from slaqd.agent.turn import Task, Trail, Turn, Users


def test_a_curve_that_did_not_change_is_told_once() -> None:
    trail = Trail(SOURCE)
    done = Done(pack(CURVE), b"", again=False)
    forker, task = FakeForker(), Task(20_001, 0.0, 1, [], 0.0)
    turn = Turn(task, Users(), forker, queue.SimpleQueue())  # type: ignore[arg-type]
    for _ in range(3):
        turn._take(trail, None, done)
    assert len(task.readings) == 1
    turn._take(trail, None, Failed(0, "no"))
    turn._take(trail, None, done)
    assert [reading.refused for reading in task.readings] == ["", "no", ""]


def test_a_user_whose_logs_are_heavy_makes_the_agent_remember_no_more_than_a_share() -> None:
    """What is light is followed on; each heavy one says why it isn't."""
    trails = [Trail(msgspec.structs.replace(SOURCE, job=str(number))) for number in range(100)]
    task = Task(20_001, 0.0, 1, [], 0.0)
    turn = Turn(task, Users(), FakeForker(), queue.SimpleQueue())  # type: ignore[arg-type]
    for _ in range(3):
        for number, trail in enumerate(trails):
            heavy = bytes(turns.USUAL if number % 2 else MOST_STATE)
            turn._take(trail, None, Done(pack(CURVE), heavy, again=False))
    light = 50 * turns.USUAL
    assert sum(len(trail.state) for trail in trails) == task.kept <= turns.MOST_OF_ONE + light
    assert sum(len(trail.state) == turns.USUAL for trail in trails) == 50
    told = {reading.job for reading in task.readings if turns.TOO_MUCH in reading.refused}
    assert told == {trail.source.job for trail in trails if not trail.state}
    assert told


def test_many_users_with_heavy_logs_keep_nobody_from_a_fair_share_of_the_agents_memory() -> None:
    budget = turns.Budget(turns.MOST_OF_ALL, fair=turns.MOST_OF_ALL // 20)
    heavy, light = bytes(MOST_STATE), bytes(turns.USUAL)
    kept = []
    for uid in range(20):
        task = Task(20_000 + uid, 0.0, 1, [], 0.0, budget=budget)
        turn = Turn(task, Users(), FakeForker(), queue.SimpleQueue())  # type: ignore[arg-type]
        for number in range(40):
            trail = Trail(msgspec.structs.replace(SOURCE, job=str(number)))
            turn._take(trail, None, Done(pack(CURVE), heavy if uid < 19 else light, again=False))
        kept.append(task.kept)
    assert sum(kept[:19]) <= turns.MOST_OF_ALL + 19 * turns.MOST_OF_ALL // 20
    assert kept[19] == 40 * turns.USUAL


def test_what_is_remembered_of_those_who_have_most_is_forgotten_where_it_is_too_much() -> None:
    session = Session(FakeForker(), 1)  # type: ignore[arg-type]
    for uid, number, size in ((20_001, 0, turns.MOST_OF_ALL), (20_002, 1, 1000), (20_003, 2, 2000)):
        source = msgspec.structs.replace(SOURCE, job=str(number), uid=uid)
        session._trails[source.job] = Trail(source, Signature(), bytes(size))
    assert session._kept() == {20_001: 0, 20_002: 1000, 20_003: 2000}
    first = session._trails["0"]
    assert (first.state, first.seen) == (b"", None)
    assert session._trails["1"].seen == Signature()


@pytest.mark.parametrize("pattern", ["m.csv", "*.csv"])
def test_where_nothing_grew_nothing_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """A glob is looked through anew now and then: a newer file may lie where nobody looked."""
    log, clock = tmp_path / "m.csv", [100.0]
    log.write_text("step,loss\n1,2\n")
    forker = FakeForker()
    forker.serve = reading
    monkeypatch.setattr(turns, "wear", lambda _: None)
    monkeypatch.setattr(turns.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Users, "find", lambda _, uid: User(uid, uid, ()))
    where = {"root": str(tmp_path), "path": f"{tmp_path}/{pattern}"}
    source = msgspec.structs.replace(SOURCE, uid=os.geteuid(), **where)
    trail = Trail(source)

    def looks(times: int = 4) -> int:
        before = forker.forked
        for _ in range(times):
            task = Task(source.uid, 0.0, 1, [trail], clock[0] + 60)
            Turn(task, Users(), forker, queue.SimpleQueue()).run()  # type: ignore[arg-type]
        return forker.forked - before

    assert 1 <= looks() <= 2
    assert looks() == 0
    log.write_text("step,loss\n1,2\n2,1\n")
    assert looks() == 1
    (tmp_path / "n.csv").write_text("step,loss\n1,9\n")
    assert looks() == (0 if pattern == "m.csv" else 2)  # found, and then looked at where it is
    clock[0] += turns.SEARCH_S
    assert looks() == (0 if pattern == "m.csv" else 1)
    forker.close()


def test_who_takes_long_is_waited_for_in_one_look_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds a look: six of rest, once five are used up. What is known stays, without a word."""
    clock, looked = [100.0], list[float]()

    def looks(_source: Source, _followed: str) -> Signature:
        looked.append(clock[0])
        clock[0] += 2.0
        return Signature(ino=1)

    forker = FakeForker()
    forker.serve = answering(framed(Done(pack(CURVE), b"", again=False)))
    monkeypatch.setattr(turns, "wear", lambda _: None)
    monkeypatch.setattr(turns, "signature", looks)
    monkeypatch.setattr(turns.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Users, "find", lambda _, uid: User(uid, uid, ()))
    session = Session(forker, 1)  # type: ignore[arg-type]
    answers = []
    for _ in range(24):
        answers.append(session.answer(Look(0.0, (SOURCE,))))
        clock[0] += 1.0
    forker.close()
    assert all(isinstance(each, Looked) and not any(r.refused for r in each.readings) for each in answers)
    assert looked[:6] == [100.0, 103.0, 106.0, 109.0, 114.0, 122.0]
    assert all(after - before == 8.0 for before, after in pairwise(looked[4:]))


@pytest.mark.parametrize(
    "end", [Gave(b"{}"), Failed(5, "i/o error"), OSError(5, "i/o error")], ids=["read", "failed", "raised"]
)
@pytest.mark.parametrize(("seconds", "answered"), [(1.9, 1), (0.49, 2), (0.3, 7), (0.2, 30)])
def test_slow_small_files_rest_too_and_say_so(
    monkeypatch: pytest.MonkeyPatch, end: Result | OSError, seconds: float, answered: int
) -> None:
    """Whatever comes of them: all seconds of one user's count, but for what a child takes of itself."""
    clock, asked = [100.0], list[int]()

    def slow(_self: Session, request: Get) -> Result:
        asked.append(request.uid)
        clock[0] += seconds
        if isinstance(end, OSError):
            raise end
        return end

    monkeypatch.setattr(Session, "_by_child", slow)
    monkeypatch.setattr(turns.time, "monotonic", lambda: clock[0])
    session = Session(FakeForker(), 1)  # type: ignore[arg-type]
    get = Get(20_001, "/r", "/r/ack.json")
    answers = [session.answer(get) for _ in range(30)]
    assert len(asked) == answered
    for each in answers[answered:]:
        assert isinstance(each, Failed)
        assert each.errno == errno.ETIMEDOUT
        assert "answer too slowly, and others wait for them; tried again in" in each.text
    session.answer(Get(20_002, "/r", "/r/ack.json"))
    clock[0] += 10 * seconds * answered
    session.answer(get)
    assert asked[answered:] == [20_002, 20_001]


def test_on_a_slow_file_system_what_was_found_is_read_and_the_rest_comes_first_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look takes a second of the clock; reading takes none."""
    clock, answer = [100.0], framed(Done(pack(CURVE), b"", again=False))

    def serve(sock: socket.socket) -> None:
        with suppress(OSError):
            while True:
                receive(sock, Read)
                sock.sendall(answer)

    def looks(_source: Source, _followed: str) -> Signature:
        clock[0] += 1.0
        return Signature(ino=int(clock[0]))

    trails = [Trail(msgspec.structs.replace(SOURCE, job=str(number))) for number in range(7)]
    forker = FakeForker()
    forker.serve = serve
    monkeypatch.setattr(turns, "wear", lambda _: None)
    monkeypatch.setattr(turns, "signature", looks)
    monkeypatch.setattr(turns.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Users, "find", lambda _, uid: User(uid, uid, ()))
    read = []
    for number in (1, 2, 3):
        task = Task(20_001, 0.0, number, turns.parted(trails)[20_001], clock[0] + 60)
        Turn(task, Users(), forker, queue.SimpleQueue()).run()  # type: ignore[arg-type]
        read.append([trail.source.job for trail in trails if trail.looked == number])
        assert len(read[-1]) + len(task.left) + task.missed == len(trails)
    forker.close()
    assert read == [["0", "1", "2"], ["3", "4", "5"], ["0", "1", "6"]]


def test_a_fault_of_slaqds_own_is_said_of_each_source_and_of_the_one_that_met_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    forker = FakeForker()
    forker.serve = answering(framed(Done(pack(CURVE), b"", again=False)))
    monkeypatch.setattr(turns, "wear", lambda _: None)
    monkeypatch.setattr(turns, "signature", lambda *_: Signature(ino=1))
    monkeypatch.setattr(Users, "find", lambda _, uid: User(uid, uid, ()))
    monkeypatch.setattr(Turn, "_take", breaks)
    sources = tuple(msgspec.structs.replace(SOURCE, job=job) for job in "123")
    answer = Session(forker, 1).answer(Look(0.0, sources))  # type: ignore[arg-type]
    forker.close()
    assert isinstance(answer, Looked)
    said = [(each.job, "a fault of slaqd's own" in each.refused) for each in answer.readings]
    assert said == [("1", True), ("2", True), ("3", True)]
