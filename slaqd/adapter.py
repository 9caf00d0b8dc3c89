"""The socket for resource managers: what an adapter is and promises.

An adapter is a class with the methods of `Adapter`, made by a function that an
entry point in the group ``slaqd.adapters`` names::

    [project.entry-points."slaqd.adapters"]
    local = "slaqd_local:LocalAdapter"

slaqd imports only the one that the configuration names. ``slaqd.testing`` has the
contract suite that each adapter has to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeVar, cast

from slaqd.clock import Clock
from slaqd.errors import ConfigError
from slaqd.types import Action, Finding, JobKey, Lever, Outcome, Owner, Snapshot, Struct, Tag

GROUP = "slaqd.adapters"
HANDS = "slaqd.hands"

T = TypeVar("T")


class Registration(Struct, frozen=True):
    """A job that its owner told slaqd of, as kept in the journal.

    ``waits`` says that the command waits for its admission (``slaqctl run``); a job
    that already runs (``slaqctl adopt``) has False. ``submitted`` is wall time.
    """

    key: JobKey
    owner: Owner
    tag: Tag
    name: str
    cwd: str
    submitted: float
    waits: bool = False


class LeverSpec(Struct, frozen=True):
    """What a lever costs and how it moves.

    ``up_s``, ``down_s``: seconds until a change shows; ``pause_s``: seconds that the
    job stands still for it. Without ``swap_atomic`` a growth waits until the shrink
    that pays for it is seen.
    """

    up_s: float = 0.0
    down_s: float = 0.0
    pause_s: float = 0.0
    loses_work: bool = False
    batch: bool = True
    swap_atomic: bool = True


class Capabilities(Struct, frozen=True):
    """What an adapter can do."""

    levers: Mapping[Lever, LeverSpec]
    min_epoch_s: float
    actions_per_s: float


class Store(Protocol):
    """The core's durable record, as far as adapters may use it.

    Notes are small strings per job: a lever's steps and the values that were there
    before slaqd changed them. `note` and `note_all` return when it is on disk.
    """

    def registrations(self) -> Sequence[Registration]:
        """List the registered jobs that have not ended, oldest first."""
        ...

    def note(self, key: JobKey, name: str, value: str) -> None:
        """Keep a note, replacing one of the same name."""
        ...

    def note_all(self, notes: Sequence[tuple[JobKey, str, str]]) -> None:
        """Keep many notes, each as key, name and value: all of them, or none."""
        ...

    def notes(self, key: JobKey) -> Mapping[str, str]:
        """Give all notes of a job."""
        ...

    def all_notes(self) -> Mapping[JobKey, Mapping[str, str]]:
        """Give all notes of all jobs; a job without any may be missing."""
        ...

    def forget(self, key: JobKey) -> None:
        """Drop all notes of a job."""
        ...


class AsUser(Protocol):
    """Acts in users' names: the agent where there is one, else this process as itself.

    Paths are absolute; ``root`` is the directory that the job's tree begins at. No
    symbolic link below it is followed, and nothing that belongs to somebody else is
    read or replaced. The agent deals with two names alone: it writes ``target.json``,
    and reads that and ``ack.json``. Methods raise `OSError` where the system says no, in words that
    fit its user, and `slaqd.errors.AgentUnavailable` where the agent doesn't answer.
    """

    @property
    def agent(self) -> bool:
        """Tell whether an agent acts: then adapters change nothing of users' themselves, but ask `hands`."""
        ...

    def put(self, uid: int, root: str, path: str, text: bytes) -> None:
        """Replace a small file of a user's as a whole: written, synced, renamed."""
        ...

    def get(self, uid: int, root: str, path: str) -> bytes | None:
        """Read a small file of a user's; None where there is none."""
        ...

    def hands(self, request: Struct, kind: type[T]) -> T:
        """Have the adapter's own hands do something with the agent's rights; see `Hands`."""
        ...


class Hands(Protocol):
    """What an adapter needs done with the agent's rights: a closed list of verbs of its own.

    Named by an entry point in the group ``slaqd.hands``, made with the adapter's own
    section of the configuration and the least uid whose processes may be touched. It
    runs inside the agent: as root, without any capability that helps but SETUID and
    SETGID. What slaqd asks for is not to be trusted further than it is checked here.
    """

    Request: Any
    """A union of tagged structs: all that can be asked."""

    def do(self, request: Any) -> object:  # noqa: ANN401 - one of its own Request types, unknown here
        """Do it and give what msgspec can encode. OSError where it is refused."""
        ...


class MakeHands(Protocol):
    """The function behind an entry point in ``slaqd.hands``."""

    Config: type[Struct]

    def __call__(self, config: Any, least_uid: int) -> Hands:  # noqa: ANN401 - the adapter's own Config type
        """Make the hands."""
        ...


class Adapter(Protocol):
    """One resource manager.

    Methods raise `slaqd.errors.AdapterError` alone; whatever else escapes is a bug
    that the loop turns into a cycle without an act. `owner` and `capabilities` are
    asked from other threads too, also while another method is at work.
    """

    def check(self) -> Sequence[Finding]:
        """Look at rights and features, at start and for ``slaqctl doctor``; change nothing."""
        ...

    def owner(self, key: JobKey) -> Owner:
        """Ask afresh whose job it is.

        Raises
        ------
        JobGone
            There is no such job now.

        """
        ...

    def capabilities(self) -> Capabilities:
        """Tell what can be done here."""
        ...

    def snapshot(self, deadline: float) -> Snapshot:
        """Look at all jobs in one go, by the monotonic ``deadline``."""
        ...

    def apply(self, actions: Sequence[Action], deadline: float) -> Sequence[Outcome]:
        """Ask for the changes; one outcome each, in order. Targets are absolute, repeats harmless."""
        ...

    def close(self, *, restore: bool) -> None:
        """Let go. With ``restore``, first give every job back what it had.

        Raises
        ------
        AdapterUnavailable
            It has let go, but a job may be held still.

        """
        ...


class Create(Protocol):
    """The function behind the entry point; ``Config`` is its strict section."""

    Config: type[Struct]

    def __call__(self, config: Any, clock: Clock, store: Store, as_user: AsUser) -> Adapter:  # noqa: ANN401 - the adapter's own Config type, unknown here
        """Make the adapter from its own section of the configuration."""
        ...


def load(name: str, found: Callable[..., Sequence[EntryPoint]] | None = None) -> Create:
    """Import the one adapter of that name.

    Raises
    ------
    ConfigError
        No adapter or more than one has the name, or it can't be imported.

    """
    return cast("Create", _load("adapter", "adapters", name, found or _installed))


def load_hands(name: str, found: Callable[..., Sequence[EntryPoint]] | None = None) -> MakeHands | None:
    """Import the hands of the adapter of that name; None where it has none.

    Raises
    ------
    ConfigError
        More than one pair of hands has the name, or they can't be imported.

    """
    named = [point for point in (found or _installed_hands)() if point.name == name]
    return cast("MakeHands", _load("pair of hands", "pairs of hands", name, lambda: named)) if named else None


def installed() -> frozenset[str]:
    """Name the adapters that are installed, importing none."""
    return frozenset(point.name for point in _installed())


def _load(one: str, several: str, name: str, found: Callable[..., Sequence[EntryPoint]]) -> object:
    listed = list(found())
    named = [point for point in listed if point.name == name]
    if not named:
        known = ", ".join(sorted({point.name for point in listed})) or "none"
        msg = f"no {one} is called {name!r}; installed: {known}"
        raise ConfigError(msg)
    if len(named) > 1:
        values = ", ".join(point.value for point in named)
        msg = f"{len(named)} {several} are called {name!r}: {values}; uninstall all but one"
        raise ConfigError(msg)
    try:
        return named[0].load()
    except (ImportError, AttributeError) as error:
        msg = f"{one} {name!r} ({named[0].value}) can't be loaded: {error}"
        raise ConfigError(msg) from error


def _installed() -> Sequence[EntryPoint]:
    return tuple(entry_points(group=GROUP))


def _installed_hands() -> Sequence[EntryPoint]:
    return tuple(entry_points(group=HANDS))
