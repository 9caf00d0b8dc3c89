"""Follows the log and the pace of every running job from cycle to cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import msgspec

from slaqd import tag as tags
from slaqd.act.records import Observation
from slaqd.agent.protocol import Source
from slaqd.daemon.eyes import Eyes, OwnEyes
from slaqd.errors import TagError
from slaqd.predict import Pace
from slaqd.types import Curve, Health, Job, JobKey, Snapshot, State

_CLOCKS_AGREE_S = 60.0
_MOST_HELD = 256
_NO_LOG = Curve(health=Health.MISSING, note="no log was named: give --log FILE (or log= in the tag)")


@dataclass
class _Followed:
    """What is kept of one job between two cycles, and what of it names its log."""

    named: tuple[object, ...]
    source: Source | None
    uid: int
    pace: Pace = field(default_factory=Pace)
    curve: Curve = field(default_factory=Curve)
    held: list[tuple[float, int]] = field(default_factory=list)
    mark: tuple[float, float] | None = None


class Watch:
    """The logs and paces of the jobs of one snapshot after another; ``eyes`` read the logs."""

    def __init__(self, eyes: Eyes | None = None) -> None:
        self._eyes = eyes or OwnEyes()
        self._jobs: dict[JobKey, _Followed] = {}
        self._recalled: dict[JobKey, Observation] = {}
        self._kept: dict[JobKey, Observation] = {}

    def recall(self, observations: Iterable[Observation]) -> None:
        """Take up the paces that were measured before a restart, for logs that are still the same."""
        self._recalled = {one.key: one for one in observations}

    def observations(self) -> list[Observation]:
        """Give what is known of each job, where it is not what was kept last."""
        now = [_observation(key, one) for key, one in self._jobs.items() if one.source]
        return [one for one in now if self._kept.get(one.key) != one]

    def kept(self, observations: Iterable[Observation]) -> None:
        """Note that these are on disk."""
        self._kept.update({one.key: one for one in observations})
        self._kept = {key: one for key, one in self._kept.items() if key in self._jobs}

    def look(self, snapshot: Snapshot, now: float) -> tuple[Sequence[Curve], Sequence[Pace]]:
        """Read what is new of each job's log, and learn its seconds per iteration.

        Parameters
        ----------
        snapshot
            Whose jobs to look at. Jobs that it doesn't show are forgotten.
        now
            Wall time in seconds.

        Returns
        -------
        curves, paces
            One of each per job, in the snapshot's order.

        Raises
        ------
        AgentUnavailable
            No log can be read now.

        """
        self._jobs = {job.key: _follow(job, self._jobs.get(job.key)) for job in snapshot.jobs}
        for key in self._recalled.keys() & self._jobs.keys():
            _take_up(self._jobs[key], self._recalled.pop(key))
        sources = [one.source for one in self._jobs.values() if one.source]
        curves = self._eyes.look(sources, now)
        for job in snapshot.jobs:
            self._learn_of(job, curves, now)
        return self.known(snapshot)

    def known(self, snapshot: Snapshot) -> tuple[Sequence[Curve], Sequence[Pace]]:
        """Give what is known of the jobs that were looked at last, without reading."""
        followed = [self._jobs[job.key] for job in snapshot.jobs]
        return [one.curve for one in followed], [one.pace for one in followed]

    def _learn_of(self, job: Job, curves: Mapping[str, Curve], now: float) -> None:
        one = self._jobs[job.key]
        units = job.held if job.state is State.RUNNING else 0
        if one.source is not None:
            one.curve = curves.get(one.source.job, one.curve)
            _learn(one, now)
        self.hold(job.key, units, now)

    def hold(self, key: JobKey, units: int, now: float) -> None:
        """Note that a job holds ``units`` from ``now`` (wall time) on."""
        one = self._jobs.get(key)
        if one is None or (one.held and one.held[-1][1] == units):
            return
        one.held.append((now, units))
        while len(one.held) > 1 and one.mark is not None and one.held[1][0] <= one.mark[1]:
            one.held.pop(0)
        # A log without points, or with a clock of its own, moves no mark past them.
        del one.held[:-_MOST_HELD]


def _follow(job: Job, before: _Followed | None) -> _Followed:
    """Go on with a job's log; begin anew where its owner has registered it with other words since."""
    tag = job.tag
    named = (tag.log, tag.key, tag.format, tag.better, job.name, job.cwd)
    if before is not None and before.named == named:
        return before
    if tag.log is None:
        return _Followed(named, source=None, uid=job.owner.uid, curve=_NO_LOG)
    try:
        path = tags.expand(tag.log, key=job.key, user=job.owner.name, name=job.name, cwd=job.cwd)
    except TagError as error:
        curve = Curve(health=Health.UNREADABLE, note=str(error))
        return _Followed(named, source=None, uid=job.owner.uid, curve=curve)
    name = f"{job.key.manager}:{job.key.id}:{job.key.start}"
    source = Source(job=name, uid=job.owner.uid, root=job.cwd, path=path, tag=tag)
    return _Followed(named, source=source, uid=job.owner.uid)


def _observation(key: JobKey, one: _Followed) -> Observation:
    named = msgspec.json.encode(one.named).decode()
    points, sums = one.curve.count, one.pace.sums
    if not points:
        return Observation(key, one.uid, named, sums=sums)
    return Observation(key, one.uid, named, points, one.curve.steps[-1], one.curve.losses[-1], sums)


def _take_up(one: _Followed, seen: Observation) -> None:
    if not one.pace.known and seen.named == msgspec.json.encode(one.named).decode():
        one.pace.sums = seen.sums


def _learn(one: _Followed, now: float) -> None:
    """Turn the points since the last look into one sample of seconds per iteration."""
    curve = one.curve
    if not curve.count or not isfinite(curve.seconds[-1]):
        return
    step, seconds = curve.steps[-1], curve.seconds[-1]
    before, one.mark = one.mark, (step, seconds)
    if before is None:
        before = _first_mark(curve)
    steps, took = step - before[0], seconds - before[1]
    if steps <= 0 or took <= 0:
        return
    end = seconds if abs(seconds - now) < _CLOCKS_AGREE_S else now
    units = mean_units(one.held, end - took, end)
    if units > 0:
        one.pace.add(units, took / steps)


def _first_mark(curve: Curve) -> tuple[float, float]:
    return next(
        ((k, t) for k, t in zip(curve.steps, curve.seconds, strict=True) if isfinite(t)),
        (curve.steps[-1], curve.seconds[-1]),
    )


def mean_units(held: Sequence[tuple[float, int]], start: float, end: float) -> float:
    """Average a step function of (wall time, units) over ``start`` to ``end``.

    Work done goes with the time integral of the units, so this is the number of
    units under which an iteration of that length would have taken as long.
    """
    if not held:
        return 0.0
    if end <= start:
        return float(held[-1][1])
    total = 0.0
    for index, (since, units) in enumerate(held):
        until = held[index + 1][0] if index + 1 < len(held) else end
        low = start if index == 0 else max(since, start)
        total += units * max(min(until, end) - low, 0.0)
    return total / (end - start)
