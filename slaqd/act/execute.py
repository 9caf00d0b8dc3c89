"""Write down, act, write down what came back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from slaqd.act.journal import Journal
from slaqd.adapter import Adapter
from slaqd.clock import Clock
from slaqd.errors import AdapterError, StateError
from slaqd.types import Action, JobKey, Outcome, Refused, Struct, Unknown


class Done(Struct, frozen=True):
    """One action with what came back."""

    action: Action
    outcome: Outcome


def execute(
    adapter: Adapter,
    journal: Journal,
    clock: Clock,
    actions: Sequence[Action],
    before: Mapping[JobKey, int | None],
    deadline: float,
    bar: Callable[[], str] = lambda: "",
    uids: Mapping[JobKey, int] | None = None,
) -> tuple[Done, ...]:
    """Ask the manager for ``actions``; journalled before and after.

    ``before`` gives what each job was held to and ``uids`` whose it is, for the journal. Whatever the
    adapter leaves unanswered is `Unknown`: the next snapshot tells. ``bar`` is asked
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


def _ask(adapter: Adapter, actions: Sequence[Action], deadline: float) -> list[Outcome]:
    try:
        outcomes = list(adapter.apply(actions, deadline))
    except (AdapterError, StateError) as error:
        return [Unknown(str(error))] * len(actions)
    missing = len(actions) - len(outcomes)
    return outcomes[: len(actions)] + [Unknown("the adapter gave no answer")] * missing
