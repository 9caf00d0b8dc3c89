"""What `slaqctl doctor` finds where no daemon runs: all that one of this configuration would find."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slaqd import tag as tags
from slaqd.act.recover import flaw_of, kept
from slaqd.adapter import Adapter, Registration, load
from slaqd.agent.oneself import Oneself
from slaqd.clock import Clock, SystemClock
from slaqd.config import Config, adapter_config, stop_file
from slaqd.daemon import checks
from slaqd.daemon.brakes import halted
from slaqd.daemon.doctor import of_agent, of_doubt, of_log, of_manager
from slaqd.daemon.service import JOURNAL
from slaqd.daemon.state import is_taken
from slaqd.errors import AdapterError, StateError, TagError
from slaqd.observe import read_log
from slaqd.types import Finding, Health, JobKey, Severity

_LOOK_S = 10.0
_SET_ASIDE = "keep a copy; the next start sets it aside, and acts on nothing before an admin's word"


def of_place(config: Config) -> list[Finding]:
    """Look at everything that a daemon of this configuration would find; change nothing."""
    clock = SystemClock()
    directory = Path(config.slaqd.state_dir)
    return [
        *checks.of_config(config),
        *checks.of_names(config),
        *checks.of_stop(halted(stop_file(config))),
        *checks.of_state(directory),
        *checks.of_socket(Path(config.slaqd.socket)),
        *checks.of_clock(clock),
        *of_agent(config),
        *_manager(config, clock),
        *_journal(directory / JOURNAL),
    ]


class _Blank:
    """A store without jobs, which forgets what it is told: looking must not leave a trace."""

    def registrations(self) -> Sequence[Registration]:
        return ()

    def note(self, key: JobKey, name: str, value: str) -> None:
        del key, name, value

    def note_all(self, notes: Sequence[tuple[JobKey, str, str]]) -> None:
        del notes

    def notes(self, key: JobKey) -> Mapping[str, str]:
        del key
        return {}

    def all_notes(self) -> Mapping[JobKey, Mapping[str, str]]:
        return {}

    def forget(self, key: JobKey) -> None:
        del key


def _manager(config: Config, clock: Clock) -> list[Finding]:
    name = config.slaqd.adapter
    create = load(name)
    adapter = create(adapter_config(config, name, create.Config), clock, _Blank(), Oneself())
    try:
        return _asked(config, name, adapter, clock)
    finally:
        adapter.close(restore=False)


def _asked(config: Config, name: str, adapter: Adapter, clock: Clock) -> list[Finding]:
    try:
        snapshot = adapter.snapshot(clock.monotonic() + _LOOK_S)
        answer = [
            Finding(Severity.OK, f"the manager ({name}) answers: pools {', '.join(snapshot.pools)}"),
            *checks.of_pools(config, snapshot.pools),
        ]
        if snapshot.gaps:
            whole = f"the manager's answer is not whole: {'; '.join(snapshot.gaps)}"
            answer = [Finding(Severity.ERROR, whole, "look at the manager")]
    except AdapterError as error:
        answer = [
            Finding(Severity.ERROR, f"the manager ({name}) does not answer: {error}", "look at the manager")
        ]
    return [*of_manager(adapter), *answer]


def _journal(path: Path) -> list[Finding]:
    taken = is_taken(path.parent)
    try:
        # What a slaqd writes to meanwhile can be read, but would seem broken off now and then.
        flaw = None if taken else flaw_of(path)
        if flaw is not None:
            return [Finding(Severity.ERROR, f"{path}: the journal is damaged: {flaw}", _SET_ASIDE)]
        if not path.exists():
            return []
        jobs, unconfirmed = kept(path)
    except OSError as error:
        unread = f"{path}: the journal can't be read: {error.strerror}"
        return [Finding(Severity.ERROR, unread, "look at the disk and the rights")]
    except StateError as error:
        return [Finding(Severity.ERROR, str(error), "look at the disk and the rights")]
    how = "can be read, and a slaqd holds it" if taken else "is whole"
    whole = Finding(Severity.OK, f"{path}: the journal {how}; jobs in it: {len(jobs)}")
    return [whole, *([of_doubt(unconfirmed)] if unconfirmed else []), *_logs(jobs)]


def _logs(jobs: Iterable[Registration]) -> Iterable[Finding]:
    for job in jobs:
        if job.owner.uid != os.geteuid():  # no user's path is opened with more rights than that user's
            what = f"job {job.key.id}: its log was not looked at: it is {job.owner.name}'s"
            yield Finding(Severity.OK, what, "start slaqd with its agent, and ask again")
            continue
        if job.tag.log is None:
            yield of_log(job.key.id, Health.MISSING.value, "", "no log was named: give --log FILE")
            continue
        try:
            path = tags.expand(job.tag.log, key=job.key, user=job.owner.name, name=job.name, cwd=job.cwd)
        except TagError as error:
            yield of_log(job.key.id, Health.UNREADABLE.value, job.tag.log, str(error))
            continue
        curve = read_log(path, job.tag)
        yield of_log(job.key.id, curve.health.value, curve.path, curve.note)
