"""What a daemon tells `slaqctl doctor` of itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slaqd.act import Journal
from slaqd.adapter import Adapter
from slaqd.agent.client import Agent
from slaqd.config import Config
from slaqd.daemon import checks
from slaqd.daemon.loop import Loop, Parts
from slaqd.daemon.memory import CONFIRM, FREE_THE_DISK
from slaqd.errors import AdapterError
from slaqd.types import Finding, Health, Mode, Severity, State

_PATIENCE_S = 5.0
_GOOD = frozenset({Health.OK.value, Health.EMPTY.value, ""})


def of_daemon(parts: Parts, loop: Loop) -> list[Finding]:
    """Look at a daemon from inside: the one call that asks the manager waits for a cycle to end."""
    config = loop.config
    live = [view for view in loop.view.jobs.values() if view.state != State.ENDED.value]
    return [
        *checks.of_config(config),
        *checks.of_names(config),
        *(checks.of_pools(config, loop.view.pools) if loop.view.cycles and loop.view.pools else ()),
        *_alarm(parts.journal, loop),
        *_brakes(parts.journal, loop),
        *checks.of_state(Path(config.slaqd.state_dir)),
        *checks.of_socket(Path(config.slaqd.socket)),
        *checks.of_clock(parts.clock, loop.zero),
        *of_agent(config),
        *_last_cycle(loop),
        *_asked(parts.adapter, loop),
        *(of_log(view.job, view.health, view.log, view.note) for view in live),
    ]


def _alarm(journal: Journal, loop: Loop) -> list[Finding]:
    """Say what is wrong with the journal: it was damaged and waits for a word, or can't be written now."""
    if journal.unconfirmed:
        return [of_doubt(journal.unconfirmed)]
    return [Finding(Severity.ERROR, loop.alarm, FREE_THE_DISK)] if loop.alarm else []


def of_doubt(unconfirmed: str) -> Finding:
    """Say that slaqd acts on nothing until an admin has confirmed what became of the journal."""
    return Finding(Severity.ERROR, f"nothing is acted on: {unconfirmed}", CONFIRM)


def _brakes(journal: Journal, loop: Loop) -> list[Finding]:
    found = []
    if loop.config_error:
        what = f"the newest configuration is not in use: {loop.config_error}"
        found.append(Finding(Severity.ERROR, what, "mend it and send SIGHUP, or restart slaqd"))
    found += checks.of_stop(loop.halted)
    if journal.fact("paused") == "1":
        found.append(Finding(Severity.WARNING, "everything is paused", "slaqctl resume"))
    if loop.config.slaqd.mode is Mode.OBSERVE:
        found.append(Finding(Severity.OK, "observing only, as [slaqd] mode says"))
    return found


def of_agent(config: Config) -> list[Finding]:
    """Knock at the agent, where the configuration has one."""
    if not config.agent.socket:
        return []
    agent = Agent(config.agent.socket)
    try:
        return agent.check()
    finally:
        agent.close()


def _last_cycle(loop: Loop) -> list[Finding]:
    view = loop.view
    if not view.cycles:
        return [Finding(Severity.WARNING, "no cycle has ended yet", "ask again in a moment")]
    what = f"cycle {view.cycles}: {view.sentence}"
    if "nothing changed" in view.sentence:
        return [Finding(Severity.ERROR, what, "look at slaqd's log; it goes on by itself once this is over")]
    return [Finding(Severity.OK, what)]


def _asked(adapter: Adapter, loop: Loop) -> Sequence[Finding]:
    with loop.between_acts(_PATIENCE_S) as free:
        if free:
            return of_manager(adapter)
    what = f"a cycle has been under way for more than {_PATIENCE_S:g} s: the manager was not asked"
    return [Finding(Severity.WARNING, what, "ask again; if it stays so, look at the manager")]


def of_manager(adapter: Adapter) -> Sequence[Finding]:
    """Let an adapter look at the rights and features that it needs."""
    try:
        return adapter.check()
    except AdapterError as error:
        return [Finding(Severity.ERROR, f"the manager can't be checked: {error}", "look at the manager")]


def of_log(job: str, health: str, path: str, note: str) -> Finding:
    """Say how a job's log is, and what its owner can do."""
    where = f" {path}" if path and path not in note else ""
    what = f"job {job}: its log{where} is {health or 'not read yet'}{f': {note}' if note else ''}"
    if health in _GOOD:
        return Finding(Severity.OK, what)
    return Finding(Severity.WARNING, what, f"slaqctl read {path}" if path else "register it again with a log")
