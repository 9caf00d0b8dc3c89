"""Holds one job to its CPU share by stopping and continuing it: ``python -m slaqd_local.keeper GROUP START``.

For machines on which slaqd has no right to a cgroup. The job earns CPU time at its
rate and spends what it uses, a token bucket; it is stopped (SIGSTOP) when it has spent
all, and continued (SIGCONT) when it has earned enough for the next slice. What it uses
is read from the kernel, so late wake-ups are made up for.

It hears from slaqd on its standard input, a line each::

    hold MILLI              hold the job to so many thousandths of a core
    members PID PID ...     count these too, beside their descendants

and tells on its standard output ``SECONDS SLICES CUTS``: the CPU the job used since the
keeper began, in how many slices it ran, and how many of them were cut short. When the
input closes, in whatever way slaqd went, or on SIGTERM, SIGINT or SIGHUP, the keeper
continues the job and ends.

A job that somebody else stopped (Ctrl-Z, ``kill -STOP``) is left alone until somebody
continues it: it is not held meanwhile. A stop sent while the keeper itself holds the
job shows as a pending signal and is kept, and one from a terminal is sent once more, so
that whoever waits for the job learns of it. Only a stop of some of its processes is not
told apart, and is undone with the next slice; so is one that comes while the keeper
has to repeat its own.

Standard library only, to stay small.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from slaqd_local import processes
from slaqd_local.meter import Meter, Reading
from slaqd_local.processes import PROC, TICKS_PER_S, Process

SLICE_S = 0.01
"""The least CPU time for which a job is let run: shorter ones cost more than they even out."""

PERIOD_S = 0.1
"""A slice is as long as what the job earns in this time."""

SAVE_S = 0.5
"""What it earns in this time beyond a slice it may save: it may have waited for a CPU."""

DEBT_S = 10.0
"""What was used too much is made up for within this time; the rest is forgiven."""

_LONGEST_WAIT_S = 0.25
_SHORTEST_WAIT_S = 0.002
_WALK_S = 0.2
_OWN_SHARE = 50
_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGSTOP)
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Bucket:
    """What a job may still use, in CPU seconds. Pure."""

    def __init__(self, cores: int) -> None:
        self.rate = float(cores)
        self.saved = 0.0
        self._cores = cores
        self._speed = 1.0

    @property
    def free(self) -> bool:
        """Whether the job may use all there is."""
        return self.rate >= self._cores

    @property
    def slice(self) -> float:
        """What it may use in one go."""
        return max(SLICE_S, self.rate * PERIOD_S)

    @property
    def most(self) -> float:
        """What it may save."""
        return self.slice + self.rate * SAVE_S

    def step(self, elapsed: float, used: float, *, running: bool) -> None:
        """Earn for the time that went by, and spend what was used."""
        self.saved += self.rate * elapsed - used
        self.saved = max(-self.rate * DEBT_S, min(self.most, self.saved))
        if running and elapsed > 0:
            # At least one core: a job that was kept off the CPU may get on it any moment.
            self._speed = min(self._cores, max(1.0, used / elapsed))

    def wait(self, *, running: bool) -> float:
        """Tell for how long nothing can happen: until all is spent, or enough is earned."""
        if not running:
            return (self.slice - self.saved) / self.rate
        drain = self._speed - self.rate
        return self.saved / drain if drain > 0 else _LONGEST_WAIT_S


class Job:
    """The processes that are held: the group, and descendants that left it."""

    def __init__(self, group: int, start: int) -> None:
        self.group = group
        self.start = start
        self._starts: dict[int, int] = {}
        self._now: dict[int, Process] = {}
        self._walked = -_WALK_S

    def add(self, pids: Iterable[int]) -> None:
        """Count these too."""
        for pid in pids:
            process = processes.read(pid)
            if process is not None:
                self._starts.setdefault(pid, process.start)

    def look(self, now: float) -> dict[tuple[int, int], Reading]:
        """Read all members again, and find their new children now and then."""
        if now - self._walked >= _WALK_S:
            self._walked = now
            self._walk()
        found = {pid: processes.read(pid) for pid in self._starts}
        self._now = {
            pid: each for pid, each in found.items() if each is not None and each.start == self._starts[pid]
        }
        self._starts = {pid: each.start for pid, each in self._now.items()}
        return {
            (pid, each.start): Reading(_own_seconds(each), each.reaped / TICKS_PER_S)
            for pid, each in self._now.items()
        }

    @property
    def alive(self) -> list[Process]:
        """Members that can still run."""
        return [each for each in self._now.values() if each.alive]

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left."""
        return not self._now and not self._group_exists()

    @property
    def stopped(self) -> bool:
        """Whether all of it is stopped."""
        alive = self.alive
        return bool(alive) and all(each.stopped for each in alive)

    def stop(self) -> None:
        """Stop what runs."""
        self._signal(signal.SIGSTOP)

    def stop_stragglers(self) -> bool:
        """Stop members that run while the others are stopped; tell whether there were any."""
        running = [each for each in self.alive if not each.stopped]
        for each in running:
            _kill(each.pid, signal.SIGSTOP)
        return bool(running)

    def resume(self) -> None:
        """Let all of it run."""
        self._signal(signal.SIGCONT)

    def pending_stop(self) -> signal.Signals | None:
        """Tell by which signal somebody else asked it to stop while it was stopped already."""
        first = next((each.pid for each in self.alive), 0)
        # Read before the signals: until the job is stopped, a pending SIGSTOP may be the keeper's own.
        seen = processes.read(first)
        others = _STOPS if seen is not None and seen.stopped else _STOPS[:-1]
        pending = _pending(first)
        return next((each for each in others if pending & 1 << (each - 1)), None)

    def stop_anew(self, number: signal.Signals) -> None:
        """Let it take in a stop that is pending.

        A pending one is told to nobody: who pressed Ctrl-Z would wait for the prompt for ever.
        """
        if number is not signal.SIGSTOP:
            self.resume()
            self._signal(number)

    def _signal(self, number: signal.Signals) -> None:
        if self._group_exists():
            _kill(-self.group, number)
        for each in self.alive:
            if each.group != self.group:
                _kill(each.pid, number)

    def _group_exists(self) -> bool:
        leader = processes.read(self.group)
        if leader is not None:
            return leader.start == self.start
        return _kill(-self.group, 0)

    def _walk(self) -> None:
        fresh = list(self._starts)
        while fresh:
            children = [pid for each in fresh for pid in _children(each) if pid not in self._starts]
            self.add(children)
            fresh = [pid for pid in children if pid in self._starts]


def _own_seconds(process: Process) -> float:
    # The process's CPU clock (clock_getcpuclockid(3)) counts nanoseconds, stat only ticks.
    try:
        return time.clock_gettime_ns((~process.pid << 3) | 2) / 1e9
    except OSError:
        return process.own / TICKS_PER_S


def _children(pid: int) -> list[int]:
    try:
        paths = list(Path(PROC / str(pid) / "task").iterdir())
        texts = [(path / "children").read_text(encoding="ascii") for path in paths]
    except OSError:
        return []  # gone, or a kernel without CONFIG_PROC_CHILDREN: then slaqd tells of new members
    return [int(word) for text in texts for word in text.split()]


def _pending(pid: int) -> int:
    try:
        status = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return 0
    masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return sum(int(mask, 16) for mask in masks)


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # slaqd tells the user
    return True


class Keeper:
    """Holds one job."""

    def __init__(self, job: Job, cores: int) -> None:
        self._job = job
        self._bucket = Bucket(cores)
        self._meter = Meter()
        self._holds = False
        self._repeated = False
        self._last = time.monotonic()
        self._slices = 0
        self._cuts = 0

    def obey(self, line: bytes) -> None:
        """Do what a line says."""
        word, *numbers = line.split()
        if word == b"hold":
            self._bucket.rate = int(numbers[0]) / 1000
        elif word == b"members":
            self._job.add(map(int, numbers))

    def step(self) -> float | None:
        """Look, stop or continue the job; give the seconds until the next step, None at the job's end."""
        began = time.process_time()
        now = time.monotonic()
        used = self._meter.look(self._job.look(now))
        if self._job.gone:
            return None
        self._bucket.step(now - self._last, used, running=not self._holds)
        self._last = now
        if self._holds:
            self._hold()
        else:
            self._run()
        wait = min(_LONGEST_WAIT_S, self._bucket.wait(running=not self._holds))
        return max(_SHORTEST_WAIT_S, wait, _OWN_SHARE * (time.process_time() - began))

    def report(self) -> bytes:
        """Tell what the job used."""
        return f"{self._meter.seconds:.6f} {self._slices} {self._cuts}\n".encode("ascii")

    def release(self) -> None:
        """Let the job run, whatever comes."""
        if self._holds:
            self._holds = False
            # A stop that the keeper repeated may itself be the pending one. Better to
            # undo another's stop than to leave the job stopped.
            asked = self._job.pending_stop()
            if asked is None or (self._repeated and asked is signal.SIGSTOP):
                self._job.resume()
            else:
                self._job.stop_anew(asked)

    def _run(self) -> None:
        self._slices += 1
        if self._bucket.free or self._bucket.saved > 0 or self._job.stopped:
            return
        self._cuts += 1
        self._holds, self._repeated = True, False
        self._job.stop()

    def _hold(self) -> None:
        if self._bucket.free or self._bucket.saved >= self._bucket.slice * 0.999:
            self.release()
        else:
            self._repeated |= self._job.stop_stragglers()


class Lines:
    """Lines from a pipe."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._rest = b""

    def read(self) -> list[bytes] | None:
        """Give the lines that have come; None when the pipe is closed."""
        data = os.read(self._handle, 65536)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line for line in lines if line.strip()]


def keep(keeper: Keeper, told: int, ended: int, out: int) -> None:
    """Hold the job until it ends, the pipe ``told`` closes, or a byte comes by ``ended``."""
    lines = Lines(told)
    poll = select.poll()
    poll.register(told, select.POLLIN)
    poll.register(ended, select.POLLIN)
    wait: float | None = 0.0
    try:
        while wait is not None:
            ready = dict(poll.poll(wait * 1000))
            if ended in ready:
                return
            heard = lines.read() if told in ready else []
            if heard is None:
                return
            for line in heard:
                keeper.obey(line)
            wait = keeper.step()
            _tell(out, keeper.report())
    finally:
        keeper.release()


def _tell(out: int, text: bytes) -> None:
    try:
        os.write(out, text)
    except (BlockingIOError, BrokenPipeError):
        return  # nobody reads just now; the next report says it all again


def _on_ending() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for each in _ENDINGS:
        signal.signal(each, lambda _number, _frame: None)
    return reader


def _hurry() -> None:
    # A keeper that wakes late lets its job overrun.
    try:
        os.nice(-5)
    except OSError:
        return


def main(arguments: list[str]) -> int:
    """Run the keeper."""
    group, start = map(int, arguments)
    ended = _on_ending()
    _hurry()
    os.set_blocking(sys.stdout.fileno(), False)
    keeper = Keeper(Job(group, start), len(os.sched_getaffinity(0)))
    keep(keeper, sys.stdin.fileno(), ended, sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
