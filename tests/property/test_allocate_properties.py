"""What holds of every plan, whatever is asked and predicted."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from bounds import CAPABILITIES, OWNER, Table, check_plan
from hypothesis import given
from hypothesis import strategies as st

from slaqd.act import reconcile
from slaqd.adapter import LeverSpec
from slaqd.allocate import POLICIES, make_plan
from slaqd.allocate.ask import Ask
from slaqd.allocate.guard import clamp
from slaqd.types import Job, JobKey, Lever, Owner, Plan, Restore, Sizes, Snapshot, State, Tag

FREE, COSTLY = LeverSpec(), LeverSpec(pause_s=3.0, loses_work=True)


@st.composite
def concave(draw: Any, jobs: int, most: int) -> Table:
    """Draw falls whose steps shrink, all different, as whole numbers for exact sums."""
    steps = draw(
        st.lists(st.lists(st.integers(0, 10**6), min_size=most, max_size=most), min_size=jobs, max_size=jobs)
    )
    return Table([[0, *np.cumsum(sorted(row, reverse=True))] for row in steps])


def ask_of(index: int, low: int, high: int, **more: Any) -> Ask:
    unit = more.pop("unit", {"cpu_milli": 1000})
    return Ask(index, JobKey("t", str(index), 0), low, high, unit, **{"known": True, **more})


@st.composite
def sizes_of(draw: Any) -> Sizes:
    low = draw(st.integers(1, 4))
    if draw(st.booleans()):
        allowed = tuple(sorted(draw(st.sets(st.integers(1, 16), min_size=1, max_size=4))))
        return Sizes(min=allowed[0], max=allowed[-1], allowed=allowed)
    return Sizes(min=low, max=low + draw(st.integers(0, 12)), grain=draw(st.integers(1, 3)))


@st.composite
def job_of(draw: Any, index: int) -> Job:
    sizes = draw(sizes_of())
    waiting = draw(st.integers(0, 4)) == 0
    maybe = st.none() | st.just("the reason")
    held = 0 if waiting else draw(st.integers(sizes.min, sizes.max))
    return Job(
        key=JobKey("t", str(index), 0),
        name=f"job{index}",
        owner=OWNER,
        state=State.WAITING if waiting else State.RUNNING,
        pool=draw(st.sampled_from(["a", "b"])),
        tag=Tag(weight=draw(st.sampled_from([None, 0.5, 2.0]))),
        lever=draw(st.sampled_from([Lever.CPUS, Lever.CPUS, Lever.REQUEUE, Lever.NONE, Lever.ARRAY])),
        unit=draw(st.sampled_from([{"cpu_milli": 1000}, {"cpu_milli": 500, "memory_mb": 1000}])),
        overhead=draw(st.sampled_from([{}, {"cpu_milli": 1000}])),
        sizes=sizes,
        held=held,
        submitted=draw(st.floats(0.0, 10.0)),
        wants=draw(st.none() | st.integers(1, 20)),
        cannot_grow=draw(maybe),
        cannot_shrink=draw(maybe),
        gap=draw(st.none() | st.none() | st.just("no row")),
    )


@st.composite
def cluster(draw: Any) -> tuple[Snapshot, Table]:
    count = draw(st.integers(0, 6))
    jobs = tuple(draw(job_of(index)) for index in range(count))
    pools = {
        name: {"cpu_milli": 1000 * draw(st.integers(0, 40)), "memory_mb": 1000 * draw(st.integers(0, 60))}
        for name in ("a", "b")
    }
    known = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    falls = draw(concave(count, 20)).falls if count else np.zeros((0, 21))
    return Snapshot(1.0, "x", pools, jobs), Table(falls, known)


@given(cluster(), st.sampled_from(sorted(POLICIES)))
def test_no_plan_breaks_a_bound_or_the_room(drawn: tuple[Snapshot, Table], policy: str) -> None:
    snapshot, table = drawn
    check_plan(snapshot, make_plan(snapshot, table, CAPABILITIES, policy))


@given(cluster(), st.sampled_from(sorted(POLICIES)))
def test_the_same_question_has_the_same_answer(drawn: tuple[Snapshot, Table], policy: str) -> None:
    snapshot, table = drawn
    assert make_plan(snapshot, table, CAPABILITIES, policy) == make_plan(
        snapshot, table, CAPABILITIES, policy
    )


@given(st.data())
def test_the_greedy_finds_the_best_split_of_concave_falls(data: Any) -> None:
    jobs, most = data.draw(st.integers(1, 3)), 5
    table = data.draw(concave(jobs, most))
    weights = data.draw(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=jobs, max_size=jobs))
    room = data.draw(st.integers(jobs, jobs * most))
    asks = [ask_of(at, 1, most, weight=weights[at]) for at in range(jobs)]

    def worth(units: Any) -> float:
        return sum(w * table.falls[at, n] for at, (w, n) in enumerate(zip(weights, units, strict=True)))

    units = POLICIES["slaq"].split(asks, table, {"cpu_milli": room * 1000})
    splits = [u for u in product(range(1, most + 1), repeat=jobs) if sum(u) <= room]
    assert sum(units) == min(room, jobs * most)
    assert worth(units) == pytest.approx(max(map(worth, splits)), rel=1e-12)


@st.composite
def bounds_and_room(draw: Any) -> tuple[list[tuple[int, int]], int]:
    lows = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    bounds = [(low, low + draw(st.integers(0, 4))) for low in lows]
    return bounds, sum(lows) + draw(st.integers(0, 10))


@given(bounds_and_room())
def test_fair_share_is_max_min_optimal(drawn: tuple[list[tuple[int, int]], int]) -> None:
    """No other split has a larger smallest share, then a larger second smallest, and so on."""
    bounds, room = drawn
    asks = [ask_of(at, low, high) for at, (low, high) in enumerate(bounds)]
    units = POLICIES["fair"].split(asks, Table(np.zeros((len(asks), 1))), {"cpu_milli": room * 1000})
    choices = product(*(range(low, high + 1) for low, high in bounds))
    assert sorted(units) == max(sorted(split) for split in choices if sum(split) <= room)


@given(bounds_and_room(), st.data())
def test_no_job_has_a_weighted_share_that_a_lower_one_could_use(
    drawn: tuple[list[tuple[int, int]], int], data: Any
) -> None:
    bounds, room = drawn
    weights = [data.draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in bounds]
    asks = [ask_of(at, low, high, weight=weights[at]) for at, (low, high) in enumerate(bounds)]
    units = POLICIES["fair"].split(asks, Table(np.zeros((len(asks), 1))), {"cpu_milli": room * 1000})
    able = [units[at] / weights[at] for at in range(len(asks)) if units[at] < asks[at].max]
    for at, one in enumerate(asks):
        if units[at] > one.min:
            assert all((units[at] - 1) / weights[at] <= level for level in able)


@given(st.data(), st.sampled_from(sorted(POLICIES)))
def test_no_room_is_left_that_a_free_job_could_take(data: Any, policy: str) -> None:
    jobs = data.draw(st.integers(1, 4))
    known = [data.draw(st.booleans()) for _ in range(jobs)]
    table = Table(data.draw(concave(jobs, 10)).falls, known)
    asks = [ask_of(at, 1, data.draw(st.integers(1, 10)), lever=FREE, known=known[at]) for at in range(jobs)]
    room = jobs + data.draw(st.integers(0, 40))
    units = POLICIES[policy].split(asks, table, {"cpu_milli": room * 1000})
    assert sum(units) == min(room, sum(one.max for one in asks))


@given(st.data())
def test_the_guard_mends_any_split(data: Any) -> None:
    jobs = data.draw(st.integers(0, 4))
    asks = [
        ask_of(at, low, low + data.draw(st.integers(0, 8)), grain=data.draw(st.integers(1, 3)))
        for at, low in enumerate(data.draw(st.integers(1, 4)) for _ in range(jobs))
    ]
    wild = [data.draw(st.integers(-5, 30)) for _ in range(jobs)]
    room = data.draw(st.integers(0, 40))
    mended = clamp(asks, wild, {"cpu_milli": room * 1000})
    for one, size in zip(asks, mended, strict=True):
        assert one.min <= size <= one.max
        assert (size - one.min) % one.grain == 0
    assert sum(mended) <= max(room, sum(one.min for one in asks))
    assert clamp(asks, mended, {"cpu_milli": room * 1000}) == mended


@given(st.data())
def test_a_job_of_which_nothing_is_known_keeps_what_it_holds_under_a_lever_that_costs(data: Any) -> None:
    held = [data.draw(st.integers(1, 8)) for _ in range(3)]
    table = Table(data.draw(concave(3, 8)).falls, [False, True, True])
    asks = [ask_of(at, 1, 8, held=held[at], lever=COSTLY, known=at > 0) for at in range(3)]
    units = POLICIES["slaq"].split(
        asks, table, {"cpu_milli": 1000 * (sum(held) + data.draw(st.integers(0, 8)))}
    )
    assert units[0] == held[0]


# what one user does at another's cost


class Machine:
    """One room and what several users do with it; its jobs do what they are told."""

    def __init__(self, units: int) -> None:
        self.units = units
        self.jobs: list[Job] = []
        self.made = 0

    def add(self, user: int, low: int, more: int, *, waits: bool, uses: int, lever: Lever) -> None:
        self.made += 1
        job = Job(
            key=JobKey("t", str(self.made), 0),
            name="job",
            owner=Owner(user, str(user)),
            state=State.WAITING if waits else State.RUNNING,
            pool="all",
            tag=Tag(),
            lever=lever,
            unit={"cpu_milli": 10},
            sizes=Sizes(low, low + more),
            held=0 if waits else uses,
            submitted=float(self.made),
        )
        self.jobs.append(job)

    def end(self, at: int) -> None:
        del self.jobs[at % len(self.jobs)]

    def pause(self, at: int) -> None:
        job = self.jobs[at % len(self.jobs)]
        gap = None if job.gap else "paused by request: it keeps what it has"
        self.jobs[at % len(self.jobs)] = msgspec.structs.replace(job, gap=gap)

    def shown(self) -> Snapshot:
        return Snapshot(1.0, "x", {"all": {"cpu_milli": 10 * self.units}}, tuple(self.jobs))

    def obey(self, plan: Plan) -> None:
        now = {job.key: job for job in self.jobs}
        for action in reconcile(plan, self.shown(), CAPABILITIES, "1"):
            assert not isinstance(action, Restore)
            now[action.key] = msgspec.structs.replace(
                now[action.key], state=State.RUNNING, held=action.units, target=action.units
            )
        self.jobs = list(now.values())

    def users(self) -> set[int]:
        return {job.owner.uid for job in self.jobs if job.gap is None or _is_kept(job)}

    def room(self) -> int:
        """Give what is there beside the jobs that slaqd neither holds nor plans."""
        outside = [job.held for job in self.jobs if job.gap is not None and job.target is None]
        return max(0, self.units - sum(outside))

    def even_share(self) -> int:
        return self.room() // max(1, len(self.users()))

    def taken(self, user: int) -> int:
        """Count what a user's running jobs take of the share at most: minimums, or what they keep or use."""
        return sum(
            job.held if _is_kept(job) else max(job.sizes.min, 0 if job.target else job.held)
            for job in self.jobs
            if job.owner.uid == user and job.state is State.RUNNING and (job.gap is None or _is_kept(job))
        )

    def firsts(self) -> list[Job]:
        """Give the first of each user's jobs that wait."""
        queue = [job for job in self.jobs if job.state is State.WAITING and job.gap is None]
        return list({job.owner.uid: job for job in reversed(queue)}.values())


def _is_kept(job: Job) -> bool:
    return job.gap is not None and job.held > 0 and job.target is not None


EVENTS = st.one_of(
    st.tuples(
        st.just("add"),
        st.integers(1, 4),
        st.sampled_from([1, 1, 2, 3, 5, 8, 12, 16, 30, 10**6]),
        st.sampled_from([0, 0, 5, 30]),
        st.booleans() | st.just(value=True),
        st.integers(0, 30),
        st.sampled_from([Lever.CPUS, Lever.REQUEUE]),
    ),
    st.tuples(st.just("end"), st.integers(0, 20)),
    st.tuples(st.just("pause"), st.integers(0, 20)),
    st.tuples(st.just("room"), st.integers(0, 40)),
)


def happen(machine: Machine, event: Any) -> None:
    match event:
        case ("add", user, low, more, waits, uses, lever):
            machine.add(user, low, more, waits=waits, uses=uses, lever=lever)
        case ("room", units):
            machine.units = units
        case (what, at) if machine.jobs:
            getattr(machine, what)(at)


def check_owed(machine: Machine, plan: Plan) -> None:
    """Fail where somebody waits for what is within an even share and fits beside what others must have."""
    users = machine.users()
    let_in = [job.sizes.min for job in machine.jobs if job.state is State.WAITING and units_of(plan, job) > 0]
    free = machine.room() - sum(map(machine.taken, users)) - sum(let_in)
    for job in machine.firsts():
        owed = machine.taken(job.owner.uid) + job.sizes.min <= machine.even_share()
        if len(users) > 1 and owed and not units_of(plan, job):
            assert free < job.sizes.min
            assert not beyond(machine, plan)


def beyond(machine: Machine, plan: Plan) -> list[int]:
    """List the users of whom something was let in, or adopted and taken up, although it's beyond a share."""
    new, sums = set(), dict.fromkeys(machine.users(), 0)
    for job in machine.jobs:
        if _is_kept(job):
            sums[job.owner.uid] += job.held
        elif job.gap is None and units_of(plan, job):
            sums[job.owner.uid] += job.sizes.min
            new |= set() if job.target else {job.owner.uid}
    return [uid for uid in new if sums[uid] > machine.even_share()]


def check_not_more(machine: Machine, plan: Plan) -> None:
    """Fail where more is above the room than what running jobs must have, or anything is let in above it."""
    least = let_in = 0
    for job in machine.jobs:
        if _is_kept(job):
            least += job.held
        elif job.gap is None and units_of(plan, job):
            least += job.sizes.min
            let_in += job.state is State.WAITING
    held = sum(units_of(plan, job) for job in machine.jobs if job.gap is None or _is_kept(job))
    assert held <= max(machine.room(), least)
    assert not let_in or least <= machine.room()


def units_of(plan: Plan, job: Job) -> int:
    return next(one.units for one in plan.allocations if one.key == job.key)


@given(st.integers(1, 40), st.lists(EVENTS, max_size=25), st.sampled_from(sorted(POLICIES)))
def test_a_first_minimum_within_an_even_share_goes_before_whatever_others_want_beyond_theirs(
    units: int, events: list[Any], policy: str
) -> None:
    """And nothing is ever let in above the room."""
    machine = Machine(units)
    for event in events:
        happen(machine, event)
        snapshot = machine.shown()
        table = Table(np.cumsum(np.ones((len(machine.jobs), 50)), axis=1))
        plan = make_plan(snapshot, table, CAPABILITIES, policy)
        check_owed(machine, plan)
        check_not_more(machine, plan)
        machine.obey(plan)
