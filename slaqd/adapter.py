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
from typing import Any, Protocol, cast

from slaqd.clock import Clock
from slaqd.errors import ConfigError
from slaqd.types import Action, Finding, JobKey, Lever, Outcome, Owner, Snapshot, Struct, Tag

GROUP = "slaqd.adapters"


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
    before slaqd changed them. `note` returns when the note is on disk.
    """

    def registrations(self) -> Sequence[Registration]:
        """List the registered jobs that have not ended, oldest first."""
        ...

    def note(self, key: JobKey, name: str, value: str) -> None:
        """Keep a note, replacing one of the same name."""
        ...

    def notes(self, key: JobKey) -> Mapping[str, str]:
        """Give all notes of a job."""
        ...

    def forget(self, key: JobKey) -> None:
        """Drop all notes of a job."""
        ...


class AsUser(Protocol):
    """Acts in a user's name; the agent stands behind it where there are several users."""

    def uid(self) -> int:
        """Tell which user this process can act as without help."""
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
        """Let go. With ``restore``, first give every job back what it had."""
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
    listed = list((found or _installed)())
    named = [point for point in listed if point.name == name]
    if not named:
        known = ", ".join(sorted({point.name for point in listed})) or "none"
        msg = f"no adapter is called {name!r}; installed: {known}"
        raise ConfigError(msg)
    if len(named) > 1:
        msg = (
            f"{len(named)} adapters are called {name!r}: "
            + ", ".join(p.value for p in named)
            + "; uninstall all but one"
        )
        raise ConfigError(msg)
    try:
        return cast("Create", named[0].load())
    except (ImportError, AttributeError) as error:
        msg = f"adapter {name!r} ({named[0].value}) can't be loaded: {error}"
        raise ConfigError(msg) from error


def installed() -> frozenset[str]:
    """Name the adapters that are installed, importing none."""
    return frozenset(point.name for point in _installed())


def _installed() -> Sequence[EntryPoint]:
    return tuple(entry_points(group=GROUP))
