"""Puts the daemon together: lock, journal, adapter, loop, socket; and takes it apart."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import structlog

import slaqd
from slaqd.act import Journal, open_journal
from slaqd.act.follow import FollowFiles
from slaqd.adapter import Adapter, AsUser, installed, load
from slaqd.agent.client import Agent
from slaqd.agent.oneself import Oneself
from slaqd.allocate import POLICIES
from slaqd.clock import Clock, SystemClock
from slaqd.config import Config, adapter_config, place
from slaqd.daemon import checks
from slaqd.daemon.exporter import Exporter, places
from slaqd.daemon.loop import Loop, Parts
from slaqd.daemon.renew import renewed
from slaqd.daemon.server import Server
from slaqd.daemon.state import state
from slaqd.daemon.verbs import Verbs
from slaqd.errors import ConfigError
from slaqd.hangup import HangUp
from slaqd.notify import Notify
from slaqd.types import Severity

JOURNAL = "journal.sqlite"

log = structlog.get_logger("slaqd")


def check_config(config: Config) -> None:
    """Look at everything in a configuration that can be judged without acting.

    Raises
    ------
    ConfigError
        A section, the adapter's name or the policy's name is wrong.

    """
    if config.policy.name not in POLICIES:
        known = ", ".join(POLICIES)
        msg = f"{place(config, 'policy', 'name')}: no policy is called {config.policy.name!r}; known: {known}"
        raise ConfigError(msg)
    name = config.slaqd.adapter
    try:
        create = load(name)
    except ConfigError as error:
        msg = f"{place(config, 'slaqd', 'adapter')}: {error}"
        raise ConfigError(msg) from error
    adapter_config(config, name, create.Config)
    places(config)
    for stranger in sorted(set(config.adapter) - installed()):
        msg = f"{place(config, 'adapter', stranger)}: no adapter of this name is installed"
        raise ConfigError(msg)


def make_adapter(config: Config, clock: Clock, journal: Journal, as_user: AsUser) -> Adapter:
    """Load the adapter that the configuration names, and make it; the lever ``file`` is the core's own."""
    create = load(config.slaqd.adapter)
    section = adapter_config(config, config.slaqd.adapter, create.Config)
    return FollowFiles(create(section, clock, journal, as_user), as_user, journal, clock)


def serve(
    config: Config,
    *,
    once: bool = False,
    again: Callable[[], Config] | None = None,
    hang_up: HangUp | None = None,
) -> None:
    """Run the daemon until SIGTERM or SIGINT; with ``once``, for a single cycle.

    On SIGHUP the configuration is read anew, by ``again``; before the first cycle where ``hang_up``
    has heard it already. A graceful stop gives every job free CPU again. Raises `SlaqdError` where the
    daemon can't start.
    """
    check_config(config)
    clock = SystemClock()
    with state(Path(config.slaqd.state_dir)) as directory:
        journal = open_journal(directory / JOURNAL, clock.wall())
        agent = Agent(config.agent.socket) if config.agent.socket else None
        try:
            parts = Parts(
                config=config,
                clock=clock,
                adapter=make_adapter(config, clock, journal, agent or Oneself()),
                journal=journal,
                run=journal.begin_run(clock.wall()),
            )
            _serve(parts, agent, once=once, again=again, hang_up=hang_up)
        finally:
            journal.close()
            if agent is not None:
                agent.close()


def _serve(
    parts: Parts,
    agent: Agent | None = None,
    *,
    once: bool,
    again: Callable[[], Config] | None = None,
    hang_up: HangUp | None = None,
) -> None:
    notify = Notify()

    def finished(sentence: str) -> None:
        notify.cycle(f"{sentence}; not in use: {loop.config_error}" if loop.config_error else sentence)
        exporter.tell()

    loop = Loop(parts, finished, agent)
    section = parts.config.slaqd
    log.info(
        "slaqd starts",
        version=slaqd.__version__,
        mode=section.mode.value,
        policy=parts.config.policy.name,
        adapter=section.adapter,
        state_dir=section.state_dir,
    )
    for finding in (*checks.of_config(parts.config), *checks.of_names(parts.config), *parts.adapter.check()):
        level = log.info if finding.severity is Severity.OK else log.warning
        level(finding.what, **({"do": finding.do} if finding.do else {}))
    if once:
        exporter = Exporter(lambda: loop.config, lambda: loop.view, listen=False)
        loop.once()
        exporter.close(stays=True)
        parts.adapter.close(restore=False)
        return
    everybody = agent is not None
    server = Server(Path(section.socket), Verbs(parts, loop, everybody=everybody).answer, everybody=everybody)
    exporter = Exporter(lambda: loop.config, lambda: loop.view)
    # Around the end too: an impatient second Ctrl-C must not leave jobs under quota.
    with _signals(loop, lambda: _reread(loop, notify, again), hang_up or HangUp()):
        try:
            notify.patience(section.epoch_s)
            notify.ready()
            loop.run()
        finally:
            notify.stopping()
            server.close()
            loop.let_go()
            exporter.close()
            log.info("slaqd stops: jobs go on")


def _reread(loop: Loop, notify: Notify, again: Callable[[], Config] | None) -> Config:
    """Read the configuration anew, between two cycles. ConfigError where it can't be used."""
    if again is None:
        return loop.config
    notify.reloading()
    try:
        new = again()
        check_config(new)
        new = renewed(loop.config, new)
        notify.patience(new.slaqd.epoch_s)
        return new
    finally:
        notify.ready()


@contextmanager
def _signals(loop: Loop, reread: Callable[[], Config], before_it: HangUp) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        loop.stop()

    def hang_up(_number: int, _frame: FrameType | None) -> None:
        if before_it.closed:
            loop.stop()  # the window was closed, nobody asks to reload
        else:
            loop.reload(reread)

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: hang_up}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    if before_it.asked:
        loop.reload(reread)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
