"""Write down, act, write down what came back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from slaqd.act.journal import Journal
from slaqd.adapter import Adapter
from slaqd.clock import Clock
from slaqd.errors import AdapterError, StateError
from slaqd.types import Action, JobKey, Outcome, Refused, Snapshot, Struct, Unknown

OLDEST_CYCLES = 2
_SHORTEST_S = 1.0  # of a cycle: fsync and a busy machine need their time, however short the epoch is


class Done(Struct, frozen=True):
    """One action with what came back."""

    action: Action
    outcome: Outcome


def stale(snapshot: Snapshot, now: float, cycle_s: float) -> str:
    """Say why a snapshot is too old to act on; empty where it isn't.

    Parameters
    ----------
    snapshot
        Whose ``taken_at`` is looked at.
    now
        Monotonic time in seconds.
    cycle_s
        From one cycle to the next; taken for a second where it is less.

    """
    age, oldest = now - snapshot.taken_at, OLDEST_CYCLES * max(cycle_s, _SHORTEST_S)
    if 0.0 <= age <= oldest:
        return ""
    if age > oldest:
        return f"the snapshot is {age:.1f} s old, more than two cycles ({oldest:g} s)"
    return "the snapshot is of no time that has been: the adapter's clock is wrong"


def execute(
    adapter: Adapter,
    journal: Journal,
    clock: Clock,
    actions: Sequence[Action],
    before: Mapping[JobKey, int | None],
    uids: Mapping[JobKey, int],
    deadline: float,
    bar: Callable[[], str] = lambda: "",
) -> tuple[Done, ...]:
    """Ask the manager for ``actions``; journalled before and after.

    ``before`` gives what each job was held to and ``uids`` whose it is, for the journal:
    an owner is told of those acts alone that bear her uid. Whatever the adapter leaves
    unanswered is `Unknown`: the next snapshot tells. ``bar`` is asked
    last of all, when only the act itself is left: where it gives a reason, nothing is
    asked of the manager.

    Raises
    ------
    StateError
        The intents can't be written down; nothing was asked then.

    """
    if not actions:
        return ()
    journal.intend(actions, before, clock.wall(), uids)
    why = bar()
    barred = [Refused(why, retry=True)] * len(actions)
    outcomes = barred if why else _ask(adapter, actions, deadline)
    done = tuple(Done(action, outcome) for action, outcome in zip(actions, outcomes, strict=True))
    with suppress(StateError):  # it is done; an intent without its outcome reads as unknown
        journal.record([(item.action.id, item.outcome) for item in done], clock.wall())
    return done


def refusals(done: Sequence[Done]) -> list[str]:
    """Say in words what went wrong, with the job; what is unknown and left without a word is passed over."""
    return [
        f"job {item.action.key.id}: {item.outcome.why}"
        for item in done
        if isinstance(item.outcome, Refused) or (isinstance(item.outcome, Unknown) and item.outcome.why)
    ]


def _ask(adapter: Adapter, actions: Sequence[Action], deadline: float) -> list[Outcome]:
    try:
        outcomes = list(adapter.apply(actions, deadline))
    except (AdapterError, StateError) as error:
        return [Unknown(str(error))] * len(actions)
    missing = len(actions) - len(outcomes)
    return outcomes[: len(actions)] + [Unknown("the adapter gave no answer")] * missing
