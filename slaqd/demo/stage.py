"""One run of the demo: the same arrivals under one policy, recorded from start to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from slaqd.act import Journal
from slaqd.act.journal import ActionRow
from slaqd.demo.cluster import Daemon, DemoError, Nursery
from slaqd.demo.workload import Spec
from slaqd.report.live import LiveRow, LiveState
from slaqd.report.record import JobTrace, Run
from slaqd.types import State
from slaqd.wire import JobView

TOO_LONG = 10.0
"""A run that has not ended after so many arrival windows has failed."""

_POLL_S = 0.25
_LOOK_EVERY = 2


@dataclass(frozen=True)
class Setting:
    """What both runs have in common."""

    specs: Sequence[Spec]
    window_s: float
    epoch_s: float
    unit_milli: int
    cores: float
    most_units: int

    @property
    def unit_cores(self) -> float:
        """Give the size of a unit in cores."""
        return self.unit_milli / 1000.0


@dataclass
class _Progress:
    """What is known of a run while it goes on."""

    started: float
    submitted: dict[str, float] = field(default_factory=dict)
    capacity: list[tuple[float, float]] = field(default_factory=list)
    views: dict[str, JobView] = field(default_factory=dict)


def perform(setting: Setting, policy: str, directory: Path, show: Callable[[LiveState], None]) -> Run:
    """Run the arrivals under ``policy`` until every job has ended, and record it.

    Raises
    ------
    DemoError
        slaqd or the trainings' process can't go on.

    """
    directory.mkdir(parents=True, exist_ok=True)
    daemon = Daemon(directory, policy, setting.epoch_s, setting.unit_milli, setting.cores)
    try:
        nursery = Nursery(directory, daemon.socket)
        try:
            progress = _Progress(started=time.time())
            error = _play(setting, policy, directory, daemon, nursery, progress, show)
        finally:
            nursery.stop()
    finally:
        daemon.stop()
    nursery.news_after_end()
    return _record(setting, policy, directory, daemon, nursery, progress, error)


def _play(
    setting: Setting,
    policy: str,
    directory: Path,
    daemon: Daemon,
    nursery: Nursery,
    progress: _Progress,
    show: Callable[[LiveState], None],
) -> str | None:
    """Submit what is due, look, show; until all have ended or it takes too long."""
    waiting = sorted(setting.specs, key=lambda spec: spec.arrives)
    rounds = 0
    while len(nursery.ends) < len(setting.specs):
        now = time.time() - progress.started
        while waiting and waiting[0].arrives * setting.window_s <= now:
            _submit(waiting.pop(0), setting, directory, nursery, progress)
        nursery.news()
        if rounds % _LOOK_EVERY == 0:
            _look(daemon, progress, now)
        show(_state(setting, policy, nursery, progress, now))
        if now > TOO_LONG * setting.window_s:
            left = len(setting.specs) - len(nursery.ends)
            return f"{left} jobs had not ended after ten times the arrival window ({now:.0f} s)"
        rounds += 1
        time.sleep(_POLL_S)
    return None


def _submit(spec: Spec, setting: Setting, directory: Path, nursery: Nursery, progress: _Progress) -> None:
    progress.submitted[spec.name] = time.time() - progress.started
    request: dict[str, Any] = {
        "name": spec.name,
        "kind": spec.kind,
        "seed": spec.seed,
        "size": spec.size,
        "log": str(directory / f"{spec.name}.jsonl"),
        "max": setting.most_units,
    }
    nursery.submit(request)


def _look(daemon: Daemon, progress: _Progress, now: float) -> None:
    room = daemon.room()
    if room:
        progress.capacity.append((now, float(room)))
    views = daemon.jobs()
    if views:
        progress.views = {view.name: view for view in views}


def _state(setting: Setting, policy: str, nursery: Nursery, progress: _Progress, now: float) -> LiveState:
    rows = [
        _row(spec, nursery, progress.views.get(spec.name))
        for spec in setting.specs
        if spec.name in progress.submitted
    ]
    return LiveState(
        policy=policy,
        elapsed=now,
        progress=len(nursery.ends) / len(setting.specs),
        capacity=int(progress.capacity[-1][1]) if progress.capacity else 0,
        rows=rows,
    )


def _row(spec: Spec, nursery: Nursery, view: JobView | None) -> LiveRow:
    if spec.name in nursery.ends or (view and view.ended is not None):
        return LiveRow(job=spec.name, kind=spec.kind, state=State.ENDED, loss=view.loss if view else None)
    if view is None:
        return LiveRow(job=spec.name, kind=spec.kind, state=State.WAITING)
    return LiveRow(
        job=spec.name,
        kind=spec.kind,
        state=State(view.state),
        units=view.units or 0,
        loss=view.loss,
        fall=view.fall,
    )


def _record(
    setting: Setting,
    policy: str,
    directory: Path,
    daemon: Daemon,
    nursery: Nursery,
    progress: _Progress,
    error: str | None,
) -> Run:
    over = max((float(end["ended"]) for end in nursery.ends.values()), default=time.time())
    held = held_units(daemon.state / "journal.sqlite", progress.started)
    jobs = [
        _trace(spec, directory, nursery, progress, held)
        for spec in setting.specs
        if spec.name in progress.submitted
    ]
    used = sum(job.cpu_seconds for job in jobs)
    return Run(
        policy=policy,
        started=progress.started,
        ended=over,
        window=setting.window_s,
        unit_cores=setting.unit_cores,
        capacity=progress.capacity,
        load=used / (_mean(progress.capacity, setting.window_s) * setting.unit_cores * setting.window_s),
        jobs=jobs,
        error=error,
    )


def _mean(capacity: Sequence[tuple[float, float]], until: float) -> float:
    inside = [units for when, units in capacity if when <= until]
    if not inside:
        msg = "slaqd never said how many units there are"
        raise DemoError(msg)
    return sum(inside) / len(inside)


def held_units(journal: Path, started: float) -> Mapping[str, list[tuple[float, float]]]:
    """Read back from the journal what each job was really held to, and when.

    An act that slaqd was killed in has no outcome. It was done if the next act on the
    job found its units there; of the last one it is taken to have been.
    """
    book = Journal(journal)
    rows: dict[str, list[ActionRow]] = {}
    try:
        for row in book.actions():
            rows.setdefault(row.key.id, []).append(row)
    finally:
        book.close()
    return {job: _steps(acts, started) for job, acts in rows.items()}


def _steps(acts: Sequence[ActionRow], started: float) -> list[tuple[float, float]]:
    later = [*[act.before for act in acts[1:]], None]
    return [
        ((act.intended if act.answered is None else act.answered) - started, float(act.units or 0))
        for act, found in zip(acts, later, strict=True)
        if act.outcome == "Accepted" or (act.outcome is None and found in (None, act.units))
    ]


def _trace(
    spec: Spec,
    directory: Path,
    nursery: Nursery,
    progress: _Progress,
    held: Mapping[str, list[tuple[float, float]]],
) -> JobTrace:
    end = nursery.ends.get(spec.name)
    start = nursery.starts.get(spec.name, {})
    times, losses = read_points(directory / f"{spec.name}.jsonl", progress.started)
    units = held.get(str(start.get("pid")), [])
    ended = float(end["ended"]) - progress.started if end else None
    return JobTrace(
        job=spec.name,
        kind=spec.kind,
        arrived=progress.submitted[spec.name],
        ended=ended,
        times=times,
        losses=losses,
        units=units,
        unit_seconds=unit_seconds(units, ended if ended is not None else time.time() - progress.started),
        cpu_seconds=float(end["cpu_seconds"]) if end else 0.0,
        startup_cpu_seconds=float(end.get("startup_cpu_seconds") or 0.0) if end else 0.0,
    )


def unit_seconds(units: Sequence[tuple[float, float]], until: float) -> float:
    """Integrate a step function of units over time, up to ``until``."""
    ends = [*units, (until, 0.0)]
    return sum(held * max(min(after, until) - since, 0.0) for (since, held), (after, _next) in pairwise(ends))


def read_points(path: Path, started: float) -> tuple[list[float], list[float]]:
    """Read a training's own log: seconds since the run began, and losses."""
    times: list[float] = []
    losses: list[float] = []
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for line in lines:
        if not line.endswith(b"\n"):
            break
        point = msgspec.json.decode(line)
        if isfinite(point["loss"]):
            times.append(point["time"] - started)
            losses.append(point["loss"])
    return times, losses
