"""What a brake does to the cluster beside the cycle: begun while no cycle acts, answered in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import structlog

from slaqd.client import TIMEOUT_S
from slaqd.daemon.loop import Loop
from slaqd.errors import ControlError

T = TypeVar("T")

log = structlog.get_logger("slaqd")

BRAKE_S = TIMEOUT_S - 0.5
"""A brake takes this long at most until it is answered: less than slaqctl waits for the answer."""


def in_time(loop: Loop, what: str, act: Callable[[], T]) -> T:
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
    threading.Thread(target=_do, args=(loop, given, act), daemon=True, name="in time").start()
    wait([given], BRAKE_S)
    if given.cancel():
        msg = f"slaqd is busy with a cycle or another brake; {what} is paused already: ask again"
        raise ControlError("refused", msg)
    if not given.done():
        given.add_done_callback(_tell)
        msg = f"slaqd is still giving back what jobs had; {what} is paused already: see slaqctl jobs"
        raise ControlError("refused", msg)
    return given.result()


def _do(loop: Loop, given: Future[T], act: Callable[[], T]) -> None:
    with loop.between_acts(BRAKE_S) as free:
        if not free or not given.set_running_or_notify_cancel():
            return
        try:
            given.set_result(act())
        except Exception as error:  # noqa: BLE001 - it is raised where it is asked for
            given.set_exception(error)


def _tell(given: Future[T]) -> None:
    """Log what became of an act whose asker has been answered before its end."""
    error = given.exception()
    if error is not None:
        log.error("a brake that took long has failed", error=str(error), exc_info=error)
