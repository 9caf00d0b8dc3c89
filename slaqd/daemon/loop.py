"""The loop: look, read, predict, split, act, look again. One cycle, one sentence."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec
import structlog

from slaqd.act import Done, Journal, execute, reconcile
from slaqd.adapter import Adapter
from slaqd.allocate import make_plan
from slaqd.clock import Clock
from slaqd.config import Config
from slaqd.daemon.view import View, live_views
from slaqd.daemon.watch import Watch
from slaqd.errors import AdapterError, StateError
from slaqd.predict import forecast
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Job,
    JobKey,
    Mode,
    Plan,
    Refused,
    Resources,
    Restore,
    Snapshot,
    State,
)
from slaqd.wire import JobView

_SNAPSHOT_S = 10.0
_APPLY_S = 10.0

log = structlog.get_logger("slaqd")


@dataclass(frozen=True)
class Parts:
    """What the loop is made of."""

    config: Config
    clock: Clock
    adapter: Adapter
    journal: Journal
    run: int


class Loop:
    """One cycle after another over one adapter.

    ``view`` is replaced whole at the end of each cycle and may be read by any
    thread. ``acting`` guards everything that changes the cluster or the journal's
    idea of it; whoever wants to act beside the cycle takes it.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._watch = Watch()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._cycles = 0
        self._last: Snapshot | None = None
        self._zero = parts.clock.wall() - parts.clock.monotonic()
        self.acting = threading.RLock()
        self.view = View()

    # the brakes

    @property
    def enforcing(self) -> bool:
        """Tell whether slaqd may act now."""
        return self._parts.config.slaqd.mode is Mode.ENFORCE and not self.paused

    @property
    def paused(self) -> bool:
        """Tell whether everything is paused."""
        return self._parts.journal.fact("paused") == "1"

    # running

    def run(self) -> None:
        """Cycle until told to stop, keeping the period; a wish wakes it early."""
        clock, epoch = self._parts.clock, self._parts.config.slaqd.epoch_s
        shortest = min(self._parts.adapter.capabilities().min_epoch_s, epoch)
        while not self._stop.is_set():
            started = clock.monotonic()
            self.once()
            spent = clock.monotonic() - started
            if spent > epoch:
                log.warning("the cycle took longer than its epoch", seconds=round(spent, 3), epoch_s=epoch)
            self._stop.wait(max(shortest - spent, 0.0))
            self._wake.wait(max(started + epoch - clock.monotonic(), 0.0))
            self._wake.clear()

    def wake(self) -> None:
        """Ask for a cycle soon."""
        self._wake.set()

    @contextmanager
    def hands_free(self, patience_s: float) -> Iterator[bool]:
        """Hold off the next act; False if the one that is going on takes longer than ``patience_s``."""
        free = self.acting.acquire(timeout=patience_s)
        try:
            yield free
        finally:
            if free:
                self.acting.release()

    def stop(self) -> None:
        """Ask the loop to end after the cycle it is in."""
        self._stop.set()
        self._wake.set()

    def once(self) -> str:
        """Do one cycle; whatever goes wrong in it, nothing is changed and the loop lives."""
        self._cycles += 1
        try:
            with self.acting:
                sentence = self._cycle()
        except (AdapterError, StateError) as error:
            sentence = f"nothing changed: {error}"
        except Exception:
            log.exception("a fault in the cycle", cycle=self._cycles)
            sentence = "nothing changed: a fault of slaqd's own, its trace is in the log"
        self.view = msgspec.structs.replace(self.view, sentence=sentence, cycles=self._cycles)
        log.info(sentence, cycle=self._cycles)
        return sentence

    def _cycle(self) -> str:
        parts = self._parts
        snapshot = parts.adapter.snapshot(parts.clock.monotonic() + _SNAPSHOT_S)
        if snapshot.gaps:
            return f"nothing changed: the snapshot is not whole: {'; '.join(snapshot.gaps)}"
        paused = parts.journal.paused()
        snapshot = _braked(snapshot, paused)
        curves, paces = self._watch.look(snapshot, self._steady())
        outlook = forecast(curves, paces, parts.config.slaqd.epoch_s)
        plan = make_plan(snapshot, outlook, parts.adapter.capabilities(), parts.config.policy.name)
        done, brake = self._act_if_may(plan, snapshot)
        admitted = frozenset(item.action.key for item in done if _let_in(item))
        views = live_views(snapshot, curves, plan, paused, acting=self.enforcing, admitted=admitted)
        self._let_start(snapshot)
        self._close_ended(snapshot, views)
        self._last = snapshot
        self.view = msgspec.structs.replace(
            self.view, jobs=views, plan=plan, pools=snapshot.pools, room=_rooms(snapshot)
        )
        return _sentence(snapshot, plan, done, brake)

    def _steady(self) -> float:
        """Tell the wall time as it was at the start, gone on since: nobody can turn it."""
        return self._zero + self._parts.clock.monotonic()

    def _brake(self) -> str:
        if self._parts.config.slaqd.mode is Mode.OBSERVE:
            return "observing only"
        return "paused" if self.paused else ""

    def _act_if_may(self, plan: Plan, snapshot: Snapshot) -> tuple[tuple[Done, ...], str]:
        """Act, or give the reason for not acting; a journal that can't be written (full disk) is one."""
        if not self.enforcing:
            return (), self._brake()
        try:
            return self._act(plan, snapshot), ""
        except StateError as error:
            return (), f"nothing changed: {error}"

    def _act(self, plan: Plan, snapshot: Snapshot) -> tuple[Done, ...]:
        name = f"{self._parts.run}.{self._cycles}"
        actions = reconcile(plan, snapshot, self._parts.adapter.capabilities(), name)
        return self._execute(actions, snapshot)

    def _execute(self, actions: Sequence[Action], snapshot: Snapshot) -> tuple[Done, ...]:
        parts = self._parts
        before = {job.key: job.target for job in snapshot.jobs}
        users = {job.key: job.owner.name for job in snapshot.jobs}
        deadline = parts.clock.monotonic() + _APPLY_S
        done = execute(parts.adapter, parts.journal, parts.clock, actions, before, deadline)
        for item in done:
            self._tell(item, before.get(item.action.key), users.get(item.action.key, "?"))
        return done

    def _tell(self, done: Done, before: int | None, user: str) -> None:
        action, outcome = done.action, done.outcome
        units = None if isinstance(action, Restore) else action.units
        fields = {"job": action.key.id, "user": user, "from": before, "to": units, "why": action.why}
        if isinstance(outcome, Accepted):
            log.info(type(action).__name__, **fields, cycle=self._cycles)
            self._watch.hold(action.key, units or 0, self._steady())
        else:
            event = " ".join([type(action).__name__, type(outcome).__name__.lower()])
            log.warning(event, **fields, error=outcome.why)

    def _let_start(self, snapshot: Snapshot) -> None:
        """Note which commands start unheld, for nobody may admit them now: later they are running jobs."""
        waiting = [job.key for job in snapshot.jobs if job.state is State.WAITING]
        if waiting and not self.enforcing:
            with suppress(StateError):  # a full disk: they start all the same, and the next cycle notes it
                self._parts.journal.let_start(waiting)

    def _close_ended(self, snapshot: Snapshot, views: dict[JobKey, JobView]) -> None:
        for job in snapshot.jobs:
            if job.state is State.ENDED:
                last = msgspec.json.encode(views[job.key]).decode()
                try:
                    self._parts.journal.end(job.key, self._parts.clock.wall(), last)
                except StateError as error:
                    log.warning("the journal can't take a job's end yet", job=job.key.id, error=str(error))
                    continue
                del views[job.key]
                log.info("job ended", job=job.key.id, name=job.name, user=job.owner.name)

    # acts beside the cycle

    def restore(self, keys: Sequence[JobKey], why: str) -> tuple[Done, ...]:
        """Give jobs back what they had. Whoever asks also pauses them, lest they be taken up again."""
        with self.acting:
            snapshot = self._last or self._parts.adapter.snapshot(self._parts.clock.monotonic() + _SNAPSHOT_S)
            name = f"{self._parts.run}.{self._cycles}r{self._parts.clock.monotonic():.6f}"
            actions = [
                Restore(id=f"{name}-{number}", key=key, incarnation=snapshot.incarnation, why=why)
                for number, key in enumerate(keys)
            ]
            return self._execute(actions, snapshot)

    def let_go(self) -> None:
        """Lift what holds the jobs, as a graceful stop does; a new start takes them up again."""
        with self.acting:
            parts = self._parts
            held = [job for job in self._jobs_now() if job.target is not None]
            actions = [
                Restore(
                    id=f"{parts.run}.stop-{number}",
                    key=job.key,
                    incarnation="",
                    why="slaqd stops: held to nothing",
                )
                for number, job in enumerate(held)
            ]
            before = {job.key: job.target for job in held}
            with suppress(StateError):  # lifting what holds jobs must not hang on a full disk
                parts.journal.intend(actions, before, parts.clock.wall())
            parts.adapter.close(restore=True)
            with suppress(StateError):  # as above
                parts.journal.record([(action.id, Accepted()) for action in actions], parts.clock.wall())

    def _jobs_now(self) -> Sequence[Job]:
        try:
            return self._parts.adapter.snapshot(self._parts.clock.monotonic() + _SNAPSHOT_S).jobs
        except (AdapterError, StateError):
            return self._last.jobs if self._last else ()


def _braked(snapshot: Snapshot, paused: frozenset[JobKey]) -> Snapshot:
    if not paused:
        return snapshot
    jobs = tuple(
        msgspec.structs.replace(job, gap="paused by request: it keeps what it has")
        if job.key in paused
        else job
        for job in snapshot.jobs
    )
    return msgspec.structs.replace(snapshot, jobs=jobs)


def _let_in(done: Done) -> bool:
    return isinstance(done.action, Admit) and isinstance(done.outcome, Accepted)


def _rooms(snapshot: Snapshot) -> dict[str, int]:
    """Count each pool's room in units of the jobs in it; the smallest unit speaks for all."""
    rooms: dict[str, int] = {}
    for job in snapshot.jobs:
        room = snapshot.pools.get(job.pool, {})
        fits = min((room.get(name, 0) // amount for name, amount in job.unit.items() if amount), default=0)
        rooms[job.pool] = max(rooms.get(job.pool, 0), fits)
    return rooms


def _room_text(rooms: Resources) -> str:
    return str(sum(rooms.values()))


def _sentence(snapshot: Snapshot, plan: Plan, done: Sequence[Done], brake: str) -> str:
    running = sum(job.state is State.RUNNING for job in snapshot.jobs)
    waiting = sum(job.state is State.WAITING for job in snapshot.jobs)
    if not running + waiting:
        return "no jobs" + (f"; {brake}" if brake else "")
    planned = sum(allocation.units for allocation in plan.allocations)
    failed = sum(not isinstance(item.outcome, Accepted) for item in done)
    changes = brake or (
        ("1 change" if len(done) == 1 else f"{len(done)} changes")
        + (f", {failed} of them failed" if failed else "")
    )
    waits = f", {waiting} waiting" if waiting else ""
    return (
        f"{running} jobs running{waits}; {planned} of {_room_text(_rooms(snapshot))} units planned; {changes}"
    )


def refusals(done: Sequence[Done]) -> list[str]:
    """Collect what went wrong, in words."""
    return [
        f"job {item.action.key.id}: {item.outcome.why}"
        for item in done
        if not isinstance(item.outcome, Accepted) and (isinstance(item.outcome, Refused) or item.outcome.why)
    ]
