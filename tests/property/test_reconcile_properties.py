"""Reconcile and act on a model of a manager until plan and world agree; and the journal under any use."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from modelled import UNIT, job, plan, registration

from slaqd.act import Journal, reconcile
from slaqd.adapter import Capabilities, LeverSpec, Registration
from slaqd.types import Accepted, Action, Admit, Job, JobKey, Lever, Refused, Restore, Snapshot, State

CAPABILITIES = Capabilities(
    levers={Lever.CPUS: LeverSpec(), Lever.POOL: LeverSpec(swap_atomic=False)},
    min_epoch_s=1.0,
    actions_per_s=1.0,
)


@dataclass
class Thing:
    """One job of the model. Under a slow lever ``held`` follows ``target`` only when time goes by."""

    lever: Lever
    held: int
    target: int | None
    waiting: bool
    overhead: int

    def uses(self) -> int:
        units = max(self.held, self.target or 0)
        return 0 if self.waiting else units + self.overhead


@dataclass
class World:
    room: int
    things: list[Thing]
    wanted: list[int]
    now: float = 1.0
    acted: list[int] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        rows = tuple(self._row(number, thing) for number, thing in enumerate(self.things))
        pools = {"pool": {"cpu_milli": 100 * self.room}}
        return Snapshot(taken_at=self.now, incarnation="one", pools=pools, jobs=rows)

    def _row(self, number: int, thing: Thing) -> Job:
        row = job(
            number,
            held=thing.held,
            state=State.WAITING if thing.waiting else State.RUNNING,
            lever=thing.lever,
            overhead={name: amount * thing.overhead for name, amount in UNIT.items()},
        )
        return Job(**{**{name: getattr(row, name) for name in row.__struct_fields__}, "target": thing.target})

    def uses(self) -> int:
        return sum(thing.uses() for thing in self.things)

    def do(self, action: Action) -> None:
        assert not isinstance(action, Restore)
        thing = self.things[int(action.key.id)]
        assert isinstance(action, Admit) == thing.waiting
        thing.waiting, thing.target = False, action.units
        if thing.lever is Lever.CPUS:
            thing.held = action.units

    def cycle(self) -> Sequence[Action]:
        units = dict(enumerate(self.wanted))
        actions = reconcile(plan(units, taken_at=self.now), self.snapshot(), CAPABILITIES, f"{self.now}")
        for action in actions:
            self.do(action)
            assert self.uses() <= self.room, "more than the room in between"
        self.now += 1
        for thing in self.things:
            thing.held = thing.held if thing.target is None else thing.target
        return actions


@st.composite
def worlds(draw: st.DrawFn, levers: Sequence[Lever]) -> World:
    """Draw a world within its room, and a plan that fits into it too."""
    count = draw(st.integers(1, 6))
    things = [draw(_things(levers)) for _ in range(count)]
    wanted = [draw(st.integers(0 if thing.waiting else 1, 9)) for thing in things]
    fits = sum(want + thing.overhead for want, thing in zip(wanted, things, strict=True) if want)
    room = max(sum(thing.uses() for thing in things), fits) + draw(st.integers(0, 2))
    return World(room, things, wanted)


@st.composite
def _things(draw: st.DrawFn, levers: Sequence[Lever]) -> Thing:
    lever, waiting = draw(st.sampled_from(levers)), draw(st.booleans())
    held = 0 if waiting else draw(st.integers(0, 9))
    target = (
        None
        if waiting
        else draw(st.none() | st.just(held) if lever is Lever.CPUS else st.none() | st.integers(1, 9))
    )
    return Thing(lever, held, target, waiting, draw(st.integers(0, 2)))


def settled(world: World) -> None:
    for thing, want in zip(world.things, world.wanted, strict=True):
        if want:
            assert (thing.waiting, thing.target, thing.held) == (False, want, want)
        else:
            assert thing.waiting


@given(worlds([Lever.CPUS]))
def test_an_atomic_lever_converges_in_one_step_and_never_exceeds_the_room(world: World) -> None:
    world.cycle()
    settled(world)
    assert world.cycle() == ()


@given(worlds([Lever.POOL]))
def test_a_slow_lever_converges_in_three_steps_and_never_exceeds_the_room(world: World) -> None:
    for _ in range(3):
        world.cycle()
    settled(world)
    assert world.cycle() == ()


@given(worlds([Lever.CPUS, Lever.POOL]))
def test_levers_of_both_kinds_together_converge_and_never_exceed_the_room(world: World) -> None:
    for _ in range(3):
        world.cycle()
    settled(world)
    assert world.cycle() == ()


@given(worlds([Lever.CPUS, Lever.POOL]), st.data())
def test_a_repeated_batch_changes_nothing(world: World, data: st.DataObject) -> None:
    units = dict(enumerate(world.wanted))
    actions = reconcile(plan(units, taken_at=world.now), world.snapshot(), CAPABILITIES, "c")
    for action in actions:
        world.do(action)
    before = repr(world.things)
    for action in data.draw(st.permutations(actions)):
        if not isinstance(action, Admit):
            world.do(action)
    assert repr(world.things) == before


@given(worlds([Lever.CPUS, Lever.POOL]))
def test_each_job_gets_at_most_one_action_of_its_own_name(world: World) -> None:
    actions = world.cycle()
    assert len({action.key for action in actions}) == len(actions)
    assert len({action.id for action in actions}) == len(actions)


KEYS = st.sampled_from([JobKey("fake", str(number), start) for number in range(3) for start in (7, 8)])
WORDS = st.text(st.characters(codec="utf-8"), max_size=8)


@settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
class JournalMachine(RuleBasedStateMachine):
    """The journal beside dictionaries, through any calls and any number of crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.journal = Journal(Path(self.folder.name) / "journal.sqlite")
        self.jobs: dict[JobKey, Registration] = {}
        self.paused: set[JobKey] = set()
        self.notes: dict[JobKey, dict[str, str]] = {}
        self.over: dict[JobKey, int | None] = {}
        self.facts: dict[str, str] = {}
        self.rows: dict[str, str | None] = {}

    @rule(which=KEYS, name=WORDS, at=st.integers(0, 100))
    def register(self, which: JobKey, name: str, at: int) -> None:
        made = registration(which.id, submitted=float(at))
        made = Registration(which, made.owner, made.tag, name, "/", float(at))
        self.journal.register(made)
        self.jobs[which] = made
        self.over.pop(which, None)

    @rule(which=KEYS, paused=st.booleans())
    def pause(self, which: JobKey, *, paused: bool) -> None:
        self.journal.pause(which, paused=paused)
        if which in self.jobs or which in self.over:
            (self.paused.add if paused else self.paused.discard)(which)

    @rule(which=KEYS, name=WORDS, value=WORDS)
    def note(self, which: JobKey, name: str, value: str) -> None:
        self.journal.note(which, name, value)
        self.notes.setdefault(which, {})[name] = value

    @rule(which=KEYS)
    def forget(self, which: JobKey) -> None:
        self.journal.forget(which)
        self.notes.pop(which, None)

    @rule(which=KEYS, now=st.integers(0, 100))
    def end(self, which: JobKey, now: int) -> None:
        self.journal.end(which, float(now), "{}")
        self.notes.pop(which, None)
        if self.jobs.pop(which, None) is not None:
            self.over[which] = None

    @rule(which=KEYS, status=st.integers(0, 255))
    def exit_status(self, which: JobKey, status: int) -> None:
        self.journal.keep_exit_status(which, status)
        if which in self.over:
            self.over[which] = status

    @rule(name=WORDS, value=WORDS)
    def keep(self, name: str, value: str) -> None:
        if name != "runs":
            self.journal.keep_fact(name, value)
            self.facts[name] = value

    @rule(which=KEYS, units=st.integers(1, 9), name=st.integers())
    def intend(self, which: JobKey, units: int, name: int) -> None:
        if str(name) not in self.rows:
            self.journal.intend([Admit(str(name), which, "one", units)], {}, 50.0, {})
            self.rows[str(name)] = None

    @rule(data=st.data(), accepted=st.booleans())
    def record(self, data: st.DataObject, *, accepted: bool) -> None:
        if self.rows:
            name = data.draw(st.sampled_from(sorted(self.rows)))
            self.journal.record([(name, Accepted() if accepted else Refused("no"))], 51.0)
            self.rows[name] = self.rows[name] or ("Accepted" if accepted else "Refused")

    @rule()
    def crash(self) -> None:
        left = self.journal
        self.journal = Journal(left.path)
        left.close()
        self.journal.begin_run(60.0)

    @invariant()
    def nothing_is_lost_and_nothing_is_doubled(self) -> None:
        live = {made.key: made for made in self.journal.registrations()}
        assert live == self.jobs
        assert self.journal.paused() == self.paused & set(self.jobs)
        assert {which: dict(self.journal.notes(which)) for which in self.notes} == self.notes
        assert all(self.journal.fact(name) == value for name, value in self.facts.items())
        assert {row.id: row.outcome for row in self.journal.actions()} == self.rows
        over = self.journal.ended(0.0)
        assert {row.registration.key for row in over} == set(self.over)
        assert all(self.over[row.registration.key] in (None, row.exit_status) for row in over)

    def teardown(self) -> None:
        self.journal.close()
        self.folder.cleanup()


TestJournal = JournalMachine.TestCase
