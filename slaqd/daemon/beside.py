"""What a brake does to the cluster beside the cycle: begun while no cycle acts, answered in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from slaqd.client import TIMEOUT_S
from slaqd.daemon.loop import Loop
from slaqd.errors import ControlError

T = TypeVar("T")

BRAKE_S = TIMEOUT_S - 0.5
"""A brake takes this long at most until it is answered: less than slaqctl waits for the answer."""


def beside(loop: Loop, what: str, act: Callable[[], T]) -> T:
    """Do an act while no cycle acts, and give what it gave.

    Parameters
    ----------
    loop
        Whose cycles are held off.
    what
        What is paused by now, for the refusal.
    act
        Called in a thread of its own.

    Raises
    ------
    ControlError
        ``refused``: within `BRAKE_S` the act did not begin, and won't, or did not end,
        and goes on. Whatever the act raises passes too.

    """
    given: Future[T] = Future()
    threading.Thread(target=_do, args=(loop, given, act), daemon=True, name="beside").start()
    wait([given], BRAKE_S)
    if given.cancel():
        raise _again("slaqd is busy with a cycle", what)
    if not given.done():
        raise _again("slaqd is still giving back what jobs had", what)
    return given.result()


def _do(loop: Loop, given: Future[T], act: Callable[[], T]) -> None:
    with loop.between_acts(BRAKE_S) as free:
        if not free or not given.set_running_or_notify_cancel():
            return
        try:
            given.set_result(act())
        except Exception as error:  # noqa: BLE001 - it is raised where it is asked for
            given.set_exception(error)


def _again(busy: str, what: str) -> ControlError:
    return ControlError("refused", f"{busy}; {what} is paused already: ask again")
