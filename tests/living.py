"""A real slaqd on this machine with places of its own, and real jobs, for the service and fault tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from slaqd.client import Client
from slaqd.errors import DaemonUnreachable
from slaqd.wire import JobView, StatusView, Verb

T = TypeVar("T")

PATIENCE_S = 60.0
SLAQD = (sys.executable, str(Path(__file__).with_name("steady.py")))
SLAQCTL = (sys.executable, "-c", "from slaqd.cli import main; main()")
BUSY = "while True: pass"
TRAINS = """
import json, sys, time
out = open(sys.argv[1], "a", buffering=1)
for step in range(1, 10_000):
    print(json.dumps({"step": step, "loss": 5 / step + 1, "time": time.time()}), file=out)
    until = time.process_time() + 0.01
    while time.process_time() < until: pass
"""


def wait_for(look: Callable[[], T | None], what: Callable[[], str]) -> T:
    """Look again and again until there is something to see."""
    until = time.monotonic() + PATIENCE_S
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < until, f"it never came to that: {what()}"
        time.sleep(0.05)


class Slaqd:
    """One daemon's places, and the daemon while it runs.

    A unit is a hundredth of a core and there are forty in all, so that the jobs get what
    they are given also on a machine that others keep busy.
    """

    def __init__(
        self,
        folder: Path,
        *,
        mode: str = "enforce",
        policy: str = "fair",
        cores: float = 0.4,
        epoch_s: float = 0.4,
        means: str = "auto",
        state: Path | None = None,
    ) -> None:
        self.folder = folder
        self.state = state or folder / "state"
        self.socket = folder / "run" / "s.sock"
        self.config = folder / "slaqd.toml"
        self.log = folder / "slaqd.log"
        self.env: dict[str, str] = {**os.environ, "NO_COLOR": "1"}
        self.env.pop("SLAQ_TAG", None)
        self.process: subprocess.Popen[bytes] | None = None
        self.started: list[subprocess.Popen[bytes]] = []
        # A group of its own for each slaqd, or tests would find one another's jobs there.
        self.group = f"slaqdtest-{os.getpid()}-{abs(hash(str(folder))) % 10**8}"
        self.config.write_text(
            f"[slaqd]\nmode = '{mode}'\nepoch_s = {epoch_s}\n"
            f"state_dir = '{self.state}'\nsocket = '{self.socket}'\n"
            f"[policy]\nname = '{policy}'\n"
            f"[adapter.local]\nunit_milli = 10\nreserve_milli = 0\ncores = {cores}\n"
            f"means = '{means}'\ncgroup = '{self.group}'\n",
            encoding="utf-8",
        )

    # the daemon

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> Slaqd:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*SLAQD, "--config", str(self.config), *words], stderr=log, env={**self.env, **(env or {})}
            )
        wait_for(self._answers, lambda: f"slaqd answers; its log:\n{self.said()}")
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"slaqd ended at once:\n{self.said()}"
        try:
            self.status()
        except DaemonUnreachable:
            return False
        return True

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self.process = None
        return status

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def cycles(self, more: int) -> None:
        """Wait for some more cycles."""
        target = self.status().cycles + more
        wait_for(
            lambda: self.status().cycles >= target, lambda: f"cycle {target}; log:\n{self.said()[-2000:]}"
        )

    # slaqctl

    def ctl(self, *words: str, **extra: Any) -> subprocess.CompletedProcess[str]:
        command = [*SLAQCTL, words[0], "--config", str(self.config), *words[1:]]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=self.env, **extra
        )

    def asked(self, *words: str) -> Any:
        done = self.ctl(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def status(self) -> StatusView:
        return Client(self.socket, PATIENCE_S).ask(Verb.STATUS, StatusView)

    def jobs(self) -> dict[str, JobView]:
        """Give all jobs by name; fails where one is there twice."""
        views = Client(self.socket, PATIENCE_S).ask(Verb.JOBS, list[JobView])
        assert len({view.name for view in views}) == len(views), views
        return {view.name: view for view in views}

    def job(self, name: str) -> JobView:
        return self.jobs()[name]

    def comes_to(self, name: str, **wanted: object) -> JobView:
        """Wait until a job is shown with these values."""

        def look() -> JobView | None:
            view = self.jobs().get(name)
            good = view is not None and all(getattr(view, field) == value for field, value in wanted.items())
            return view if good else None

        return wait_for(
            look, lambda: f"{name} shows {wanted}; jobs: {self.jobs()}; log:\n{self.said()[-3000:]}"
        )

    # jobs

    def run(
        self, name: str, *command: str, options: Sequence[str] = (), **extra: Any
    ) -> subprocess.Popen[bytes]:
        """Start ``slaqctl run`` beside us; what it says on stderr goes to ``NAME.err``."""
        with (self.folder / f"{name}.err").open("ab") as err:
            words = [*SLAQCTL, "run", "--config", str(self.config), "--name", name, *options, "--", *command]
            started = subprocess.Popen(words, stderr=err, stdin=subprocess.DEVNULL, env=self.env, **extra)
        self.started.append(started)
        return started

    def told(self, name: str) -> str:
        return (self.folder / f"{name}.err").read_text(encoding="utf-8")

    def busy(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        return self.run(name, sys.executable, "-c", BUSY, options=options)

    def training(self, name: str, *options: str) -> Path:
        log = self.folder / f"{name}.jsonl"
        self.run(name, sys.executable, "-c", TRAINS, str(log), options=["--log", str(log), *options])
        return log

    def free_group(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a process group outside slaqd, to be adopted."""
        words = command or (sys.executable, "-c", BUSY)
        started = subprocess.Popen(words, process_group=0, stderr=subprocess.DEVNULL)
        self.started.append(started)
        return started

    def quota(self, name: str) -> float | None:
        """Read a job's quota from the kernel, in units; None where it has none. Only for cgroup v1."""
        return quota_of(int(self.job(name).job))

    def clean(self) -> None:
        """End everything this slaqd and its jobs are."""
        groups = []
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            with suppress(DaemonUnreachable):
                groups = [int(view.job) for view in self.jobs().values() if view.state != "ended"]
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_S)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        for started in self.started:
            if started.poll() is None:
                groups += _children(started.pid)
                started.kill()
            started.wait()
            groups.append(started.pid)
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                if group > 1 and group != os.getpgrp():
                    os.killpg(group, signal.SIGKILL)
        wait_for(self._swept, lambda: f"the groups of {self.group} are empty")

    def _swept(self) -> bool:
        for folder in Path("/sys/fs/cgroup").glob(f"cpu*/{self.group}"):
            with suppress(OSError):
                for each in (*folder.glob("job-*"), folder):
                    each.rmdir()
        return not list(Path("/sys/fs/cgroup").glob(f"cpu*/{self.group}"))


@contextmanager
def straced(pid: int, told: Path, *words: str) -> Iterator[None]:
    """Have strace look at a process with its threads and children; its own words go to ``told``."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is missing: make packages"
    with told.open("wb") as err:
        tracer = subprocess.Popen([strace, "-f", "-p", str(pid), *words], stderr=err)
    try:
        wait_for(lambda: b"attached" in told.read_bytes() or None, lambda: told.read_text(encoding="utf-8"))
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(PATIENCE_S)


Make = Callable[..., Slaqd]


def _children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [
            int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        ]
    return []


def quota_of(pid: int) -> float | None:
    """Read the quota of a process's cgroup v1, in hundredths of a core; None where it has none or is gone."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return None
    fields = [line.split(":", 2) for line in lines]
    group = next(path for _number, controllers, path in fields if "cpu" in controllers.split(","))
    folder = Path("/sys/fs/cgroup/cpu") / group.lstrip("/")
    quota = int((folder / "cpu.cfs_quota_us").read_text(encoding="ascii")) if group != "/" else -1
    return None if quota < 0 else quota / 1000
