"""What the loop counts of itself; needs no library, and costs the same whether anybody looks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import get_args

import msgspec

from slaqd.errors import AdapterError, StateError
from slaqd.types import Action, Outcome, Struct

BOUNDS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds in seconds of the buckets in which cycles are counted; one more is above them all."""

KINDS = tuple(str(kind.__struct_config__.tag) for kind in get_args(Action))
OUTCOMES = tuple(str(kind.__struct_config__.tag) for kind in get_args(Outcome))


class Result(StrEnum):
    """How a cycle ended, worst last: well, or with whom the fault lay."""

    OK = "ok"
    JOURNAL = "journal"
    MANAGER = "manager"
    FAULT = "fault"


class Counts(Struct, frozen=True):
    """What was counted from the start to the end of the last cycle.

    ``buckets`` holds one number per bucket (not summed up). ``last_success`` is wall
    time, 0 before the first cycle that ended well. ``actions`` is by kind and outcome.
    ``journal_whole`` is False while a journal that was damaged waits for an admin's word,
    ``config_good`` while a newer configuration was refused.
    """

    cycles: Mapping[Result, int] = msgspec.field(default_factory=lambda: dict.fromkeys(Result, 0))
    buckets: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    seconds: float = 0.0
    last_success: float = 0.0
    actions: Mapping[tuple[str, str], int] = msgspec.field(
        default_factory=lambda: {(kind, outcome): 0 for kind in KINDS for outcome in OUTCOMES}
    )
    manager_up: bool = True
    journal_writable: bool = True
    journal_whole: bool = True
    enforcing: bool = False
    paused: bool = False
    halted: bool = False
    config_good: bool = True


class Tally:
    """Kept by the loop's own thread; actions are counted by whoever holds its lock."""

    def __init__(self) -> None:
        self._cycles = dict.fromkeys(Result, 0)
        self._buckets = [0] * (len(BOUNDS_S) + 1)
        self._seconds = 0.0
        self._last_success = 0.0
        self._actions = dict(Counts().actions)
        self._failures: set[Result] = set()
        self._brakes = (False, False, False)
        self._journal_whole = True

    def begin(self) -> None:
        """Forget what went wrong in the cycle before."""
        self._failures.clear()

    def blame(self, error: Exception) -> None:
        """Note what went wrong in this cycle, by whose fault it was."""
        manager, journal = isinstance(error, AdapterError), isinstance(error, StateError)
        self._failures.add(Result.MANAGER if manager else Result.JOURNAL if journal else Result.FAULT)

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Go on with the cycle where the journal can't be written in this block; its fault is noted."""
        try:
            yield
        except StateError as error:
            self.blame(error)

    def action(self, action: Action, outcome: Outcome) -> None:
        """Count one action and what came of it."""
        kind, said = (str(thing.__struct_config__.tag) for thing in (action, outcome))
        self._actions[kind, said] += 1

    def brakes(self, *, enforcing: bool, paused: bool, halted: bool, journal_whole: bool) -> None:
        """Note whether slaqd may act."""
        self._brakes = (enforcing, paused, halted)
        self._journal_whole = journal_whole

    def end(self, seconds: float, now: float, *, config_good: bool) -> Counts:
        """Count the cycle, which took ``seconds`` and ends at wall time ``now``; give all counts."""
        result = next((each for each in reversed(Result) if each in self._failures), Result.OK)
        self._cycles[result] += 1
        self._buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self._seconds += seconds
        if result is Result.OK:
            self._last_success = now
        enforcing, paused, halted = self._brakes
        return Counts(
            cycles=dict(self._cycles),
            buckets=tuple(self._buckets),
            seconds=self._seconds,
            last_success=self._last_success,
            actions=dict(self._actions),
            manager_up=Result.MANAGER not in self._failures,
            journal_writable=Result.JOURNAL not in self._failures,
            journal_whole=self._journal_whole,
            enforcing=enforcing,
            paused=paused,
            halted=halted,
            config_good=config_good,
        )
