"""Whose requests the agent left without an answer, and when to stop asking it."""

from __future__ import annotations

from collections.abc import Callable

from slaqd.errors import AdapterUnavailable

MOST = 3
"""After lost answers for so many users the agent is taken to be gone."""


class Unheard:
    """Remembers lost answers through one pass over jobs.

    A lost answer may be one user's own doing, who has so much in a job that its request
    takes too long. It costs her other jobs their turn, and nobody else's jobs theirs.
    """

    def __init__(self) -> None:
        self._uids: set[int] = set()

    @property
    def gone(self) -> bool:
        """Whether the agent is to be asked no more."""
        return len(self._uids) >= MOST

    def heard(self, uid: int, ask: Callable[[], bool]) -> bool:
        """Ask in a user's name and give the answer; False where there is none, or it is not her turn."""
        if self.gone or uid in self._uids:
            return False
        try:
            return ask()
        except AdapterUnavailable:
            self._uids.add(uid)
            return False
