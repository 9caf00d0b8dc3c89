"""The processes of one run: a slaqd with its own state, and a nursery of trainings."""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from slaqd.client import Client
from slaqd.errors import ControlError, SlaqdError
from slaqd.wire import JobView, StatusView, Verb

_PR_SET_PDEATHSIG = 1
_READY_S = 30.0
_STOP_S = 20.0
_RESPITE_S = 2.0

CONFIG = """# made by slaqctl demo
[slaqd]
mode = "enforce"
adapter = "local"
epoch_s = {epoch_s}
state_dir = {state}
socket = {socket}

[policy]
name = "{policy}"

[adapter.local]
unit_milli = {unit_milli}
cores = {cores}
"""


class DemoError(SlaqdError):
    """The demo can't go on."""


def dies_with_me(number: int = signal.SIGTERM) -> Callable[[], None]:
    """Give a pre-exec function: the child gets a signal when this process is gone (prctl(2))."""
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number))

    return ask


class Daemon:
    """One slaqd; if it is killed, it is started again as a service manager would.

    Parameters
    ----------
    directory
        Where its configuration, state and log are written.
    policy, epoch_s, unit_milli, cores
        Settings of its configuration.

    """

    def __init__(self, directory: Path, policy: str, epoch_s: float, unit_milli: int, cores: float) -> None:
        self._sockets = tempfile.TemporaryDirectory(prefix="slaqd-demo-")
        socket = Path(self._sockets.name) / "slaqd.sock"
        self.state = directory / "state"
        self.config = directory / "slaqd.toml"
        self.config.write_text(
            CONFIG.format(
                epoch_s=epoch_s,
                state=json.dumps(str(self.state)),
                socket=json.dumps(str(socket)),
                policy=policy,
                unit_milli=unit_milli,
                cores=cores,
            ),
            encoding="utf-8",
        )
        self.socket = socket
        self._unit_milli = unit_milli
        self.client = Client(socket)
        self._log = (directory / "slaqd.log").open("ab")
        self._process = self._start()
        self._gone: float | None = None
        self._ready()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "slaqd.daemon", "--config", str(self.config)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=dies_with_me(),  # noqa: PLW1509 - one system call, no lock taken
        )

    def _ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            with suppress(ControlError):
                if self.status().cycles:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        msg = f"slaqd did not start; see {self._log.name}"
        raise DemoError(msg)

    def status(self) -> StatusView:
        """Ask how it is."""
        return self.client.ask(Verb.STATUS, StatusView)

    def jobs(self) -> list[JobView]:
        """Ask for all jobs; start slaqd again if it is gone and nobody else did."""
        try:
            views = self.client.ask(Verb.JOBS, list[JobView])
        except ControlError:
            self._revive()
            return []
        self._gone = None
        return views

    def room(self) -> int:
        """Ask how many units its jobs may hold together; 0 if it can't be asked now."""
        with suppress(ControlError):
            return self.status().pools.get("local", {}).get("cpu_milli", 0) // self._unit_milli
        return 0

    def _revive(self) -> None:
        now = time.monotonic()
        self._gone = self._gone or now
        if self._process.poll() is not None and now - self._gone > _RESPITE_S:
            self._process = self._start()
            self._gone = None

    def stop(self) -> None:
        """End it gracefully, whoever started the one that runs now."""
        pid = None
        with suppress(ControlError):
            pid = self.status().pid
        if pid not in (None, self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(int(pid or 0), signal.SIGTERM)
        _end(self._process)
        self._log.close()
        self._sockets.cleanup()


class Nursery:
    """The process that forks the trainings; says what becomes of them.

    ``starts`` and ``ends`` hold the newest message of each job, by its name.
    """

    def __init__(self, directory: Path, socket: Path | None) -> None:
        self._log = (directory / "nursery.log").open("ab")
        where = ["--socket", str(socket)] if socket else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "slaqd.demo.nursery", *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=dies_with_me(),  # noqa: PLW1509 - one system call, no lock taken
        )
        self._messages: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self.starts: dict[str, Mapping[str, Any]] = {}
        self.ends: dict[str, Mapping[str, Any]] = {}
        self._ear = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._ear.start()

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._messages.put(msgspec.json.decode(line))

    def submit(self, request: Mapping[str, Any]) -> None:
        """Ask for one training."""
        pipe = self._process.stdin
        if pipe is None or self._process.poll() is not None:
            msg = f"the trainings' process ended; see {self._log.name}"
            raise DemoError(msg)
        pipe.write(msgspec.json.encode(dict(request)) + b"\n")
        pipe.flush()

    def news(self) -> None:
        """Take in what the nursery has said since. `DemoError` if a training or the nursery failed."""
        self.news_after_end()
        for name, end in self.ends.items():
            if end["exit"]:
                msg = f"training {name} ended with {end['exit']}; see {self._log.name}"
                raise DemoError(msg)
        if self._process.poll() is not None and len(self.ends) < len(self.starts):
            msg = f"the trainings' process ended; see {self._log.name}"
            raise DemoError(msg)

    def news_after_end(self) -> None:
        """Take in what it said, whether it still runs or not."""
        while not self._messages.empty():
            message = self._messages.get()
            if "error" in message:
                raise DemoError(f"training {message['name']}: {message['error']}")
            (self.ends if "exit" in message else self.starts)[str(message["name"])] = message

    def stop(self) -> None:
        """End all trainings."""
        _end(self._process)
        self._ear.join(_STOP_S)
        self._log.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
