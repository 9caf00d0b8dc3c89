"""What a training program imports to follow its target (lever ``file``). The standard library alone.

    follower = Follower("ctl")
    for step in range(steps):
        if target := follower.poll():          # at a safe point, in one process of the job
            workers = resize(target.units)
            follower.done(workers, step=step)
        train(step)

slaqd writes ``target.json`` in the directory, the job ``ack.json``; nobody writes the other's.
Whatever stands in ``target.json``, and if nothing does, the job goes on with what it has.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_MOST = 4096  # bytes of a target


class Target(NamedTuple):
    """What slaqd wants: ``units``, within the bounds, best before ``deadline`` (seconds since 1970)."""

    units: int
    deadline: float
    seq: int
    reason: str


class Follower:
    """Follows the targets in one directory, which is made where it isn't there.

    With ``job`` (the manager's id), targets that an earlier job left there are passed over.
    """

    def __init__(self, directory: str | os.PathLike[str], job: str | None = None) -> None:
        self._directory = Path(directory)
        self._job = job
        self._seq = 0
        self._unsaid = b""
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)

    def poll(self) -> Target | None:
        """Give a target that is newer than the last one given, or None. Costs one read of a small file."""
        if self._unsaid:
            self._write(self._unsaid)
        try:
            with (self._directory / "target.json").open("rb") as file:
                target = self._understood(json.loads(file.read(_MOST)))
        except (OSError, ValueError, RecursionError, KeyError, TypeError, OverflowError):
            return None
        if target is None or target.seq <= self._seq:
            return None
        self._seq = target.seq
        return target

    def done(
        self, units: int, *, step: int | None = None, checkpoint_age_s: float | None = None, note: str = ""
    ) -> bool:
        """Answer with the units that the job holds now; False where it can't be written: `poll` tries again.

        Before the first target it tells what the job began with, which is what a restore gives back.
        """
        said = {"v": 1, "seq": self._seq, "state": "applied", "units": int(units), "step": step}
        more = {"time": time.time(), "checkpoint_age_s": checkpoint_age_s, "note": note[:200]}
        return self._write(json.dumps({**said, **more}, allow_nan=False).encode())

    def _understood(self, said: dict[str, object]) -> Target | None:
        v, seq, units, low, high = (_whole(said[name]) for name in ("v", "seq", "units", "min", "max"))
        if v != 1 or not 1 <= low <= high or (self._job is not None and said["job"] != self._job):
            return None
        deadline = float(str(said["deadline"]))
        return Target(max(low, min(units, high)), deadline, seq, str(said.get("reason", "")))

    def _write(self, said: bytes) -> bool:
        new = self._directory / f"ack.json.{os.getpid()}"
        self._unsaid = said
        with suppress(OSError):
            with new.open("wb") as file:
                file.write(said)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._directory / "ack.json")
            self._unsaid = b""
        return not self._unsaid


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value
