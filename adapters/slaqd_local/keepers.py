"""CPU shares without any right to a cgroup: a keeper process for each job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import IO

from slaqd.types import JobKey
from slaqd_local import processes
from slaqd_local.means import Origins, Seen
from slaqd_local.processes import Table

_GRACE_S = 5.0


class _Keeper:
    """One keeper process, seen from slaqd."""

    def __init__(self, key: JobKey) -> None:
        self.members: set[int] = set()
        self.told = (0.0, 0, 0)
        self._rest = b""
        # Without the site module it starts in a third of the time; PYTHONPATH leads to this package.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-s", "-m", "slaqd_local.keeper", str(int(key.id)), str(key.start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            cwd="/",
            env={"PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        for pipe in (self._in, self._out):
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, *words: object) -> None:
        self._in.write((" ".join(map(str, words)) + "\n").encode("ascii"))

    def hear(self) -> tuple[float, int, int]:
        """Read the reports that have come; the last one counts."""
        while data := self._out.read(65536):
            *lines, self._rest = (self._rest + data).split(b"\n")
            if lines:
                seconds, slices, cuts = lines[-1].split()
                self.told = (float(seconds), int(slices), int(cuts))
        return self.told

    def end(self) -> bool:
        """Close its pipe: it continues the job and ends. Tell whether it did: a killed one may not have."""
        self._in.close()
        if processes.is_stopped(self.pid):
            self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.hear()
        self._out.close()
        return self._process.returncode == 0

    @property
    def _in(self) -> IO[bytes]:
        return _there(self._process.stdin)

    @property
    def _out(self) -> IO[bytes]:
        return _there(self._process.stdout)


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise BrokenPipeError
    return pipe


class _Held:
    """One job as this slaqd holds it; ``milli`` is None while it runs free."""

    def __init__(self) -> None:
        self.milli: int | None = None
        self.keeper: _Keeper | None = None
        self.before = (0.0, 0, 0)

    def told(self) -> tuple[float, int, int]:
        """Add up what all its keepers told."""
        return self._sum(self.keeper.hear()) if self.keeper is not None else self.before

    def end(self) -> bool:
        """End its keeper, keeping what it told; tell whether it let the job go on."""
        if self.keeper is None:
            return True
        let_go = self.keeper.end()
        self.before = self._sum(self.keeper.told)
        self.keeper = None
        return let_go

    def _sum(self, told: tuple[float, int, int]) -> tuple[float, int, int]:
        return self.before[0] + told[0], self.before[1] + told[1], self.before[2] + told[2]


class Keepers:
    """Holds jobs by keeper processes, which run as the user slaqd runs as."""

    name = "keeper"

    def __init__(self) -> None:
        self._jobs: dict[JobKey, _Held] = {}

    @property
    def pids(self) -> frozenset[int]:
        """The keepers themselves. Any thread may ask."""
        keepers = [held.keeper for held in list(self._jobs.values())]
        return frozenset(keeper.pid for keeper in keepers if keeper is not None)

    def why_not(self) -> str | None:
        """See `Means.why_not`: signals need no right but to the processes."""
        return None

    def bars(self, pids: Collection[int]) -> str | None:
        """See `Means.bars`."""
        return self.trouble(pids)

    def trouble(self, pids: Collection[int]) -> str | None:
        """See `Means.trouble`: a process of another user can't be stopped."""
        for pid in sorted(pids):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                continue
            except PermissionError:
                return f"process {pid} belongs to another user and can't be stopped"
        return None

    def escapes(self, pids: Collection[int]) -> str | None:
        """See `Means.escapes`: what a keeper can't stop is its trouble."""
        del pids
        return None

    def origins(self, pids: Collection[int]) -> Origins:
        """See `Means.origins`: nothing is moved."""
        del pids
        return {}

    def look(self, key: JobKey) -> Seen | None:
        """See `Means.look`; a keeper that died is replaced here."""
        held = self._jobs.get(key) or self._find(key)
        if held.keeper is not None:
            self._upkeep(key, held, held.keeper)
        seconds, slices, cuts = held.told()
        return Seen(held.milli, cpu_seconds=seconds, since_adoption=False, periods=slices, throttled=cuts)

    def hold(self, key: JobKey, pids: Collection[int], milli: int) -> None:
        """See `Means.hold`."""
        held = self._jobs.setdefault(key, _Held())
        if held.keeper is not None and not held.keeper.alive:
            self._upkeep(key, held, held.keeper)
        if held.keeper is None:
            held.keeper = _Keeper(key)
        held.milli = milli
        _tell(held.keeper, pids, milli)

    def outside(self, key: JobKey, pids: Collection[int]) -> list[int]:
        """See `Means.outside`."""
        held = self._jobs.get(key)
        if held is None or held.keeper is None:
            return []
        held.keeper.members &= set(pids)
        return [pid for pid in pids if pid not in held.keeper.members]

    def gather(self, key: JobKey, pids: Collection[int], table: Table) -> None:
        """See `Means.gather`."""
        del table
        keeper = self._jobs[key].keeper
        if keeper is not None:
            _introduce(keeper, pids)

    def lift(self, key: JobKey) -> None:
        """See `Means.lift`."""
        held = self._jobs.get(key)
        if held is None:
            self._find(key)
        elif held.keeper is not None:
            members = held.keeper.members
            held.milli = None
            if not held.end():
                resume(key, members)

    def give_back(self, key: JobKey, origins: Origins) -> None:
        """See `Means.give_back`."""
        del origins
        self.lift(key)

    def clear(self, key: JobKey) -> None:
        """See `Means.clear`."""
        held = self._jobs.pop(key, None)
        if held is not None:
            held.end()

    def close(self) -> None:
        """See `Means.close`: without keepers the jobs run free."""
        for key in list(self._jobs):
            self.lift(key)
        self._jobs.clear()

    def _find(self, key: JobKey) -> _Held:
        # A keeper that was killed together with its slaqd may have left the job stopped.
        # A stop by the user that outlasts a slaqd can't be told from that, and ends here.
        resume(key, ())
        return self._jobs.setdefault(key, _Held())

    @staticmethod
    def _upkeep(key: JobKey, held: _Held, keeper: _Keeper) -> None:
        if keeper.alive:
            if processes.is_stopped(keeper.pid):
                os.kill(keeper.pid, signal.SIGCONT)
            return
        held.end()
        if held.milli is not None and resume(key, keeper.members):
            held.keeper = _Keeper(key)
            _tell(held.keeper, keeper.members, held.milli)


def _tell(keeper: _Keeper, pids: Collection[int], milli: int) -> None:
    try:
        _introduce(keeper, [pid for pid in pids if pid not in keeper.members])
        keeper.send("hold", milli)
    except BrokenPipeError:
        return  # it is dead or the job has ended: the next look tells


def _introduce(keeper: _Keeper, pids: Collection[int]) -> None:
    if pids:
        keeper.members |= set(pids)
        keeper.send("members", *pids)


def resume(key: JobKey, members: Collection[int]) -> bool:
    """Continue a job that a killed keeper may have left stopped; tell whether there is anything of it."""
    group = int(key.id)
    leader = processes.read(group)
    found = (leader is None or leader.start == key.start) and _continue(-group)
    return any([found, *(_continue(pid) for pid in members)])


def _continue(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGCONT)
    except (ProcessLookupError, PermissionError):
        return False
    return True
