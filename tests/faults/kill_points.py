"""Kills slaqd at its system calls, one after another, and looks what two more cycles make of each.

usage: kill_points.py SCENARIO FOLDER GROUP POINTS SEED

Runs as the first process of PID and mount namespaces of its own, so that it sees no processes but its
own, a run's calls are the same each time, and nothing outlives it. POINTS is how many, drawn by SEED, or
``I/K``: the I-th, from 0, and each K-th after it. Prints JSON lines: one for each point after which
anything was not as it should be, and last the counts.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from killable import World
from slaqd_local.acts import Acts
from slaqd_local.sight import View
from syscalls import Edge, Point, Work, calls, kill, run

from slaqd import adapter, wire
from slaqd.daemon import verbs
from slaqd.daemon.command import main as slaqd
from slaqd.daemon.loop import Loop
from slaqd.types import Action, Outcome, Restore

ACKNOWLEDGED = "acknowledged"
STOOD_STILL_S = 8.0
"""A machine that stands still for so long makes slaqd's own deadlines pass, and its cycles change nothing."""

# To look for adapters is only to read, wherever it is killed: done once, here, for all.
adapter.entry_points = functools.cache(adapter.entry_points)  # type: ignore[attr-defined, assignment]


class Record:
    """What was done to jobs, written down by none of slaqd's own: it outlives every kill."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        really = Acts.one

        def one(acts: Acts, action: Action, view: View | None, boot: str) -> Outcome:
            units = 0 if isinstance(action, Restore) else action.units
            self.add(f"{action.key.id} {type(action).__name__} {units}")
            return really(acts, action, view, boot)

        Acts.one = one  # type: ignore[method-assign, assignment]

    def add(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode("ascii"))

    def clear(self) -> None:
        os.ftruncate(self._file, 0)

    def lines(self) -> list[str]:
        return os.pread(self._file, 1 << 20, 0).decode("ascii").splitlines()

    def acts(self) -> list[str]:
        return [line for line in self.lines() if line != ACKNOWLEDGED]


class Doings:
    """What slaqd is made to do, each in a process of its own."""

    def __init__(self, world: World, record: Record) -> None:
        self._world, self._record = world, record

    def cycle(self) -> None:
        """Run ``slaqd --once``: start, one cycle, end."""
        slaqd(args=["--config", str(self._world.config), "--once"], standalone_mode=False)

    def restore(self, name: str) -> None:
        """Do what a daemon does when ``slaqctl restore`` asks it."""
        self._instead(lambda loop: self._ask(loop, wire.Verb.RESTORE, name))

    def restore_and_stop(self, name: str) -> None:
        """Do the same, and then what a daemon does at SIGTERM."""

        def do(loop: Loop) -> None:
            self._ask(loop, wire.Verb.RESTORE, name)
            loop.let_go()

        self._instead(do)

    def _instead(self, do: Callable[[Loop], None]) -> None:
        """Start slaqd as for a cycle and let it do this instead: what its threads do, without the threads."""

        def once(loop: Loop) -> str:
            do(loop)
            return ""

        Loop.once = once  # type: ignore[method-assign, assignment]
        self.cycle()

    def _ask(self, loop: Loop, verb: wire.Verb, name: str) -> None:
        args = msgspec.Raw(msgspec.json.encode(wire.JobArgs(self._world.keys[name].id)))
        verbs.in_time = lambda _loop, _what, act: act()
        reply = verbs.Verbs(loop._parts, loop).answer(wire.Request(v=1, verb=verb, args=args), os.geteuid())
        assert reply.error is None, reply.error
        self._record.add(ACKNOWLEDGED)


class Scenario(NamedTuple):
    """The work to kill, what its user does where it wasn't acknowledged, whether to kill what follows too."""

    work: Work
    again: Work | None = None
    twice: bool = False


def cycle(world: World, doings: Doings) -> Scenario:
    """Prepare a cycle that admits, adopts, grows, shrinks, gathers, closes an ended job, leaves one alone."""
    for name in ("admitted", "adopted", "shrinks", "ended", "given-back"):
        world.start(name)
    world.start("grows", 2)
    for name, units in (("grows", 5), ("shrinks", 12), ("ended", 6), ("given-back", 3)):
        world.register(name, units)
    assert run(doings.cycle) == 0
    assert run(lambda: doings.restore("given-back")) == 0
    for name, units in (("grows", 12), ("shrinks", 6), ("adopted", 5)):
        world.register(name, units)
    world.register("admitted", 4, waits=True)
    world.leave("grows.1")
    world.end("ended")
    return Scenario(doings.cycle)


def twice(world: World, doings: Doings) -> Scenario:
    """Prepare the same; the start that follows the kill is killed as well, at some call."""
    return cycle(world, doings)._replace(twice=True)


def restore(world: World, doings: Doings) -> Scenario:
    """Prepare ``slaqctl restore`` of one job of three, then a graceful stop, which lets go of the others."""
    for name, units in (("given-back", 3), ("one", 5), ("other", 6)):
        world.start(name, 2)
        world.register(name, units)
    assert run(doings.cycle) == 0
    return Scenario(lambda: doings.restore_and_stop("given-back"), again=lambda: doings.restore("given-back"))


def first(_world: World, doings: Doings) -> Scenario:
    """Prepare nothing: the first start of all makes directory and journal."""
    return Scenario(doings.cycle)


SCENARIOS: dict[str, Callable[[World, Doings], Scenario]] = {
    each.__name__: each for each in (cycle, twice, restore, first)
}


class Judge:
    """Kills at one point after another in one world."""

    def __init__(self, world: World, record: Record, scenario: Scenario, cycle: Work) -> None:
        self._world, self._record, self._scenario, self._cycle = world, record, scenario, cycle
        world.save()
        record.clear()
        assert run(scenario.work) == 0
        self._recover()
        self._good, self.acts = world.seen(), record.acts()
        self._calls = 0

    def count(self) -> list[int]:
        """List the calls that the work makes, by their numbers."""
        self._world.put_back()
        found = calls(self._scenario.work)
        self._calls = len(found)
        return found

    def faults(self, point: Point) -> list[str] | None:
        """Kill there and say what was not as it should be; None where the work ends before."""
        self._world.put_back()
        self._record.clear()
        if not kill(self._scenario.work, point):
            return None
        if self._scenario.twice:
            kill(self._cycle, self._another(point))
        left, asked = self._world.seen(), self._world.actions()
        first, second = self._recover()
        seen, rows = self._world.seen(), self._world.actions()
        return [
            *(
                f"{name}: {apart(seen[name], good)}"
                for name, good in self._good.items()
                if seen[name] != good
            ),
            *(f"in the second cycle: {act}" for act in second),
            *self._doubles(left, first),
            *self._strange(rows, {name for name, _what, _outcome in asked}),
        ]

    def _another(self, point: Point) -> Point:
        draw = random.Random(str(point))  # noqa: S311 - a choice, no secret
        return Point(draw.randint(1, self._calls), draw.choice(list(Edge)))

    def _recover(self) -> tuple[list[str], list[str]]:
        """Ask again what wasn't acknowledged, and cycle twice; give the acts of each."""
        if self._scenario.again is not None and ACKNOWLEDGED not in self._record.lines():
            assert run(self._scenario.again) == 0
        counts = []
        for _ in range(2):
            counts.append(len(self._record.acts()))
            assert run(self._cycle) == 0
        acts = self._record.acts()
        return acts[counts[0] : counts[1]], acts[counts[1] :]

    def _doubles(self, left: dict[str, Any], acts: list[str]) -> Iterator[str]:
        """Find acts on jobs that were already where they should be, and several on one job."""
        for job, number in Counter(act.split()[0] for act in acts).items():
            name = self._world.name_of(job)
            if self._world.of_job(left, name) == self._world.of_job(self._good, name):
                yield f"{name} was acted on although its act was done"
            if number > 1:
                yield f"{name} was acted on {number} times"

    def _strange(self, rows: list[tuple[str, str, str | None]], left: set[str]) -> Iterator[str]:
        """Find acts that nobody wrote down first, others than in an undisturbed run, and unanswered ones."""
        acts = Counter(self._record.acts())
        for act, number in (acts - Counter(what for _name, what, _outcome in rows)).items():
            yield f"{number} of {act!r} not written down"
        # What a kill left half held is adopted where it would have been resized: to the same units.
        ends = {(act.split()[0], act.split()[2]) for act in self.acts}
        for act in acts:
            if (act.split()[0], act.split()[2]) not in ends:
                yield f"{act!r} would not have been"
        for name, what, outcome in rows:
            if outcome != "Accepted" and not (outcome is None and name in left):
                yield f"{what!r} came back as {outcome}"
        if len({name for name, _what, _outcome in rows}) != len(rows):
            yield "one name for two actions"


def apart(seen: Any, good: Any) -> str:
    """Say what is seen and not good, and what is good and not seen."""
    if not isinstance(good, dict | list):
        return f"{seen} and not {good}"
    ones, others = (each.items() if isinstance(each, dict) else each for each in (seen, good))
    more = [one for one in ones if one not in others]
    return f"{more} and not {[other for other in others if other not in ones]}"


def chosen(total: int, points: str, seed: int) -> Iterable[Point]:
    """Give the points to kill at: so many of all, in any order, or a part of all in order."""
    everything = [Point(number, edge) for number in range(1, total + 1) for edge in Edge]
    first, part, parts = points.partition("/")
    if part:
        return everything[int(first) :: int(parts)]
    return random.Random(seed).sample(everything, int(points))  # noqa: S311 - a choice, no secret


def check_edges(path: Path) -> None:
    """See to it that a call that the kill comes before is not done, and one that it comes after is."""
    with path.open("wb", buffering=0) as file:

        def work() -> None:
            file.write(b"x")
            os.getppid()

        for edge, done in ((Edge.BEFORE, 0), (Edge.AFTER, 1)):
            assert kill(work, Point(1, edge))
            assert path.stat().st_size == done, edge


def tried_twice(judge: Judge, point: Point) -> list[str] | None:
    """Kill at a point, and once more where the machine stood still meanwhile: that proves nothing."""
    started = time.monotonic()
    faults = judge.faults(point)
    return judge.faults(point) if faults and time.monotonic() - started > STOOD_STILL_S else faults


def judged(judge: Judge, points: str, seed: int) -> Iterator[Mapping[str, object]]:
    """Kill at the chosen points; tell of each that is faulty, and last the counts."""
    numbers = judge.count()
    tried: Counter[str] = Counter()
    for point in chosen(len(numbers), points, seed):
        faults = tried_twice(judge, point)
        tried["ended before" if faults is None else "faulty" if faults else "good"] += 1
        if faults:
            yield {"point": str(point), "call": numbers[point.number - 1], "faults": faults}
    yield {"calls": len(numbers), "acts": len(judge.acts), **tried}


def main(name: str, folder: Path, group: str, points: str, seed: int) -> None:
    """Do one scenario."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # What a killed process wrote is the kernel's, on any disk: the fastest will do.
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    check_edges(folder / "edges")
    world, record = World(folder, group), Record(folder / "acts")
    try:
        # Nor does it change anything to load what is loaded late: here, and not in each child.
        slaqd(args=["--config", str(world.config), "--check-config"], standalone_mode=False)
        doings = Doings(world, record)
        scenario = SCENARIOS[name](world, doings)
        gc.collect()
        gc.freeze()  # a child that collects would copy every page of this
        judge = Judge(world, record, scenario, doings.cycle)
        for told in judged(judge, points, seed):
            out.write(json.dumps(told) + "\n")
    finally:
        world.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
