"""The loop: look, read, predict, split, act, look again. One cycle, one sentence."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import msgspec
import structlog

from slaqd.act import Done, Journal, execute, let_go, reconcile, stale
from slaqd.adapter import Adapter
from slaqd.allocate import make_plan
from slaqd.client import GONE_S
from slaqd.clock import Clock
from slaqd.config import Config, EnforceSection, stop_file
from slaqd.daemon.brakes import braked, free_to_start, halted, observed
from slaqd.daemon.eyes import Eyes
from slaqd.daemon.memory import Memory
from slaqd.daemon.sentence import doubt, rooms, with_alarm
from slaqd.daemon.sentence import sentence as make_sentence
from slaqd.daemon.tally import Tally
from slaqd.daemon.view import View, live_views
from slaqd.daemon.watch import Watch
from slaqd.errors import AdapterError, AdapterUnavailable, AgentUnavailable, ConfigError, StateError
from slaqd.predict import Forecaster, Pace
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Curve,
    Job,
    JobKey,
    Mode,
    Plan,
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

    ``view`` may be read by any thread: it is never changed, but replaced by a new one
    under ``acting``. ``acting`` guards everything that changes the cluster or the journal's
    idea of it; whoever wants to act beside the cycle takes it. ``finished`` is told
    each cycle's sentence when ``view`` is new; it must neither raise nor wait for long.
    """

    def __init__(
        self, parts: Parts, finished: Callable[[str], None] | None = None, eyes: Eyes | None = None
    ) -> None:
        self._parts = parts
        self._finished = finished
        self._watch = Watch(eyes)
        self._forecaster = Forecaster()
        self._memory = Memory(parts.journal, self._watch, parts.clock)
        self._memory.recall()
        self._blind_since: float | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._cycles = 0
        self._shortest_s = 0.0
        self._last: Snapshot | None = None
        self._unheld: set[JobKey] = set()
        self.zero = parts.clock.wall() - parts.clock.monotonic()
        self._tally = Tally()
        self._stop_file = stop_file(parts.config)
        self._news: Callable[[], Config] | None = None
        self.config_error = ""
        self.acting = threading.RLock()
        self.view = View()

    # the brakes

    @property
    def enforcing(self) -> bool:
        """Tell whether slaqd may act now."""
        return self.config.slaqd.mode is Mode.ENFORCE and not self.paused and not self.halted

    @property
    def paused(self) -> bool:
        """Tell whether everything is paused, by request or because the journal was damaged."""
        return self._parts.journal.fact("paused") == "1" or bool(self._parts.journal.unconfirmed)

    @property
    def alarm(self) -> str:
        """Say what an admin should look at: a journal that was damaged, or can't be written now."""
        return doubt(self._parts.journal.unconfirmed) or self._memory.alarm

    @property
    def halted(self) -> str:
        """Say what halts every act: a file, whatever the daemon does. Empty where nothing does."""
        return halted(self._stop_file)

    # the configuration

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self._parts.config

    @property
    def epoch_s(self) -> float:
        """Seconds from one cycle to the next: as configured, but no shorter than the adapter can."""
        return max(self.config.slaqd.epoch_s, self._shortest_s)

    def reload(self, read: Callable[[], Config]) -> None:
        """Ask for a new configuration before the next cycle; ``read`` gives it, or raises why not."""
        self._news = read
        self._wake.set()

    def renew(self) -> None:
        """Take the new configuration, if one was asked for; keep the old one where it is no good."""
        read, self._news = self._news, None
        if read is None:
            return
        try:
            config = read()
        except ConfigError as error:
            self.config_error = str(error)
            log.warning("the new configuration is not used, the old one holds", error=self.config_error)
            return
        with self.acting:
            self._parts = replace(self._parts, config=config)
        self.config_error = ""
        log.info("the configuration was read anew", mode=config.slaqd.mode.value, policy=config.policy.name)

    # running

    def run(self) -> None:
        """Cycle until told to stop, keeping the period; a wish wakes it early."""
        clock = self._parts.clock
        while not self._stop.is_set():
            self.renew()
            self._shortest_s = self._parts.adapter.capabilities().min_epoch_s
            epoch = self.epoch_s
            started = clock.monotonic()
            self.once()
            spent = clock.monotonic() - started
            if spent > epoch:
                log.warning("the cycle took longer than its epoch", seconds=round(spent, 3), epoch_s=epoch)
            self._stop.wait(max(self._shortest_s - spent, 0.0))
            self._wake.wait(max(started + epoch - clock.monotonic(), 0.0))
            self._wake.clear()

    def wake(self) -> None:
        """Ask for a cycle soon."""
        self._wake.set()

    @contextmanager
    def between_acts(self, patience_s: float) -> Iterator[bool]:
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
        self._tally.begin()
        started = self._parts.clock.monotonic()
        try:
            with self.acting:
                sentence = self._cycle()
        except (AdapterError, StateError) as error:
            self._tally.blame(error)
            sentence = f"nothing changed: {error}"
        except Exception as error:
            self._tally.blame(error)
            log.exception("a fault in the cycle", cycle=self._cycles)
            sentence = "nothing changed: a fault of slaqd's own, its trace is in the log"
        with self._tally.blaming():
            self._memory.look_after()
        sentence = with_alarm(sentence, self._memory.alarm)
        self._publish(sentence, started)
        log.info(sentence, cycle=self._cycles)
        if self._finished is not None:
            self._finished(sentence)
        return sentence

    def _publish(self, sentence: str, started: float) -> None:
        """Show the cycle to those who look on from other threads."""
        with suppress(StateError):  # blamed already: what was last known of the brakes stays
            self._tally.brakes(
                enforcing=self.enforcing and not self._memory.alarm,
                paused=self.paused,
                halted=bool(self.halted),
                journal_whole=not self._parts.journal.unconfirmed,
            )
        clock, good = self._parts.clock, not self.config_error
        counts = self._tally.end(clock.monotonic() - started, clock.wall(), config_good=good)
        with self.acting:  # a job may be forgotten beside the cycle, and would be seen again
            self.view = msgspec.structs.replace(
                self.view, sentence=sentence, cycles=self._cycles, counts=counts
            )

    def _cycle(self) -> str:
        parts = self._parts
        snapshot = parts.adapter.snapshot(parts.clock.monotonic() + _SNAPSHOT_S)
        self._unheld &= _unheld(snapshot)
        if snapshot.gaps:
            raise AdapterUnavailable(f"the snapshot is not whole: {'; '.join(snapshot.gaps)}")
        if old := self._too_old(snapshot):
            raise AdapterUnavailable(old)
        paused = parts.journal.paused()
        alone = observed(snapshot, self._lists(), os.geteuid())
        snapshot = braked(snapshot, paused, alone)
        curves, paces, blind = self._see(snapshot)
        outlook = self._forecaster.forecast(curves, paces, self.epoch_s)
        plan = make_plan(snapshot, outlook, parts.adapter.capabilities(), parts.config.policy.name)
        done, brake = ((), blind) if blind else self._act_if_may(plan, snapshot)
        with self._tally.blaming():  # what was done is done; the alarm tells the rest
            self._memory.keep(plan, snapshot)
        free = free_to_start(snapshot, alone)
        admitted = free | {item.action.key for item in done if _let_in(item)}
        views = live_views(snapshot, curves, plan, paused, acting=self._admits, admitted=admitted)
        self._let_start(snapshot, free)
        self._close_ended(snapshot, views)
        self._last = snapshot
        self.view = msgspec.structs.replace(
            self.view, jobs=views, plan=plan, pools=snapshot.pools, room=rooms(snapshot)
        )
        return make_sentence(snapshot, plan, done, brake)

    def _see(self, snapshot: Snapshot) -> tuple[Sequence[Curve], Sequence[Pace], str]:
        """Read the logs. Where nobody can, go by what is known, and say why nothing may be done on it."""
        try:
            curves, paces = self._watch.look(snapshot, self._steady())
        except AgentUnavailable as error:
            self._tally.blame(error)
            if self._blind_since is None:
                self._blind_since = self._parts.clock.monotonic()
            return *self._watch.known(snapshot), f"nothing changed: {error}"
        self._blind_since = None
        return curves, paces, ""

    @property
    def _admits(self) -> bool:
        """Tell whether it is worth a command's while to wait for its admission."""
        since = self._blind_since
        return self.enforcing and (since is None or self._parts.clock.monotonic() - since < GONE_S)

    def _steady(self) -> float:
        """Tell the wall time as it was at the start, gone on since: nobody can turn it."""
        return self.zero + self._parts.clock.monotonic()

    def _lists(self) -> EnforceSection | None:
        """Give the lists of whose jobs may be acted on; None while none may be."""
        return self.config.enforce if self.config.slaqd.mode is Mode.ENFORCE else None

    def _brake(self) -> str:
        if self.config.slaqd.mode is Mode.OBSERVE:
            return "observing only"
        unsure = doubt(self._parts.journal.unconfirmed)
        return self.halted or unsure or ("paused" if self.paused else "")

    def _act_if_may(self, plan: Plan, snapshot: Snapshot) -> tuple[tuple[Done, ...], str]:
        """Act, or give the reason for not acting; a journal that can't be written (full disk) is one."""
        if not self.enforcing:
            return (), self._brake()
        if old := self._too_old(snapshot):  # slaqd was stopped, or its cycles take longer than its epoch
            self._tally.blame(AdapterUnavailable(old))
            return (), f"nothing changed: {old}"
        try:
            return self._act(plan, snapshot), ""
        except StateError as error:
            self._tally.blame(error)
            return (), f"nothing changed: {error}"

    def _act(self, plan: Plan, snapshot: Snapshot) -> tuple[Done, ...]:
        name = f"{self._parts.run}.{self._cycles}"
        actions = reconcile(plan, snapshot, self._parts.adapter.capabilities(), name)
        # Asked once more right before the act: writing down the intents may have taken long.
        return self._execute(actions, snapshot, lambda: self.halted or self._too_old(snapshot))

    def _too_old(self, snapshot: Snapshot) -> str:
        return stale(snapshot, self._parts.clock.monotonic(), self.epoch_s)

    def _execute(
        self, actions: Sequence[Action], snapshot: Snapshot, bar: Callable[[], str] = lambda: ""
    ) -> tuple[Done, ...]:
        if not actions:
            return ()
        parts = self._parts
        self._unheld -= {action.key for action in actions}
        before = {job.key: job.target for job in snapshot.jobs}
        # A job that was registered since the snapshot has an owner too, who is told of what is done to it.
        owners = {known.key: known.owner for known in parts.journal.registrations()}
        owners |= {job.key: job.owner for job in snapshot.jobs}
        uids = {key: owner.uid for key, owner in owners.items()}
        users = {key: owner.name for key, owner in owners.items()}
        deadline = parts.clock.monotonic() + _APPLY_S
        done = execute(parts.adapter, parts.journal, parts.clock, actions, before, uids, deadline, bar)
        for item in done:
            self._tell(item, before.get(item.action.key), users.get(item.action.key, "?"))
        return done

    def _tell(self, done: Done, before: int | None, user: str) -> None:
        action, outcome = done.action, done.outcome
        units = None if isinstance(action, Restore) else action.units
        fields = {"job": action.key.id, "user": user, "from": before, "to": units, "why": action.why}
        fields["cycle"] = self._cycles
        self._tally.action(action, outcome)
        if isinstance(outcome, Accepted):
            log.info(type(action).__name__, **fields)
            self._unheld |= {action.key} if isinstance(action, Restore) else set()
            self._watch.hold(action.key, units or 0, self._steady())
        else:
            event = " ".join([type(action).__name__, type(outcome).__name__.lower()])
            log.warning(event, **fields, error=outcome.why)

    def _let_start(self, snapshot: Snapshot, free: Collection[JobKey]) -> None:
        """Note which commands start unheld, for nobody may admit them now: later they are running jobs."""
        waiting = free if self._admits else [job.key for job in snapshot.jobs if job.state is State.WAITING]
        if waiting:
            with self._tally.blaming():  # a full disk: they start all the same, and the next cycle notes it
                self._parts.journal.let_start(waiting)

    def _close_ended(self, snapshot: Snapshot, views: dict[JobKey, JobView]) -> None:
        """Take jobs that ended out of the views, once the journal has them: it shows them from then on."""
        with self._tally.blaming():
            for key in self._memory.end(snapshot, views):
                del views[key]

    # acts beside the cycle

    def restore(self, keys: Sequence[JobKey], why: str) -> tuple[Done, ...]:
        """Give jobs back what they had. Whoever asks also pauses them, lest they be taken up again.

        Nothing is asked for a job that was given back before, runs unheld, and was no act's object since:
        a snapshot alone wouldn't do, for a hold that broke off half way may not show in it.
        """
        with self.acting:
            snapshot = self._last or self._parts.adapter.snapshot(self._parts.clock.monotonic() + _SNAPSHOT_S)
            name = f"{self._parts.run}.{self._cycles}r{self._parts.clock.monotonic():.6f}"
            actions = [
                Restore(id=f"{name}-{number}", key=key, incarnation=snapshot.incarnation, why=why)
                for number, key in enumerate(keys)
                if key not in self._unheld
            ]
            return self._execute(actions, snapshot)

    def forget(self, key: JobKey) -> None:
        """Know a job no more, from now on. Whoever asks has restored it before."""
        with self.acting:
            self._parts.journal.drop(key)
            jobs = {each: view for each, view in self.view.jobs.items() if each != key}
            self.view = msgspec.structs.replace(self.view, jobs=jobs)

    def let_go(self) -> None:
        """Lift what holds the jobs, as a graceful stop does; a new start takes them up again."""
        with self.acting:
            parts = self._parts
            let_go(parts.adapter, parts.journal, parts.clock, parts.run, self._jobs_now)
            self._memory.close("asked to")

    def _jobs_now(self) -> Sequence[Job]:
        try:
            return self._parts.adapter.snapshot(self._parts.clock.monotonic() + _SNAPSHOT_S).jobs
        except (AdapterError, StateError):
            return self._last.jobs if self._last else ()


def _let_in(done: Done) -> bool:
    return isinstance(done.action, Admit) and isinstance(done.outcome, Accepted)


def _unheld(snapshot: Snapshot) -> set[JobKey]:
    return {job.key for job in snapshot.jobs if job.state is State.RUNNING and job.target is None}
