"""A slaqd without rights, an agent with two capabilities and the jobs of two users, each in its process."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from local_world import until, usable_means
from slaqd_local import Config, LocalAdapter, hierarchy, processes
from slaqd_local.hands import LocalHands
from slaqd_local.hierarchy import Hierarchy

from slaqd.adapter import Registration, load_hands
from slaqd.agent.client import Agent
from slaqd.agent.forker import Forker
from slaqd.agent.protocol import ClosedError, Request, receive, send
from slaqd.agent.session import Session
from slaqd.clock import SystemClock
from slaqd.testing import MemoryStore
from slaqd.types import JobKey, Owner, Tag

MEANS = next((name for name in usable_means() if name != "keeper"), "")

ALICE, BOB, SLAQD = 20001, 20002, 20003
LEAST_UID = 1000
SETGID_SETUID = 1 << 6 | 1 << 7
NAME = f"slaqd-hands-{os.getpid()}"
CONFIG = Config(means=MEANS, cgroup=NAME)


class Forked:
    """A function in a process of its own."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                run()
                status = 0
            finally:
                os._exit(status)

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def bound_to_two_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, capset(2)
    data = (ctypes.c_uint32 * 6)(SETGID_SETUID, SETGID_SETUID, 0, 0, 0, 0)
    assert ctypes.CDLL(None, use_errno=True).capset(header, data) == 0


class AgentProcess:
    """The agent, and where it is asked."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "agent.sock")
        self._forked: Forked | None = None
        self.start()

    def start(self) -> None:
        with suppress(FileNotFoundError):
            Path(self.path).unlink()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        Path(self.path).chmod(0o666)
        listener.listen()
        with listener:
            self._forked = Forked(lambda: _serve(listener))

    def capabilities(self) -> int:
        assert self._forked is not None
        status = Path(f"/proc/{self._forked.pid}/status").read_text()
        return int(status.partition("CapEff:")[2].split()[0], 16)

    def kill(self) -> None:
        if self._forked is not None:
            self._forked.kill()


def _serve(listener: socket.socket) -> None:
    forker = Forker()
    bound_to_two_capabilities()
    os.umask(0o077)  # as a careful unit has it
    make = load_hands("local")
    assert make is LocalHands
    hands = make(CONFIG, LEAST_UID)
    while True:
        sock, _ = listener.accept()
        session = Session(forker, LEAST_UID, hands)
        with sock, suppress(ClosedError):
            while True:
                send(sock, session.answer(receive(sock, Request)))


class SlaqdProcess:
    """An adapter in a process without rights, asked from here."""

    def __init__(self, path: str) -> None:
        self._pipe, theirs = Pipe()
        self._forked = Forked(lambda: _adapt(theirs, path))
        theirs.close()

    def ask(self, question: Callable[..., Any], *given: Any) -> Any:
        self._pipe.send((question, given))
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        self._pipe.close()
        self._forked.kill()


class Side:
    """What stands on slaqd's side."""

    def __init__(self, path: str) -> None:
        self.store = MemoryStore()
        self.agent = Agent(path)
        self.clock = SystemClock()
        self.adapter = LocalAdapter(CONFIG, self.clock, self.store, self.agent)

    def deadline(self) -> float:
        return self.clock.monotonic() + 60


def _work(uid: int, *, busy: bool) -> None:
    become(uid)
    while True:
        time.sleep(0 if busy else 600)


def _adapt(pipe: Connection, path: str) -> None:
    become(SLAQD)
    side = Side(path)
    with suppress(EOFError):
        while True:
            question, given = pipe.recv()
            try:
                answer = question(side, *given)
            except Exception as error:  # noqa: BLE001 - the test judges it
                answer = error
            pipe.send(answer)


def register(side: Side, registration: Registration) -> None:
    side.store.register(registration)


def snapshot(side: Side) -> Any:
    return side.adapter.snapshot(side.deadline())


def apply(side: Side, *actions: Any) -> Any:
    return side.adapter.apply(actions, side.deadline())


def check(side: Side) -> Any:
    return side.adapter.check()


def close(side: Side) -> None:
    side.adapter.close(restore=True)


def hands(side: Side, request: Any) -> Any:
    return side.agent.hands(request, type(None))


def rights(side: Side) -> Any:
    del side
    return os.geteuid(), tree().writable()


def tree() -> Hierarchy:
    found = hierarchy.find("cpu" if MEANS == "cgroup1" else "")
    assert found is not None
    return found


class World:
    def __init__(self, folder: Path) -> None:
        self.agent = AgentProcess(folder)
        self.slaqd = SlaqdProcess(self.agent.path)
        self.origin = tree().mount.point / f"{NAME}-origin"
        self.origin.mkdir()
        self._started: list[Forked] = []

    def start(self, uid: int, *, busy: bool = False, group: int = 0) -> int:
        started = Forked(lambda: _work(uid, busy=busy))
        self._started.append(started)
        os.setpgid(started.pid, group)
        until(lambda: processes.real_uid(started.pid) == uid)
        (self.origin / "cgroup.procs").write_text(str(started.pid))
        return started.pid

    def end(self, pid: int) -> None:
        """End a process, and see that nothing of it is left."""
        next(each for each in self._started if each.pid == pid).kill()

    def restart_slaqd(self) -> None:
        """Begin with a slaqd that knows nothing of any job."""
        self.slaqd.kill()
        self.slaqd = SlaqdProcess(self.agent.path)

    def job(self, pid: int, owner: int = ALICE) -> JobKey:
        seen = processes.read(pid)
        assert seen is not None
        key = JobKey("local", str(pid), seen.start)
        tag = Tag(min=1, max=10)
        self.slaqd.ask(register, Registration(key, Owner(owner, str(owner)), tag, "job", "/", time.time()))
        return key

    def do(self, *actions: Any) -> Any:
        return self.slaqd.ask(apply, *actions)

    def target(self, key: JobKey) -> int | None:
        job = next(job for job in self.slaqd.ask(snapshot).jobs if job.key == key)
        return job.target

    def milli(self, key: JobKey) -> int:
        """Read the quota from the kernel, past the adapter."""
        group = tree().mount.point / NAME / f"job-{key.id}-{key.start}"
        if MEANS == "cgroup2":
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return -1 if quota.strip() in {"max", "-1"} else int(quota) * 1000 // int(period)

    def close(self) -> None:
        self.slaqd.kill()
        self.agent.kill()
        for started in self._started:
            started.kill()
        for each in {tree().mount.point, Path("/sys/fs/cgroup/cpuacct")}:
            for group in (*each.glob(f"{NAME}/job-*"), each / NAME, each / f"{NAME}-origin"):
                until(lambda group=group: _gone(group))  # type: ignore[misc]


def _gone(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
