"""A real slaqd with many real jobs that do nothing, to be measured from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from slaqd.act import Journal
from slaqd.adapter import Registration
from slaqd.client import Client
from slaqd.errors import DaemonUnreachable
from slaqd.types import JobKey, Owner, Tag
from slaqd.wire import StatusView, Verb

PATIENCE_S = 120.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SLEEPERS = """
import os, signal, sys
pids = []
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        os.close(0)
        os.close(1)
        signal.pause()
    os.setpgid(pid, pid)
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.read()
for pid in pids:
    os.kill(pid, signal.SIGKILL)
"""
"""Runs groups that sleep, tells their pids, and ends them when nobody holds its input any more."""


class Slaqd:
    """One daemon with a journal of its own; jobs are registered there before it starts."""

    def __init__(self, folder: Path, epoch_s: float) -> None:
        self._folder = folder
        self._socket = folder / "run" / "s.sock"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "state").mkdir(mode=0o700)
        self.config = folder / "slaqd.toml"
        self.config.write_text(
            f"[slaqd]\nepoch_s = {epoch_s}\nstate_dir = '{folder}/state'\nsocket = '{self._socket}'\n",
            encoding="utf-8",
        )

    def know(self, keys: Sequence[tuple[int, int]], points: int) -> None:
        """Register jobs by pid and start, each with a log of so many points."""
        owner = Owner(os.getuid(), "bench")
        made = []
        for number, (pid, start) in enumerate(keys):
            path = self._folder / f"{number}.jsonl"
            path.write_text(_log(points, number), encoding="utf-8")
            key = JobKey("local", str(pid), start)
            tag = Tag(log=str(path))
            made.append(Registration(key, owner, tag, f"job{number}", str(self._folder), 1.0 + number))
        journal = Journal(self._folder / "state" / "journal.sqlite")
        journal.take_over(made, ())
        journal.close()

    def start(self) -> float:
        """Start it, and give the seconds until it answered."""
        begun = time.monotonic()
        with (self._folder / "slaqd.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "slaqd.daemon", "--config", str(self.config)], stderr=log
            )
        while True:
            try:
                self.status()
            except DaemonUnreachable:
                self._check(begun)
            else:
                return time.monotonic() - begun
            time.sleep(0.02)

    def status(self) -> StatusView:
        """Ask it how it is."""
        return Client(self._socket, PATIENCE_S).ask(Verb.STATUS, StatusView)

    def reach(self, cycles: int) -> None:
        """Wait until it has done so many cycles."""
        begun = time.monotonic()
        while self.status().cycles < cycles:
            self._check(begun)
            time.sleep(1.0)

    def _check(self, begun: float) -> None:
        if self.process.poll() is not None or time.monotonic() - begun > PATIENCE_S:
            msg = f"slaqd doesn't go on; its log:\n{(self._folder / 'slaqd.log').read_text()[-3000:]}"
            raise RuntimeError(msg)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Give the daemon that was started."""
        assert self._process is not None  # noqa: S101 - for the type checker
        return self._process

    def cpu_seconds(self) -> float:
        """Read the CPU seconds that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_mb(self) -> float:
        """Read what of it stands in memory, in MB of a million bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(text.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process = None


def _log(points: int, number: int) -> str:
    rows = (f'{{"step": {at}, "loss": {1 + (5 + number % 7) / (at + 1)!r}}}\n' for at in range(points))
    return "".join(rows)


@contextmanager
def slaqd(epoch_s: float) -> Iterator[Slaqd]:
    """Give a daemon that is not started yet; it ends with the block."""
    with TemporaryDirectory(prefix="slaqd-bench-") as folder:
        made = Slaqd(Path(folder), epoch_s)
        try:
            yield made
        finally:
            made.stop()


@contextmanager
def sleepers(count: int) -> Iterator[list[tuple[int, int]]]:
    """Run so many process groups that sleep, and give the pid and start of each leader."""
    words = [sys.executable, "-S", "-E", "-c", SLEEPERS, str(count)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as mother:
        assert mother.stdout is not None  # noqa: S101 - for the type checker
        yield [(int(pid), _start(int(pid))) for pid in mother.stdout.readline().split()]


def _start(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
