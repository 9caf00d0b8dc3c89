"""Restores and drops jobs, and tells what happened, without a daemon, from the journal alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from slaqd.act import Journal, execute, open_journal, refusals
from slaqd.act.past import Ask, read_past
from slaqd.adapter import Adapter, AsUser
from slaqd.agent.client import Agent
from slaqd.agent.oneself import Oneself
from slaqd.clock import Clock, SystemClock
from slaqd.config import Config
from slaqd.daemon.service import JOURNAL, make_adapter
from slaqd.daemon.state import state
from slaqd.errors import AdapterRefused, StateError
from slaqd.types import JobKey, Restore, State
from slaqd.wire import EventView

_APPLY_S = 30.0


def restore_offline(config: Config, job: str | None) -> int:
    """Give one job, or all, back what they had; say how many that were.

    They stay paused for the daemon that comes after. Raises `AlreadyRunning` where
    a daemon holds the state, `AdapterRefused` with the reasons where a job could
    not be restored, `StateError` where the state can't be looked into.
    """
    with _left(config) as journal:
        return 0 if journal is None else len(_give_back(config, journal, job, "slaqctl restore"))


def drop_offline(config: Config, job: str) -> bool:
    """Give a job back what it had, and forget it; say whether the journal knew it.

    Raises as `restore_offline` does; the job is known still, and paused, then.
    """
    with _left(config) as journal:
        known = [] if journal is None else [one.key for one in journal.registrations() if one.key.id == job]
        if journal is None or not known:
            return False
        _give_back(config, journal, job, "slaqctl drop")
        for key in known:
            journal.drop(key)
        return True


def past_offline(config: Config, job: str | None, since: float) -> list[EventView]:
    """Tell what happened, from the journal alone, changing nothing.

    Raises `StateError` as `slaqd.act.past.read_past` does.
    """
    return read_past(Path(config.slaqd.state_dir) / JOURNAL, Ask(job=job, since=since))


def _is_there(journal: Path) -> bool:
    try:
        journal.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        msg = f"{journal}: the journal can't be looked for: {error.strerror}"
        raise StateError(msg) from error
    return True


@contextmanager
def _left(config: Config) -> Iterator[Journal | None]:
    """Hold the journal that a daemon left, and its state; None where there is none."""
    directory = Path(config.slaqd.state_dir)
    if not _is_there(directory / JOURNAL):
        yield None
        return
    with (
        state(directory, left=True),
        closing(open_journal(directory / JOURNAL, SystemClock().wall())) as journal,
    ):
        yield journal


def _give_back(config: Config, journal: Journal, job: str | None, why: str) -> Sequence[JobKey]:
    clock = SystemClock()
    adapter = make_adapter(config, clock, journal, _as_user(config))
    try:
        return _restored(adapter, journal, clock, job, why)
    finally:
        adapter.close(restore=False)


def _as_user(config: Config) -> AsUser:
    """Choose who acts in users' names: root can do by itself what the agent would."""
    if config.agent.socket and os.geteuid() != 0:
        return Agent(config.agent.socket)
    return Oneself()


def _restored(
    adapter: Adapter, journal: Journal, clock: Clock, job: str | None, why: str
) -> Sequence[JobKey]:
    deadline = clock.monotonic() + _APPLY_S
    snapshot = adapter.snapshot(deadline)
    jobs = [one for one in snapshot.jobs if one.state is not State.ENDED and job in (None, one.key.id)]
    for one in jobs if job is not None else ():
        journal.pause(one.key, paused=True)
    if job is None and jobs:
        journal.keep_fact("paused", "1")
    run = journal.begin_run(clock.wall(), offline=f"{why}, without a slaqd")
    actions = [
        Restore(id=f"{run}.r-{number}", key=one.key, incarnation=snapshot.incarnation, why=why)
        for number, one in enumerate(jobs)
    ]
    before = {one.key: one.target for one in jobs}
    uids = {one.key: one.owner.uid for one in jobs}
    wrong = refusals(execute(adapter, journal, clock, actions, before, uids, deadline))
    if wrong:
        raise AdapterRefused("; ".join(wrong))
    return [one.key for one in jobs]
