"""The wire of the control socket: one JSON line each way.

    {"v":1,"verb":"show","args":{"job":"4711"}}
    {"v":1,"ok":{…}}      or      {"v":1,"error":{"code":"not_found","text":"…"}}

The verbs are a closed list. Codes are words: ``bad_request``, ``not_found``,
``not_permitted``, ``refused``, ``unavailable``, ``busy``, ``version``, ``internal``. Durations are seconds,
times are wall time, units are whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from slaqd.types import Mode, Resources, Struct, Tag

VERSION = 1
MAX_LINE = 64 * 1024

GroupId = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A ``pid_t``."""
Start = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What the journal can hold."""
ExitStatus = Annotated[int, msgspec.Meta(ge=0, le=255)]
"""As a shell says it: 128 + the number where a signal ended the command."""


class Verb(StrEnum):
    """What can be asked."""

    STATUS = "status"
    JOBS = "jobs"
    SHOW = "show"
    PLAN = "plan"
    REGISTER = "register"
    ENDED = "ended"
    PAUSE = "pause"
    RESUME = "resume"
    RESTORE = "restore"
    DROP = "drop"
    DOCTOR = "doctor"
    HISTORY = "history"


class Answer(Struct, frozen=True, forbid_unknown_fields=False):
    """Base of what slaqd answers: a newer one may say more, and wrappers of jobs outlive upgrades."""


class Request(Struct, frozen=True):
    """One question."""

    v: int
    verb: Verb
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Outline(Answer, frozen=True):
    """What can be told of any request, of another version too."""

    v: int
    verb: str = ""


class Failure(Answer, frozen=True):
    """Why not: a word for programs, a sentence for people."""

    code: str
    text: str


class Reply(Answer, frozen=True, omit_defaults=True):
    """One answer: either ``ok`` or ``error``."""

    v: int
    ok: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Failure | None = None


class JobArgs(Struct, frozen=True):
    """Arguments of verbs on one job, or on all where ``job`` is None."""

    job: str | None = None


class NamedJobArgs(Struct, frozen=True):
    """Arguments of verbs on exactly one job."""

    job: str


class HistoryArgs(Struct, frozen=True):
    """Arguments of ``history``: of one job or all, and since when (wall time)."""

    job: str | None = None
    since: float = 0.0


class RegisterArgs(Struct, frozen=True):
    """Arguments of ``register``: a process group of this machine, led by ``pgid``.

    ``start`` is the leader's start in clock ticks since boot (proc(5), field 22).
    ``waits`` says that the command waits for its admission.
    """

    pgid: GroupId
    start: Start
    tag: Tag
    name: str
    cwd: str
    waits: bool = False


class EndedArgs(Struct, frozen=True):
    """Arguments of ``ended``: how a command that ``slaqctl run`` started ended."""

    job: str
    start: Start
    status: ExitStatus


class Registered(Answer, frozen=True):
    """Answer to ``register``: the job's id, and whether to wait for admission."""

    job: str
    wait: bool


class JobView(Answer, frozen=True):
    """One job as slaqctl shows it; a stable form, fields are only ever added.

    ``units`` is what the job is held to (None: held to nothing), ``plan`` what the
    newest plan gives it, ``fall`` the predicted fall of its normalised loss over
    the coming epoch. ``wait`` tells a command that waits whether it still has to.
    """

    job: str
    start: int
    name: str
    user: str
    state: str
    pool: str
    lever: str
    min: int
    max: int
    submitted: float
    units: int | None = None
    plan: int | None = None
    wants: int | None = None
    reason: str = ""
    loss: float | None = None
    step: float | None = None
    points: int = 0
    fall: float | None = None
    log: str = ""
    health: str = ""
    note: str = ""
    cpu_seconds: float | None = None
    paused: bool = False
    wait: bool = False
    ended: float | None = None
    exit_status: int | None = None
    uid: int | None = None


class StatusView(Answer, frozen=True):
    """The daemon in one glance.

    ``halted`` says what halts every act (a file), ``config_error`` why the newest
    configuration is not the one in use, ``alarm`` what an admin should look at; all are
    empty where there is nothing to say.
    """

    version: str
    pid: int
    uid: int
    mode: Mode
    paused: bool
    policy: str
    adapter: str
    epoch_s: float
    started: float
    cycles: int
    sentence: str
    pools: Mapping[str, Resources]
    room: int
    planned: int
    running: int
    waiting: int
    state_dir: str
    config: str
    halted: str = ""
    alarm: str = ""
    config_error: str = ""


class EventView(Answer, frozen=True):
    """One thing that happened at wall time ``at``; ``before`` and ``units`` count units.

    ``what`` is ``registered``, ``planned``, ``observed``, ``ended``, ``paused``, ``resumed``,
    ``started``, ``stopped``, ``set aside``, or the kind of an act (``Admit``, ``Adopt``, ``SetUnits``,
    ``Restore``), which has an ``outcome``.
    """

    at: float
    what: str
    job: str = ""
    uid: int | None = None
    before: int | None = None
    units: int | None = None
    why: str = ""
    outcome: str = ""
    outcome_why: str = ""


class PlanRow(Answer, frozen=True):
    """One job of the newest plan: units now (None: held to nothing) and planned."""

    job: str
    name: str
    now: int | None
    units: int
    fall: float | None
    reason: str


class PlanView(Answer, frozen=True):
    """The newest plan; ``room`` is what slaqd's jobs may hold together, in units."""

    policy: str
    room: int
    rows: tuple[PlanRow, ...]


def encode(message: Struct) -> bytes:
    """Turn a message into its line."""
    return msgspec.json.encode(message) + b"\n"


def ok(value: Any) -> Reply:  # noqa: ANN401 - whatever msgspec can encode
    """Wrap an answer."""
    return Reply(v=VERSION, ok=msgspec.Raw(msgspec.json.encode(value)))


def failure(code: str, text: str) -> Reply:
    """Wrap a refusal."""
    return Reply(v=VERSION, error=Failure(code=code, text=text))
