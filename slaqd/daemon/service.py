"""Puts the daemon together: lock, journal, adapter, loop, socket; and takes it apart."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import structlog

import slaqd
from slaqd.act import Journal
from slaqd.adapter import Adapter, installed, load
from slaqd.allocate import POLICIES
from slaqd.clock import Clock, SystemClock
from slaqd.config import Config, adapter_config, place
from slaqd.daemon.loop import Loop, Parts
from slaqd.daemon.server import Server
from slaqd.daemon.verbs import Verbs
from slaqd.errors import AlreadyRunning, ConfigError, StateError
from slaqd.types import Severity

JOURNAL = "journal.sqlite"

log = structlog.get_logger("slaqd")


class Myself:
    """Acts as the one user slaqd runs as; see `slaqd.adapter.AsUser`."""

    def uid(self) -> int:
        """See `slaqd.adapter.AsUser.uid`."""
        return os.geteuid()


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
    for stranger in sorted(set(config.adapter) - installed()):
        msg = f"{place(config, 'adapter', stranger)}: no adapter of this name is installed"
        raise ConfigError(msg)


@contextmanager
def state(directory: Path) -> Iterator[Path]:
    """Hold the state directory for as long as the daemon lives (flock(2)).

    Raises
    ------
    AlreadyRunning
        Another slaqd holds it.
    StateError
        It can't be made or written.

    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"{directory}: the state directory can't be used: {why}"
        raise StateError(msg) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            msg = f"{directory}: held by another slaqd (pid {_text(lock)}); stop that one first"
            raise AlreadyRunning(msg) from error
        _sign(directory, lock)
        yield directory
    finally:
        os.close(lock)


def _sign(directory: Path, lock: int) -> None:
    try:
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        msg = f"{directory}: the state directory can't be written: {error.strerror}"
        raise StateError(msg) from error


def _text(lock: int) -> str:
    return os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"


def make_adapter(config: Config, clock: Clock, journal: Journal) -> Adapter:
    """Load the adapter that the configuration names, and make it."""
    create = load(config.slaqd.adapter)
    section = adapter_config(config, config.slaqd.adapter, create.Config)
    return create(section, clock, journal, Myself())


def serve(config: Config, *, once: bool = False) -> None:
    """Run the daemon until SIGTERM or SIGINT; with ``once``, for a single cycle.

    A graceful stop gives every job free CPU again. Raises `SlaqdError` where the
    daemon can't start.
    """
    check_config(config)
    clock = SystemClock()
    with state(Path(config.slaqd.state_dir)) as directory:
        journal = Journal(directory / JOURNAL)
        try:
            parts = Parts(
                config=config,
                clock=clock,
                adapter=make_adapter(config, clock, journal),
                journal=journal,
                run=journal.begin_run(clock.wall()),
            )
            _serve(parts, once=once)
        finally:
            journal.close()


def _serve(parts: Parts, *, once: bool) -> None:
    loop = Loop(parts)
    section = parts.config.slaqd
    log.info(
        "slaqd starts",
        version=slaqd.__version__,
        mode=section.mode.value,
        policy=parts.config.policy.name,
        adapter=section.adapter,
        state_dir=section.state_dir,
    )
    for finding in parts.adapter.check():
        level = log.info if finding.severity is Severity.OK else log.warning
        level(finding.what, **({"do": finding.do} if finding.do else {}))
    if once:
        loop.once()
        parts.adapter.close(restore=False)
        return
    server = Server(Path(section.socket), Verbs(parts, loop).answer)
    with _signals(loop):  # around the end too: an impatient second Ctrl-C must not leave jobs under quota
        try:
            loop.run()
        finally:
            server.close()
            loop.let_go()
            log.info("slaqd stops: jobs go on, held to nothing")


@contextmanager
def _signals(loop: Loop) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        loop.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
