"""Jobs that follow targets, answer when they like, wrongly or never; a slaqd that dies and forgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from bounds import Table
from following import Following
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from slaqd.act import reconcile
from slaqd.act import target as targets
from slaqd.act.target import Ack, Phase, Track
from slaqd.allocate import make_plan
from slaqd.errors import AgentUnavailable
from slaqd.testing import ManualClock
from slaqd.types import JobKey, Lever, Sizes, State, Struct

T = TypeVar("T")

ROOM = 12
MOST = 8
JOBS = st.integers(1, 4)
SIZES = Sizes(min=1, max=MOST)


class Files:
    """An `AsUser` of memory, that looks at the numbers of what is written."""

    agent = False

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.silent = False
        self.highest: dict[str, int] = {}

    def put(self, uid: int, root: str, path: str, text: bytes) -> None:
        self._answers(uid, root)
        seq = int(json.loads(text)["seq"])
        assert seq > self.highest.get(path, 0), "a number went back"
        self.highest[path] = seq
        self.held[path] = text

    def get(self, uid: int, root: str, path: str) -> bytes | None:
        self._answers(uid, root)
        return self.held.get(path)

    def hands(self, request: Struct, kind: type[T]) -> T:
        raise PermissionError(f"{request} {kind}")

    def _answers(self, uid: int, root: str) -> None:
        if self.silent:
            raise AgentUnavailable(f"nobody answers for {uid} in {root}")


@settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
class FollowMachine(RuleBasedStateMachine):
    """``true`` is what each job really holds; the manager sees it, as a manager does, by looking."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.world = Following(Path("/runs"), units=ROOM, clock=self.clock)
        self.files = self.world.user = Files()  # type: ignore[assignment]
        self.world.again()
        self.true: dict[int, int] = {}
        self.read: dict[int, int] = {}

    @initialize(began=st.lists(st.integers(1, 4), max_size=3), led=st.booleans())
    def begin(self, *, began: list[int], led: bool) -> None:
        for number, units in enumerate(began, 1):
            self.world.start(number, made=False)
            self._holds(number, units)
        if led:
            self.world.start(9, made=False, lever=None, dir=None)

    def _holds(self, number: int, units: int) -> None:
        self.true[number] = units
        self.world.inner.seen[JobKey("fake", str(number), 7)] = units

    def _target(self, number: int) -> dict[str, int] | None:
        data = self.files.held.get(f"/runs/ctl-{number}/target.json")
        return None if data is None else json.loads(data)

    def _says(self, number: int, data: bytes) -> None:
        self.files.held[f"/runs/ctl-{number}/ack.json"] = data

    # slaqd

    @rule(gains=st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5))
    def cycle(self, gains: list[float]) -> None:
        self.clock.advance(3.0)
        snapshot = self.world.snapshot()
        for job in snapshot.jobs:
            if not snapshot.gaps and job.lever is Lever.FILE and job.state is State.RUNNING:
                assert job.held >= self.true[int(job.key.id)], "counted as free before the answer"
        rows = range(len(snapshot.jobs))
        table = Table(
            [[gains[row] * (1 - 0.8**units) for units in range(MOST + 1)] for row in rows] or [[0.0]]
        )
        capabilities = self.world.adapter.capabilities()
        plan = make_plan(snapshot, table, capabilities, "slaq")
        actions = reconcile(plan, snapshot, capabilities, "c")
        for action, outcome in zip(actions, self.world.act(*actions), strict=True):
            assert self.files.silent or type(outcome).__name__ == "Accepted", (action, outcome)
        for key in self.world.manager.admitted:
            if int(key.id) not in self.true:
                self._holds(int(key.id), 1)

    @rule(seconds=st.sampled_from([1.0, 50.0, 119.0, 121.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-86_400.0, -1.0, 1.0, 86_400.0]))
    def turn(self, seconds: float) -> None:
        self.clock.jump(seconds)

    @rule()
    def restart(self) -> None:
        self.world.again()

    @rule()
    def lose_the_journal(self) -> None:
        for registration in self.world.store.registrations():
            self.world.store.forget(registration.key)
        self.world.again()

    @rule(silent=st.booleans())
    def agent(self, *, silent: bool) -> None:
        self.files.silent = silent

    # the jobs

    @rule(number=JOBS)
    def submit(self, number: int) -> None:
        known = {registration.key.id for registration in self.world.store.registrations()}
        if str(number) not in known:
            self.world.start(number, waits=True, made=False)

    @rule(number=JOBS)
    def follow(self, number: int) -> None:
        target = self._target(number)
        if number in self.true and target and target["seq"] > self.read.get(number, 0):
            self.read[number] = target["seq"]
            self._holds(number, max(target["min"], min(target["units"], target["max"])))

    @rule(number=JOBS, share=st.floats(0.0, 1.0))
    def follow_in_part(self, number: int, share: float) -> None:
        before = self.true.get(number)
        self.follow(number)
        if before is not None:
            self._holds(number, round(before + share * (self.true[number] - before)))

    @rule(number=JOBS)
    def answer(self, number: int) -> None:
        if number in self.true:
            said = {"v": 1, "seq": self.read.get(number, 0), "state": "applied", "units": self.true[number]}
            self._says(number, json.dumps(said).encode())

    @rule(number=JOBS)
    def follow_and_answer(self, number: int) -> None:
        self.follow(number)
        self.answer(number)

    @rule(number=JOBS, data=st.binary(max_size=20), ahead=st.integers(1, 50), how=st.integers(0, 2))
    def answer_wrongly(self, number: int, data: bytes, ahead: int, how: int) -> None:
        target = self._target(number)
        seq = target["seq"] if target else 0
        wrong = [
            data,
            json.dumps({"v": 1, "seq": seq + ahead, "state": "applied", "units": 1}).encode(),
            json.dumps({"v": 1, "seq": seq, "state": "applied", "units": MOST + ahead}).encode(),
        ]
        self._says(number, wrong[how])

    @invariant()
    def the_sum_is_never_above_the_room(self) -> None:
        led = self.world.manager.held.get(JobKey("fake", "9", 7), 0)
        assert sum(self.true.values()) + led <= ROOM


TestFollowing = FollowMachine.TestCase


ANSWERS = st.none() | st.text(max_size=5) | st.builds(
    Ack, v=st.just(1), seq=st.integers(0, 12), state=st.just("applied"), units=st.integers(0, 10)
)  # fmt: skip
STEPS = st.lists(
    st.tuples(st.just("tell"), st.integers(1, MOST))
    | st.tuples(st.just("hear"), ANSWERS)
    | st.tuples(st.just("miss"), st.none())
    | st.tuples(st.just("restore"), st.none()),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_numbers_rise_and_only_a_true_answer_to_the_last_one_frees(steps: list[tuple[str, object]]) -> None:
    track = Track()
    for what, value in steps:
        before = track
        track = _step(track, what, value)
        assert track.seq == before.seq + (what == "tell")
        if targets.held(track, 0) < targets.held(before, 0):
            assert isinstance(value, Ack)
            assert (value.seq, value.units) == (before.seq, track.acked)
        assert track.misses <= before.misses + 1
        assert track.phase is Phase.FREE or track.seq > 0


def _step(track: Track, what: str, value: object) -> Track:
    match what, value:
        case "tell", int(units):
            return targets.tell(track, 0, units)
        case "hear", Ack() | str() | None as said:
            return targets.hear(track, said, SIZES)[0]
        case "miss", _ if track.phase is Phase.OPEN:
            return targets.miss(track)
        case "restore", _:
            return targets.restore(track)
    return track
