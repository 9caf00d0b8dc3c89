"""A small world to kill slaqd in: real processes, groups with quotas, a journal, all put back at will."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from slaqd_local import processes

from slaqd.act import open_journal
from slaqd.adapter import Registration
from slaqd.types import JobKey, Owner, Tag

HIERARCHIES = ("cpu", "cpuacct")
CGROUPS = Path("/sys/fs/cgroup")
OUTSIDE = "/"
SUBMITTED = 1_000.0
_QUOTA = ("cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.shares")
_NUMBERS = {"base", "cpu"}

Groups = Mapping[str, Mapping[str, str]]
"""The values of each group's files, by the group's path below the hierarchies."""

Where = Mapping[str, Sequence[str]]
"""The group of each process in each hierarchy, by the process's name."""


class World:
    """Jobs by name, slaqd's places, and how all of it stood when it was saved."""

    def __init__(self, folder: Path, group: str) -> None:
        self.group = group
        self.home = folder / "var"
        self.state = self.home / "state"
        self.journal = self.state / "journal.sqlite"
        self.config = folder / "slaqd.toml"
        self.log = folder / "log.jsonl"
        self.pids: dict[str, int] = {}
        self.keys: dict[str, JobKey] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        self._saved: tuple[Path, Groups, Where] = (folder / "saved", {}, {})
        self.home.mkdir()
        points = [json.dumps({"step": k, "loss": 1 + 5 / k, "time": 1e9 + k}) for k in range(1, 40)]
        self.log.write_text("\n".join(points) + "\n", encoding="ascii")
        self.config.write_text(
            "[slaqd]\nmode = 'enforce'\nepoch_s = 60.0\n"
            f"state_dir = '{self.state}'\nsocket = '{folder}/s.sock'\n[policy]\nname = 'slaq'\n"
            "[adapter.local]\nunit_milli = 10\nreserve_milli = 0\ncores = 0.4\n"
            f"means = 'cgroup1'\ncgroup = '{group}'\n",
            encoding="utf-8",
        )

    # jobs

    def start(self, name: str, processes_in_it: int = 1) -> None:
        """Start a job of so many processes that sleep: they use no CPU, so what is seen stays the same."""
        leader = 0
        for number in range(processes_in_it):
            started = subprocess.Popen(["sleep", "infinity"], process_group=leader)
            self._started.append(started)
            leader = leader or started.pid
            self.pids[f"{name}.{number}"] = started.pid
        seen = processes.read(leader)
        assert seen is not None
        self.keys[name] = JobKey("local", str(leader), seen.start)

    def end(self, name: str) -> None:
        """End a job's only process."""
        pid = self.pids.pop(f"{name}.0")
        process = next(each for each in self._started if each.pid == pid)
        process.kill()
        process.wait()

    def register(self, name: str, units: int, *, waits: bool = False) -> None:
        """Register a job for exactly so many units, or anew for others, as its owner may."""
        log = str(self.log) if name == "grows" else None
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(open_journal(self.journal, SUBMITTED)) as journal:
            journal.register(
                Registration(
                    key=self.keys[name],
                    owner=Owner(uid=os.getuid(), name="me"),
                    tag=Tag(min=units, max=units, log=log),
                    name=name,
                    cwd="/",
                    submitted=SUBMITTED + sorted(self.keys).index(name),
                    waits=waits,
                )
            )

    def name_of(self, job: str) -> str:
        return next((name for name, key in self.keys.items() if key.id == job), job)

    def named(self, text: str) -> str:
        """Put a job's name for its number in the name of its group."""
        for name, key in self.keys.items():
            text = text.replace(f"job-{key.id}-{key.start}", name)
        return text

    # groups

    def leave(self, process: str) -> None:
        """Move a process out of its job's group, as one stands that was started since the last look."""
        for hierarchy in HIERARCHIES:
            (CGROUPS / hierarchy / "cgroup.procs").write_text(str(self.pids[process]), encoding="ascii")

    def groups(self) -> dict[str, dict[str, str]]:
        """Read slaqd's groups: that they are there, and what their files say."""
        found: dict[str, dict[str, str]] = {}
        for hierarchy in HIERARCHIES:
            top = CGROUPS / hierarchy / self.group
            for folder in (top, *top.glob("job-*")) if top.is_dir() else ():
                path = f"{hierarchy}/{folder.relative_to(CGROUPS / hierarchy)}"
                files = _QUOTA if hierarchy == "cpu" else ()
                found[path] = {file: (folder / file).read_text(encoding="ascii").strip() for file in files}
        return found

    def where(self) -> dict[str, list[str]]:
        """Tell in which group of each hierarchy each process is."""
        return {name: [_group(pid, each) for each in HIERARCHIES] for name, pid in self.pids.items()}

    # all of it

    def save(self) -> None:
        """Remember how all stands."""
        kept = self._saved[0]
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.home, kept)
        self._saved = (kept, self.groups(), self.where())

    def put_back(self) -> None:
        """Make all stand as it was saved."""
        kept, groups, where = self._saved
        shutil.rmtree(self.home)
        shutil.copytree(kept, self.home)
        for path in groups:
            (CGROUPS / path).mkdir(parents=True, exist_ok=True)
        self._move(where)
        self._remove(self.groups().keys() - groups.keys())
        for path, values in groups.items():
            _set(CGROUPS / path, values)

    def _move(self, where: Where) -> None:
        now = self.where()
        for name, pid in self.pids.items():
            for hierarchy, old, new in zip(HIERARCHIES, now[name], where[name], strict=True):
                if old != new:
                    procs = CGROUPS / hierarchy / new.lstrip("/") / "cgroup.procs"
                    procs.write_text(str(pid), encoding="ascii")

    def _remove(self, paths: set[str]) -> None:
        for path in sorted(paths, reverse=True):
            with suppress(FileNotFoundError):
                (CGROUPS / path).rmdir()

    def close(self) -> None:
        """End all jobs and remove what slaqd made for them."""
        for started in self._started:
            started.kill()
            started.wait()
        self._remove(set(self.groups()))

    # what came of it

    def seen(self) -> dict[str, Any]:
        """Tell how all stands, in words that are the same in each run: no times, no sums of CPU."""
        with self._copy() as db:
            known = self._journal(db) if _tables(db) else {"notes": []}
        return {
            "groups": {self.named(path): values for path, values in self.groups().items()},
            "where": {name: [self.named(path) for path in paths] for name, paths in self.where().items()},
            "files": sorted(each.name for each in self.state.glob("*")),
            **known,
        }

    def actions(self) -> list[tuple[str, str, str | None]]:
        """List the journalled actions: name, what, and the outcome."""
        with self._copy() as db:
            ask = "SELECT id, job, kind, units, outcome FROM actions ORDER BY number"
            rows = db.execute(ask).fetchall() if _tables(db) else []
        return [(name, f"{job} {kind} {units or 0}", outcome) for name, job, kind, units, outcome in rows]

    @contextmanager
    def _copy(self) -> Iterator[sqlite3.Connection]:
        """Open a copy of the journal: to open the one that a kill left is to mend it."""
        copy = self.home.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        if self.state.exists():
            shutil.copytree(self.state, copy)
        else:
            copy.mkdir()
        with closing(sqlite3.connect(copy / self.journal.name)) as db:
            yield db

    def _journal(self, db: sqlite3.Connection) -> dict[str, Any]:
        jobs = db.execute("SELECT job, registration, paused, exit_status, ended, last FROM jobs ORDER BY job")
        notes = db.execute("SELECT job, name, value FROM notes ORDER BY job, name")
        plans = db.execute("SELECT job, units, reason, max(number) FROM plans GROUP BY job ORDER BY job")
        facts = db.execute("SELECT name, value FROM facts WHERE name != 'runs' ORDER BY name")
        observed = db.execute("SELECT job, value FROM observations ORDER BY job")
        return {
            "integrity": db.execute("PRAGMA integrity_check").fetchone()[0],
            "facts": facts.fetchall(),
            "odd": db.execute("SELECT what FROM events WHERE what = 'set aside'").fetchall(),
            "jobs": [
                (self.name_of(job), text, paused, status, ended is not None, _shown(last))
                for job, text, paused, status, ended, last in jobs
            ],
            "notes": [
                (self.name_of(job), name, "#" if name in _NUMBERS else value) for job, name, value in notes
            ],
            "plans": [(self.name_of(job), units, reason) for job, units, reason, _number in plans],
            "observed": [(self.name_of(job), *_observed(value)) for job, value in observed],
        }

    def of_job(self, seen: Mapping[str, Any], name: str) -> object:
        """Pick out of `seen` what an act on this job changes."""
        return (
            [values for path, values in seen["groups"].items() if path.endswith(f"/{name}")],
            [paths for process, paths in seen["where"].items() if process.startswith(f"{name}.")],
            [note for note in seen["notes"] if note[0] == name],
        )


def _tables(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _group(pid: int, hierarchy: str) -> str:
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if hierarchy in controllers.split(","):
            return path
    raise AssertionError(f"no cgroup v1 hierarchy {hierarchy!r} here")


def _set(folder: Path, values: Mapping[str, str]) -> None:
    now = {file: (folder / file).read_text(encoding="ascii").strip() for file in values}
    if now == values:
        return
    (folder / "cpu.cfs_burst_us").write_text("0", encoding="ascii")  # a burst may not be above its quota
    for file in _QUOTA:
        quota_less = file == "cpu.cfs_burst_us" and values[file] == "0"
        if not quota_less:
            (folder / file).write_text(values[file], encoding="ascii")


def _shown(last: str | None) -> object:
    if last is None:
        return None
    view = msgspec.json.decode(last)
    return {name: value for name, value in view.items() if name != "cpu_seconds"}


def _observed(value: str) -> tuple[object, ...]:
    return tuple(json.loads(value).get(name) for name in ("points", "step", "loss"))
