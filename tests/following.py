"""Jobs that follow targets: files on a real disk, a manager of memory, answers by a test's hands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from slaqd.act import FollowFiles
from slaqd.adapter import Registration, Store
from slaqd.clock import Clock
from slaqd.errors import AgentUnavailable
from slaqd.testing import FakeAdapter, FakeConfig, FakeManager, ManualClock, MemoryStore
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Adopt,
    Job,
    JobKey,
    Lever,
    Outcome,
    Owner,
    Restore,
    SetUnits,
    Snapshot,
    State,
    Struct,
    Tag,
)

T = TypeVar("T")

WAITS = "waits until the job answers target {}, {} units"


def brief(job: Job) -> tuple[int, int | None, str | None]:
    """Give what a job holds, what it is held to, and why it stays as it is."""
    return job.held, job.target, job.gap


def why(outcome: Outcome) -> str:
    """Give the reason of what was not done."""
    assert not isinstance(outcome, Accepted)
    return outcome.why


class FileAdapter(FakeAdapter):
    """Gives its jobs the lever ``file`` where their tag says so, and shows what they are ``seen`` to hold.

    What it holds itself it shows, also of a job whose lever is ``file`` by now.
    """

    seen: dict[JobKey, int]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.seen = {}

    def _row(self, registration: Registration) -> Job:
        row = super()._row(registration)
        if registration.tag.lever is not Lever.FILE:
            return row
        held = self.seen.get(row.key, 0) if row.state is State.RUNNING else 0
        if row.target is not None:
            held = row.held
        return msgspec.structs.replace(row, lever=Lever.FILE, held=held)

    def _one(self, action: Action, deadline: float) -> Outcome:
        outcome = super()._one(action, deadline)
        if isinstance(action, Admit) and self._registered()[action.key].tag.lever is Lever.FILE:
            self.manager.held.pop(action.key, None)  # it is let in, and its units are none of a manager's
        return outcome


class Mine:
    """An `AsUser` for one's own files, that can be told to fail."""

    agent = False

    def __init__(self) -> None:
        self.silent = False
        self.broken: OSError | None = None
        self.after_put: Callable[[str], None] = lambda _path: None
        self.puts: list[str] = []
        self.gets: list[str] = []

    def put(self, uid: int, root: str, path: str, text: bytes) -> None:
        self._judge(uid, root, path)
        new = Path(f"{path}.new")
        new.write_bytes(text)
        new.replace(path)
        self.puts.append(path)
        self.after_put(path)

    def get(self, uid: int, root: str, path: str) -> bytes | None:
        self._judge(uid, root, path)
        self.gets.append(path)
        try:
            return Path(path).read_bytes()[: 64 * 1024]
        except FileNotFoundError:
            return None

    def hands(self, request: Struct, kind: type[T]) -> T:
        raise PermissionError(f"nobody's hands for {request} and {kind}")

    def _judge(self, uid: int, root: str, path: str) -> None:
        assert uid == os.getuid()
        assert path.startswith("/")
        assert root.startswith("/")
        if self.silent:
            raise AgentUnavailable("slaqd-agent does not answer")
        if self.broken is not None:
            raise self.broken


class Following:
    """A manager of memory, its jobs' directories, and a slaqd's part that comes and goes."""

    def __init__(self, folder: Path, *, units: int = 20, clock: Clock | None = None) -> None:
        self.folder = folder
        self.clock = clock or ManualClock()
        self.store: Store = MemoryStore()
        self.manager = FakeManager()
        self.user = Mine()
        self.inner = FileAdapter(FakeConfig(units=units), self.clock, self.store, manager=self.manager)
        self.adapter = self.again()

    def again(self) -> FollowFiles:
        """Start slaqd's part anew: what it knew and had not noted is gone."""
        self.adapter = FollowFiles(self.inner, self.user, self.store, self.clock)
        return self.adapter

    def start(
        self, number: int = 1, *, waits: bool = False, made: bool = True, cwd: str | None = None, **said: Any
    ) -> JobKey:
        key = JobKey("fake", str(number), 7)
        tag = Tag(**{"min": 1, "max": 8, "lever": Lever.FILE, "dir": f"ctl-{number}", **said})
        if made and tag.dir is not None:
            self.place(number).mkdir(exist_ok=True)
        owner = Owner(os.getuid(), "me")
        root = str(self.folder) if cwd is None else cwd
        assert isinstance(self.store, MemoryStore)
        self.store.register(Registration(key, owner, tag, "job", root, 100.0 + number, waits))
        return key

    def adopt_again(self, number: int = 1, **said: Any) -> None:
        """Adopt a job again; what is said of it then takes the place of what was said before."""
        (known,) = [each for each in self.store.registrations() if each.key.id == str(number)]
        assert isinstance(self.store, MemoryStore)
        tag = msgspec.structs.replace(known.tag, **said)
        self.store.register(msgspec.structs.replace(known, tag=tag, waits=False))

    def place(self, number: int = 1) -> Path:
        return self.folder / f"ctl-{number}"

    # slaqd's part

    def snapshot(self) -> Snapshot:
        return self.adapter.snapshot(self.clock.monotonic() + 10)

    def job(self, number: int = 1) -> Job:
        return next(job for job in self.snapshot().jobs if job.key.id == str(number))

    def act(self, *actions: Action) -> list[Outcome]:
        return list(self.adapter.apply(actions, self.clock.monotonic() + 10))

    def set(self, units: int, number: int = 1, kind: type[Adopt | SetUnits] = SetUnits) -> Outcome:
        key = JobKey("fake", str(number), 7)
        return self.act(kind("a", key, self.manager.incarnation, units, "because"))[0]

    def adopt(self, units: int, number: int = 1) -> Outcome:
        return self.set(units, number, Adopt)

    def restore(self, number: int = 1) -> Outcome:
        return self.act(Restore("r", JobKey("fake", str(number), 7), self.manager.incarnation))[0]

    # the job's part

    def target(self, number: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place(number) / "target.json").read_text())
        return found

    def seq(self, number: int = 1) -> int:
        return int(self.target(number)["seq"]) if (self.place(number) / "target.json").exists() else 0

    def answer(self, units: int | None = None, number: int = 1, **other: Any) -> None:
        """Answer the target that stands there, as it says or otherwise."""
        seq, asked = self.seq(number), self.target(number)["units"] if self.seq(number) else units
        said = {"v": 1, "seq": seq, "state": "applied", "units": asked if units is None else units}
        self.says(json.dumps({**said, "time": 1.0, "note": "", **other}).encode(), number)

    def says(self, data: bytes, number: int = 1) -> None:
        (self.place(number) / "ack.json").write_bytes(data)

    def settle(self, units: int, number: int = 1) -> None:
        """Bring a job to hold units, told and answered."""
        kind = Adopt if self.job(number).target is None else SetUnits
        self.set(units, number, kind)
        self.answer(number=number)
        assert (self.job(number).held, self.job(number).target) == (units, units)
