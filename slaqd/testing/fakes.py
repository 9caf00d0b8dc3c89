"""A clock, a store, and a manager of memory with its adapter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slaqd.adapter import AsUser, Capabilities, LeverSpec, Registration, Store
from slaqd.clock import Clock
from slaqd.errors import AdapterUnavailable, JobGone
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Finding,
    Job,
    JobKey,
    Lever,
    Outcome,
    Owner,
    Refused,
    Resources,
    Restore,
    SetUnits,
    Severity,
    Sizes,
    Snapshot,
    State,
    Struct,
    Unknown,
)


class ManualClock:
    """A clock that stands still until told otherwise. Sleeping moves it on."""

    def __init__(self, monotonic: float = 1000.0, wall: float = 1_772_424_000.0) -> None:
        self._monotonic = monotonic
        self._wall = wall

    def monotonic(self) -> float:
        """See `slaqd.clock.Clock.monotonic`."""
        return self._monotonic

    def wall(self) -> float:
        """See `slaqd.clock.Clock.wall`."""
        return self._wall

    def sleep(self, seconds: float) -> None:
        """See `slaqd.clock.Clock.sleep`."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self._monotonic += seconds
        self._wall += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock on or back, as an administrator or NTP does."""
        self._wall += seconds


class MemoryStore:
    """A `Store` that forgets everything with the process."""

    def __init__(self, registrations: Iterable[Registration] = ()) -> None:
        self._registrations = {each.key: each for each in registrations}
        self._notes: dict[JobKey, dict[str, str]] = {}

    def register(self, registration: Registration) -> None:
        """Add a job, or replace it."""
        self._registrations[registration.key] = registration

    def end(self, key: JobKey) -> None:
        """Close a registration, as the core does with a job that has ended."""
        self._registrations.pop(key, None)
        self.forget(key)

    def registrations(self) -> Sequence[Registration]:
        """See `Store.registrations`."""
        return tuple(self._registrations.values())

    def note(self, key: JobKey, name: str, value: str) -> None:
        """See `Store.note`."""
        self._notes.setdefault(key, {})[name] = value

    def note_all(self, notes: Sequence[tuple[JobKey, str, str]]) -> None:
        """See `Store.note_all`."""
        for key, name, value in notes:
            self.note(key, name, value)

    def notes(self, key: JobKey) -> Mapping[str, str]:
        """See `Store.notes`."""
        return dict(self._notes.get(key, {}))

    def all_notes(self) -> Mapping[JobKey, Mapping[str, str]]:
        """See `Store.all_notes`."""
        return {key: dict(notes) for key, notes in self._notes.items()}

    def forget(self, key: JobKey) -> None:
        """See `Store.forget`."""
        self._notes.pop(key, None)


class FakeConfig(Struct, frozen=True):
    """The section of the fake: how many units there are, and of which size."""

    units: int = 10
    unit_milli: int = 100


class FakeManager:
    """A resource manager of memory; it lives on while its adapters come and go.

    Tests turn it: ``down`` makes snapshots fail, ``gaps`` make them partial,
    ``refuses`` has the words with which acts on a job are refused, and with
    ``mute`` acts are done but their answers are lost.
    """

    def __init__(self) -> None:
        self.incarnation = "fake-1"
        self.down: str | None = None
        self.gaps: tuple[str, ...] = ()
        self.refuses: dict[JobKey, str] = {}
        self.mute = False
        self.held: dict[JobKey, int] = {}
        self.admitted: set[JobKey] = set()
        self.restored: set[JobKey] = set()
        self.ended: set[JobKey] = set()
        self.wants: dict[JobKey, int] = {}
        self.cpu_seconds: dict[JobKey, float] = {}
        self.job_gaps: dict[JobKey, str] = {}
        self.overheads: dict[JobKey, Resources] = {}
        self.acts: list[Action] = []

    def do(self, action: Action) -> None:
        """Take an action."""
        self.acts.append(action)
        if isinstance(action, Restore):
            self.held.pop(action.key, None)
            self.restored.add(action.key)
            return
        self.restored.discard(action.key)
        self.held[action.key] = action.units
        if isinstance(action, Admit):
            self.admitted.add(action.key)


class FakeAdapter:
    """An adapter for a `FakeManager`. Its one pool is called ``fake``."""

    Config = FakeConfig

    def __init__(
        self,
        config: FakeConfig,
        clock: Clock,
        store: Store,
        as_user: AsUser | None = None,
        manager: FakeManager | None = None,
    ) -> None:
        del as_user
        self.manager = manager or FakeManager()
        self.closed: bool | None = None
        self._config = config
        self._clock = clock
        self._store = store

    def check(self) -> Sequence[Finding]:
        """See `Adapter.check`."""
        return (Finding(Severity.OK, f"a manager of memory with {self._config.units} units"),)

    def owner(self, key: JobKey) -> Owner:
        """See `Adapter.owner`."""
        registration = self._registered().get(key)
        if registration is None or key in self.manager.ended:
            msg = f"job {key} is gone"
            raise JobGone(msg)
        return registration.owner

    def capabilities(self) -> Capabilities:
        """See `Adapter.capabilities`."""
        levers = {Lever.NONE: LeverSpec(), Lever.CPUS: LeverSpec()}
        return Capabilities(levers=levers, min_epoch_s=0.0, actions_per_s=1e6)

    def snapshot(self, deadline: float) -> Snapshot:
        """See `Adapter.snapshot`."""
        at = self._clock.monotonic()
        if self.manager.down is not None or at > deadline:
            raise AdapterUnavailable(self.manager.down or "the deadline has passed")
        return Snapshot(
            taken_at=at,
            incarnation=self.manager.incarnation,
            pools={"fake": {"cpu_milli": self._config.units * self._config.unit_milli}},
            jobs=tuple(self._row(each) for each in self._registered().values()),
            gaps=self.manager.gaps,
        )

    def apply(self, actions: Sequence[Action], deadline: float) -> Sequence[Outcome]:
        """See `Adapter.apply`."""
        return [self._one(action, deadline) for action in actions]

    def close(self, *, restore: bool) -> None:
        """See `Adapter.close`."""
        self.closed = restore
        if restore:
            self.manager.held.clear()

    def _registered(self) -> dict[JobKey, Registration]:
        return {each.key: each for each in self._store.registrations()}

    def _state(self, registration: Registration) -> State:
        key, manager = registration.key, self.manager
        if key in manager.ended:
            return State.ENDED
        free = not registration.waits or key in manager.admitted or key in manager.restored
        return State.RUNNING if free else State.WAITING

    def _one(self, action: Action, deadline: float) -> Outcome:
        why = self._bars(action, deadline)
        if why is not None:
            return why
        self.manager.do(action)
        return Unknown("the answer was lost") if self.manager.mute else Accepted()

    def _bars(self, action: Action, deadline: float) -> Refused | None:
        registration = self._registered().get(action.key)
        if self._clock.monotonic() > deadline:
            return Refused("the deadline has passed", retry=True)
        if registration is None or action.key in self.manager.ended:
            return Refused(f"no such job: {action.key}")
        if action.incarnation != self.manager.incarnation:
            return Refused("the manager has been started anew")
        if action.key in self.manager.refuses:
            return Refused(self.manager.refuses[action.key], retry=True)
        if isinstance(action, SetUnits) and self._row(registration).lever is Lever.NONE:
            return Refused("its lever is none")
        return None

    def _row(self, registration: Registration) -> Job:
        key, manager, tag = registration.key, self.manager, registration.tag
        state = self._state(registration)
        held = manager.held.get(key) if state is State.RUNNING else None
        return Job(
            key=key,
            name=registration.name,
            owner=registration.owner,
            state=state,
            pool="fake",
            tag=tag,
            lever=Lever.NONE if tag.lever is Lever.NONE else Lever.CPUS,
            unit={"cpu_milli": self._config.unit_milli},
            sizes=Sizes(min=tag.min or 1, max=tag.max or self._config.units),
            held=held or 0,
            cwd=registration.cwd,
            submitted=registration.submitted,
            target=held,
            wants=manager.wants.get(key),
            cpu_seconds=manager.cpu_seconds.get(key),
            gap=manager.job_gaps.get(key),
            overhead=manager.overheads.get(key, {}),
        )
