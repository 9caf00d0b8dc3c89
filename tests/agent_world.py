"""A real slaqd-agent with the rights that it has in production, and trees of real users for it to read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from living import PATIENCE_S, wait_for

from slaqd.agent.client import Agent
from slaqd.agent.protocol import Source
from slaqd.errors import AgentUnavailable
from slaqd.types import Curve, Health, Tag

T = TypeVar("T")

# Users that every Debian has, with gids of their own: nobody works as one of them.
ALICE, BOB, CAROL, DAVE = 5, 6, 7, 9
GIDS = {0: 0, ALICE: 60, BOB: 12, CAROL: 7, DAVE: 9}
SHARED = 20_020
"""A group that Alice alone is in besides her own, as far as the agent is told."""
HANGS = "does not answer"

SECRET = 777.125
"""The loss in every file that is not Alice's: a reading that shows it has read where it must not."""
CANARY = "CANARY-of-somebody-else"
BOUNDED = ("setpriv", "--bounding-set=-all,+setuid,+setgid", "--no-new-privs", "--pdeathsig", "KILL")
"""As the unit bounds it; besides, it ends with the tests."""


def rows(count: int = 4, first: int = 1) -> str:
    return "".join(f'{{"step": {step}, "loss": {1 / step}}}\n' for step in range(first, first + count))


def secret(count: int = 4) -> str:
    return "".join(f'{{"step": {step}, "loss": {SECRET}, "{CANARY}": 1}}\n' for step in range(1, count + 1))


class Trees:
    """A directory that everybody may pass, with a tree of Alice's, one of Bob's and one of root's."""

    def __init__(self, top: Path) -> None:
        self.top = self.folder(top, 0)
        self.alice, self.bob, self.root = (
            self.folder(self.top / name, uid) for name, uid in (("alice", ALICE), ("bob", BOB), ("root", 0))
        )

    def folder(self, path: Path, uid: int = ALICE, mode: int = 0o755) -> Path:
        path.mkdir()
        return own(path, uid, mode)

    def file(self, path: Path, text: str | bytes | None = None, uid: int = ALICE, mode: int = 0o644) -> Path:
        said = (rows() if uid == ALICE else secret()) if text is None else text
        path.write_bytes(said if isinstance(said, bytes) else said.encode())
        return own(path, uid, mode)

    def link(self, path: Path, target: Path | str) -> Path:
        path.symlink_to(target)
        os.lchown(path, ALICE, GIDS[ALICE])
        return path


def own(path: Path, uid: int, mode: int) -> Path:
    os.chown(path, uid, GIDS.get(uid, uid))
    path.chmod(mode)
    return path


def source(path: Path | str, uid: int = ALICE, *, root: Path | str = "/nowhere", job: str = "") -> Source:
    return Source(job=job or str(path), uid=uid, root=str(root), path=str(path), tag=Tag())


class AgentProcess:
    """One slaqd-agent, bounded as its unit bounds it, a connection to it, and a disk for users' trees."""

    def __init__(self, *, wrap: Sequence[str] = BOUNDED) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slaqd-agent-"))
        mount("-t", "tmpfs", "-o", "size=4g,mode=755", "slaqdtest", str(self.folder))
        mount("--make-shared", str(self.folder))  # what is mounted there later, the agent sees too
        self._trees = 0
        self.socket = self.folder / "s"
        self.log = self.folder / "log"
        self._config = self.folder / "slaqd.toml"
        self._config.write_text(
            "[slaqd]\nadapter = 'nobody'\n"
            f"[agent]\nsocket = '{self.socket}'\nuser = 'daemon'\nleast_uid = {ALICE}\n",
            encoding="utf-8",
        )
        self._groups = self.folder / "group"
        told = Path("/etc/group").read_text(encoding="utf-8")
        self._groups.write_text(f"{told}slaqdtest:x:{SHARED}:games\n", encoding="utf-8")
        self._wrap = wrap
        self.process: subprocess.Popen[bytes] | None = None
        self.client = Agent(str(self.socket))

    def trees(self) -> Trees:
        self._trees += 1
        return Trees(self.folder / f"trees-{self._trees}")

    def start(self) -> AgentProcess:
        """Start it in a mount namespace of its own, in which Alice is in one group more."""
        enter = 'mount --bind "$1" /etc/group && shift && exec "$@"'
        words = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", enter, "_", str(self._groups)]
        agent = [str(Path(sys.executable).with_name("slaqd-agent")), "--config", str(self._config)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*words, *self._wrap, *agent], stderr=log)
        wait_for(self._answers, lambda: f"slaqd-agent answers:\n{self.said()}")
        return self

    def _answers(self) -> bool:
        assert self.alive, f"slaqd-agent ended:\n{self.said()}"
        with suppress(AgentUnavailable), closing(Agent(str(self.socket))) as asking:
            return bool(asking.hello().version)
        return False

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def forker(self) -> int:
        (found,) = children(self.pid)
        return found

    def children(self, uid: int | None = None) -> list[int]:
        """List the children that read, those of one user or of all."""
        return [pid for pid in children(self.forker) if uid is None or uid_of(pid) == uid]

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def look(self, *sources: Source) -> dict[str, Curve]:
        return dict(self.client.look(sources, time.time()))

    def settled(self, *sources: Source) -> dict[str, Curve]:
        """Look until every source has been read or refused for good, on however busy a machine."""
        seen: dict[str, Curve] = {}

        def look() -> bool:
            seen.update(self.look(*sources))
            waits = [one.job for one in sources if one.job not in seen or HANGS in seen[one.job].note]
            return not waits and not self.client.missed

        wait_for(look, lambda: f"all are looked at: {seen}\n{self.said()}")
        return seen

    def stop(self) -> None:
        self.client.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        self.process = None

    def clean(self) -> None:
        self.stop()
        subprocess.run(["umount", "--recursive", "--lazy", str(self.folder)], check=True)
        self.folder.rmdir()


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def children(pid: int) -> list[int]:
    """List the children of a process, of whichever thread; those that are dead already left out."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += [int(each) for each in (task / "children").read_text().split()]
    return [each for each in found if status(each, "State")[:1] not in {"Z", "X", ""}]


def status(pid: int, key: str) -> str:
    """Give a line of ``/proc/PID/status``; "" of a process that is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(f"{key}:"):
                return line.partition(":")[2].strip()
    return ""


def uid_of(pid: int) -> int:
    return int((status(pid, "Uid") or "-1").split()[0])


def as_user(uid: int, work: Callable[[], object]) -> None:
    """Do something in a process that is this user's for good."""
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        return
    code = 1
    try:
        os.setgroups([])
        os.setresgid(*(GIDS.get(uid, uid),) * 3)
        os.setresuid(uid, uid, uid)
        work()
        code = 0
    finally:
        os._exit(code)


def kill_as(uid: int, pid: int, number: signal.Signals) -> None:
    as_user(uid, lambda: os.kill(pid, number))


def leaks(agent: AgentProcess, curves: dict[str, Curve]) -> list[str]:
    """Name the readings and the lines of the log that hold anything of somebody else's."""
    found = [
        job
        for job, curve in curves.items()
        if CANARY in repr(curve) or SECRET in [*curve.losses, curve.first, curve.lowest]
    ]
    return found + [line for line in agent.said().splitlines() if CANARY in line or str(SECRET) in line]


def is_ok(curve: Curve, count: int = 4) -> bool:
    return curve.health is Health.OK and curve.count == count


@contextmanager
def running() -> Iterator[AgentProcess]:
    """Run one agent; nothing of it is left."""
    made = AgentProcess()
    try:
        yield made.start()
    finally:
        made.clean()
