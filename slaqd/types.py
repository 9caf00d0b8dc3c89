"""The nouns: what the four verbs hand to one another.

    log file ─▶ Curve ─▶ Forecast ─▶ Plan ─▶ Action ─▶ Outcome
                             ▲          ▲
                  Snapshot ──┴──────────┘

Everything here is immutable and knows nothing of where it came from. Imports
nothing of ours, and no numpy: the processes that parse users' logs load this
module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

Resources = Mapping[str, int]
"""Amounts by name: ``cpu_milli``, ``memory_mb``, ``nodes``. Whole numbers only."""


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all nouns: frozen, compared by value, strict on the wire."""


class Mode(StrEnum):
    """What slaqd may do: only look and show, or also act."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


class Lever(StrEnum):
    """The way in which a job's units can be changed; every job has exactly one."""

    NONE = "none"
    FILE = "file"
    ARRAY = "array"
    POOL = "pool"
    REQUEUE = "requeue"
    NODES = "nodes"
    SERVICE = "service"
    QUEUE = "queue"
    TIER = "tier"
    CPUS = "cpus"


class State(StrEnum):
    """Where a job is in its life, as the manager shows it."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class Better(StrEnum):
    """Which way the tracked number is meant to go."""

    LOWER = "lower"
    HIGHER = "higher"


class JobKey(Struct, frozen=True, order=True):
    """Names one training run. Managers reuse ids, so its start is part of the name.

    ``start`` is in the manager's own terms (seconds since 1970 on Slurm, clock
    ticks since boot on this machine): only equality means anything.
    """

    manager: str
    id: str
    start: int

    def __str__(self) -> str:
        """Show the short form that people type: the manager's id."""
        return self.id


class Owner(Struct, frozen=True):
    """Whose job it is."""

    uid: int
    name: str
    account: str = ""


class Sizes(Struct, frozen=True):
    """The numbers of units a job can hold: ``min`` to ``max`` in steps of ``grain``.

    ``allowed``, where given, lists the only sizes that are possible, ascending.
    """

    min: int = 1
    max: int = 1
    grain: int = 1
    allowed: tuple[int, ...] = ()


class Tag(Struct, frozen=True):
    """What the user says of a job. None means: not said."""

    log: str | None = None
    key: str | None = None
    format: str | None = None
    better: Better | None = None
    min: int | None = None
    max: int | None = None
    weight: float | None = None
    target: float | None = None
    lever: Lever | None = None
    dir: str | None = None
    worker: str | None = None
    grace: float | None = None
    signal: str | None = None
    done: str | None = None


class Part(Struct, frozen=True):
    """One piece of a job: an array task, a worker, a container."""

    id: str
    log: str | None = None


class Job(Struct, frozen=True):
    """A job as the manager shows it at one moment.

    ``held`` and ``target`` count units; ``target`` is None while slaqd does not
    hold the job to anything. ``wants`` is the most units it could use now, None
    if that is not known. ``cpu_seconds`` is what it has really consumed, as read
    from the system, None if the manager does not tell.
    """

    key: JobKey
    name: str
    owner: Owner
    state: State
    pool: str
    tag: Tag
    lever: Lever
    unit: Resources
    sizes: Sizes
    held: int
    cwd: str = ""
    submitted: float = 0.0
    overhead: Resources = {}
    target: int | None = None
    wants: int | None = None
    parts: tuple[Part, ...] = ()
    cpu_seconds: float | None = None
    cannot_grow: str | None = None
    cannot_shrink: str | None = None
    gap: str | None = None


class Snapshot(Struct, frozen=True):
    """What the manager said, whole, with its age.

    ``taken_at`` is monotonic. ``gaps`` say what is missing of the manager's answer
    as a whole: a snapshot with gaps can't be planned on. ``pools`` give what
    slaqd's jobs may hold together in each pool, what they hold now included.
    """

    taken_at: float
    incarnation: str
    pools: Mapping[str, Resources]
    jobs: tuple[Job, ...]
    gaps: tuple[str, ...] = ()


class Health(StrEnum):
    """What can be said of a job's log. Only OK curves are predicted from."""

    OK = "ok"
    EMPTY = "empty"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNKNOWN_FORMAT = "unknown format"
    AMBIGUOUS = "ambiguous"
    DIVERGED = "diverged"


class Curve(Struct, frozen=True):
    """A job's cleaned loss history.

    ``steps``, ``losses`` and ``seconds`` have one length; steps rise strictly,
    losses are finite and lower is better (already turned round where the tag says
    higher), seconds are NaN where the log has no clock. ``first`` and
    ``largest_change`` speak of the whole history, also of what was thinned out;
    ``count`` is the number of points ever logged and kept by the roll-back rule.
    ``note`` is for the user: which file, which line, what to do.
    """

    steps: Sequence[float] = ()
    losses: Sequence[float] = ()
    seconds: Sequence[float] = ()
    count: int = 0
    first: float = 0.0
    lowest: float = 0.0
    largest_change: float = 0.0
    health: Health = Health.EMPTY
    path: str = ""
    note: str = ""


class Allocation(Struct, frozen=True):
    """The units one job is to hold, and why.

    ``units`` is 0 for a job that waits. ``fall`` is the predicted fall of its
    normalised loss over the coming epoch at these units, None if nothing is known.
    """

    key: JobKey
    units: int
    reason: str
    fall: float | None = None


class Plan(Struct, frozen=True):
    """Units per job, made from one snapshot."""

    taken_at: float
    incarnation: str
    policy: str
    allocations: tuple[Allocation, ...]


class Admit(Struct, frozen=True, tag="admit"):
    """Let a waiting job start, held to ``units``."""

    id: str
    key: JobKey
    incarnation: str
    units: int
    why: str = ""


class Adopt(Struct, frozen=True, tag="adopt"):
    """Take a running job into slaqd's hands, held to ``units``."""

    id: str
    key: JobKey
    incarnation: str
    units: int
    why: str = ""


class SetUnits(Struct, frozen=True, tag="set_units"):
    """Hold a job to ``units``: an absolute target. ``give_up`` names parts to end first."""

    id: str
    key: JobKey
    incarnation: str
    units: int
    why: str = ""
    give_up: tuple[str, ...] = ()


class Restore(Struct, frozen=True, tag="restore"):
    """Give a job back what it had before slaqd touched it."""

    id: str
    key: JobKey
    incarnation: str
    why: str = ""


Action = Admit | Adopt | SetUnits | Restore


class Accepted(Struct, frozen=True, tag="accepted"):
    """The manager took the change. Done is what the next snapshot shows."""


class Refused(Struct, frozen=True, tag="refused"):
    """The manager said no. ``retry`` tells whether asking again can help."""

    why: str
    retry: bool = False


class Unknown(Struct, frozen=True, tag="unknown"):
    """No answer came: look again before the next act."""

    why: str


Outcome = Accepted | Refused | Unknown


class Severity(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(Struct, frozen=True):
    """One result of a check: what was seen, and what to do about it."""

    severity: Severity
    what: str
    do: str = ""
