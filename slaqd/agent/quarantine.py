"""What is left alone for a while, because looking at it hangs or takes long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

FIRST_S, LONGEST_S = 10.0, 300.0
"""A source that hangs is tried again after the first, then twice as long each time, up to the second."""


class _Term(NamedTuple):
    until: float
    length: float


class _Account(NamedTuple):
    seconds: float
    at: float


class Quarantine:
    """Keeps the sources that hang, each until its next trial. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._terms: dict[str, _Term] = {}

    def put(self, jobs: Iterable[str], now: float) -> None:
        """Leave these sources alone, twice as long as the time before."""
        for job in jobs:
            before = self._terms.get(job)
            length = FIRST_S if before is None else min(before.length * 2, LONGEST_S)
            self._terms[job] = _Term(now + length, length)

    def left(self, job: str, now: float) -> float:
        """Tell for how many seconds a source is still to be left alone; 0 if it isn't."""
        term = self._terms.get(job)
        return max(term.until - now, 0.0) if term else 0.0

    def hangs(self, job: str) -> bool:
        """Tell whether a source hung when it was last tried."""
        return job in self._terms

    def release(self, job: str) -> None:
        """Forget that a source hung: it answers."""
        self._terms.pop(job, None)

    def keep(self, jobs: set[str]) -> None:
        """Forget all others."""
        self._terms = {job: term for job, term in self._terms.items() if job in jobs}


class Rests:
    """Lets whoever takes long rest, so that in the long run nobody takes more than a share of the time.

    An account of seconds that were taken, each counted, however short; it runs out at
    ``share`` of a second per second. Who has more than ``free_s`` on it rests until it
    hasn't: many that are short cost as much as a few that are long.

    Parameters
    ----------
    free_s
        Seconds on the account that cost no rest.
    share
        Seconds of each second that one may take in the long run.

    """

    def __init__(self, free_s: float, share: float) -> None:
        self._free_s = free_s
        self._share = share
        self._accounts: dict[int, _Account] = {}

    def took(self, uid: int, seconds: float, now: float) -> None:
        """Note how long it took; ``now`` is monotonic."""
        owed = self._owed(uid, now) + seconds
        self._accounts = {each: account for each, account in self._accounts.items() if self._owed(each, now)}
        self._accounts[uid] = _Account(owed, now)

    def left(self, uid: int, now: float) -> float:
        """Tell for how many seconds somebody is still to be left alone."""
        return max(self._owed(uid, now) - self._free_s, 0.0) / self._share

    def _owed(self, uid: int, now: float) -> float:
        account = self._accounts.get(uid)
        return max(account.seconds - self._share * (now - account.at), 0.0) if account else 0.0


def together(path: str, others: Iterable[str], points: Sequence[str]) -> set[str]:
    """Pick the paths that hang where ``path`` does: those on the same mount, by their names."""
    mount = mount_of(path, points)
    return {other for other in others if mount and mount_of(other, points) == mount}


def mount_of(path: str, points: Iterable[str]) -> str:
    """Give the mount point that a path lies below by its name; "" for the root's own."""
    return max((point for point in points if path.startswith(point + "/")), key=len, default="")
