"""One process that has numpy and the trainings loaded, and forks a job for each order.

    python -m slaqd.demo.nursery [--socket PATH]

Importing numpy costs a tenth of a CPU second, which at a fiftieth of a core is five
seconds; a forked job starts with all of it done. Orders come on standard input and
news goes to standard output, one JSON object a line::

    {"name":"svm-03","kind":"svm","seed":7,"size":1.1,"log":"/tmp/svm-03.jsonl"}
    {"name":"svm-03","pid":71,"started":1772424000.0}
    {"name":"svm-03","pid":71,"exit":0,"cpu_seconds":8.1,"startup_cpu_seconds":0.02,"ended":1772424090.0}

A job leads a process group of its own. At the end of its input the nursery waits for
its jobs; on SIGTERM, SIGINT or its parent's death it kills them, and they die with it
however it dies.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from slaqd.client import Client, await_admission, start_ticks
from slaqd.demo import ONE_THREAD
from slaqd.errors import DaemonUnreachable
from slaqd.types import Struct, Tag
from slaqd.wire import RegisterArgs, Registered, Verb

POLL_S = 0.1
PATIENCE_S = 30.0
_PR_SET_PDEATHSIG = 1
_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})


class Order(Struct, frozen=True):
    """One job to start: a kind of training, its seed and size, and where it logs.

    ``max`` is the most units it asks slaqd for; None leaves that to slaqd.
    """

    name: str
    kind: str
    seed: int
    size: float
    log: str
    max: int | None = None


class Started(Struct, frozen=True):
    """News: a job was forked, at wall time ``started``."""

    name: str
    pid: int
    started: float


class Ended(Struct, frozen=True):
    """News: a job is over. ``exit`` is negative where a signal ended it.

    ``cpu_seconds`` is what the system counted, ``startup_cpu_seconds`` the part before
    the first iteration (None if it did not get there).
    """

    name: str
    pid: int
    exit: int
    cpu_seconds: float
    startup_cpu_seconds: float | None
    ended: float


class Rejected(Struct, frozen=True):
    """News: an order made no sense; ``name`` is empty where not even that could be read."""

    name: str
    error: str


News = Started | Ended | Rejected
Begin = Callable[[str, int, float], Iterator[float]]
Enter = Callable[[Order, Path | None], None]


def enter(order: Order, socket: Path | None) -> None:
    """Register this process with the slaqd on ``socket``, and wait until it is admitted.

    Does nothing without a socket.

    Raises
    ------
    ControlError
        slaqd refuses, or none has answered for `PATIENCE_S`.
    """
    if socket is None:
        return
    client = Client(socket)
    registered = _register(client, order)
    if registered.wait:
        await_admission(client, registered.job, POLL_S, lambda _reason: None)


def _register(client: Client, order: Order) -> Registered:
    pid, log = os.getpid(), Path(order.log).absolute()
    args = RegisterArgs(
        pgid=pid,
        start=start_ticks(pid),
        # Relative to its folder, whose name may hold what a tag's log takes for a pattern.
        tag=Tag(log=log.name, key="loss", min=1, max=order.max),
        name=order.name,
        cwd=str(log.parent),
        waits=True,
    )
    patience = time.monotonic() + PATIENCE_S
    while True:
        try:
            return client.ask(Verb.REGISTER, Registered, args)
        except DaemonUnreachable:
            if time.monotonic() > patience:
                raise
            time.sleep(POLL_S)


def work(losses: Iterator[float], log: int, started: Callable[[], None]) -> None:
    """Train, and append one line per logged iteration to the file descriptor ``log``.

    ``started`` is called when the loss at the start is known, before any training.
    """
    for step, loss in enumerate(losses):
        os.write(log, msgspec.json.encode({"step": step, "loss": loss, "time": time.time()}) + b"\n")
        if step == 0:
            started()


@dataclass(frozen=True)
class Child:
    """A running job: its name, and the pipe on which it tells its start-up's CPU."""

    name: str
    told: int


class Nursery:
    """Forks jobs and tells of them.

    Parameters
    ----------
    socket
        The control socket on which jobs register themselves; None: they don't.
    begin
        Gives the losses of a training by kind, seed and size, and computes none of them yet.
    admit
        What a job calls after its fork and before any work of its own.
    """

    def __init__(self, socket: Path | None, begin: Begin, admit: Enter = enter) -> None:
        self._socket, self._begin, self._admit = socket, begin, admit
        self._children: dict[int, Child] = {}
        self._over = False
        self._half = b""

    def run(self, orders: int) -> int:
        """Serve the orders on the file descriptor ``orders`` until they end, and wait for the jobs."""
        wake = self._watch_signals()
        with selectors.DefaultSelector() as ready:
            ready.register(orders, selectors.EVENT_READ)
            ready.register(wake, selectors.EVENT_READ)
            while not self._over and (self._children or orders in ready.get_map()):
                woken = {key.fd for key, _ in ready.select()}
                if wake in woken:
                    os.read(wake, 4096)
                    self._reap(os.WNOHANG)
                if orders in woken and not self._read(orders):
                    ready.unregister(orders)
        self._kill()
        return 0

    def _watch_signals(self) -> int:
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        return wake

    def _stop(self, *_: object) -> None:
        self._over = True

    def _read(self, orders: int) -> bool:
        """Start what has been ordered; False at the end of the orders."""
        chunk = os.read(orders, 65536)
        *lines, self._half = (self._half + chunk).split(b"\n")
        for line in lines:
            self._take(line)
        return bool(chunk)

    def _take(self, line: bytes) -> None:
        name = ""
        try:
            order = msgspec.json.decode(line, type=Order)
            name = order.name
            losses = self._begin(order.kind, order.seed, order.size)
            log = os.open(order.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except (msgspec.MsgspecError, OSError, ValueError) as error:
            _say(Rejected(name=name, error=str(error)))
            return
        self._fork(order, losses, log)
        os.close(log)

    def _fork(self, order: Order, losses: Iterator[float], log: int) -> None:
        told, tell = os.pipe2(os.O_CLOEXEC)
        parent, moment = os.getpid(), time.time()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._live(order, losses, log, tell, parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(tell)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        self._children[pid] = Child(order.name, told)
        _say(Started(name=order.name, pid=pid, started=moment))

    def _live(self, order: Order, losses: Iterator[float], log: int, tell: int, parent: int) -> NoReturn:
        """Be the job, from its fork to its exit."""
        code = 1
        try:
            os.setpgid(0, 0)
            _die_with(parent, signal.SIGKILL)
            _forget_signals()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            self._admit(order, self._socket)
            work(losses, log, lambda: _tell(tell, time.process_time()))
            code = 0
        except BaseException:  # noqa: BLE001 - nothing may return into the parent's loop
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _reap(self, options: int) -> None:
        for pid, child in list(self._children.items()):
            done, status, usage = os.wait4(pid, options)
            if done:
                del self._children[pid]
                with os.fdopen(child.told, "rb") as told:
                    startup = told.read()
                news = Ended(
                    name=child.name,
                    pid=pid,
                    exit=os.waitstatus_to_exitcode(status),
                    cpu_seconds=usage.ru_utime + usage.ru_stime,
                    startup_cpu_seconds=float(startup) if startup else None,
                    ended=time.time(),
                )
                _say(news)

    def _kill(self) -> None:
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self._reap(0)


def _tell(pipe: int, seconds: float) -> None:
    os.write(pipe, repr(seconds).encode())
    os.close(pipe)


def _say(news: News) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, msgspec.json.encode(news) + b"\n")


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _die_with(parent: int, number: signal.Signals) -> None:
    """Ask the kernel for ``number`` when the parent dies (prctl(2), PR_SET_PDEATHSIG)."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def main(words: Sequence[str]) -> int:
    """Run the nursery until its orders end."""
    parent = os.getppid()
    parser = argparse.ArgumentParser(
        prog="python -m slaqd.demo.nursery", description="Forks the demo's jobs."
    )
    parser.add_argument("--socket", type=Path, help="slaqd's control socket; without it jobs start at once")
    said = parser.parse_args(words)
    os.environ.update(ONE_THREAD)

    from slaqd.demo.trainings import begin  # noqa: PLC0415 - numpy reads ONE_THREAD when it is imported

    nursery = Nursery(said.socket, begin)
    _die_with(parent, signal.SIGTERM)
    gc.collect()
    gc.disable()
    gc.freeze()
    return nursery.run(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
