"""How long users' files make slaqd wait, and whose turn it is. Nobody's files cost others their turn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from slaqd.clock import Clock

USER_S = 1.0
"""Seconds that one user's files may take in a look, and again in what is told; a call is waited for."""
ALL_S, ALL_SHARE = 3.0, 1 / 3
"""Seconds, and the share of the time until the deadline, that all users' files may take in one look."""

SLOW = "its user's files answer too slowly, or are too many: keep dir= on a file system that answers at once"
LATE = "its answer was not read in time: it comes first next time"


class FileTime:
    """Charges the time that files take to their user, from one look to the next.

    Parameters
    ----------
    clock
        Its monotonic time is measured.

    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: dict[int, float] = {}
        self._looked: dict[int, float] = {}
        self._turned_away: set[int] = set()
        self._slow: set[int] = set()
        self._all_s = self._share_s = USER_S
        self._deadline = math.inf

    def begin(self, uids: Iterable[int], deadline: float) -> None:
        """Give every user new time; who took more than an even share, or was turned away, comes last."""
        users = set(uids)
        self._slow = {uid for uid in users if self._was_slow(uid)}
        self._spent, self._looked, self._turned_away = {}, {}, set()
        self._deadline = deadline
        self._all_s = min(ALL_S, max(deadline - self._clock.monotonic(), 0.0) * ALL_SHARE)
        self._share_s = min(USER_S, ALL_S / max(len(users), 1))

    def tell(self) -> None:
        """Give every user time for what is told now: who has many jobs may have none left of the look."""
        self._looked = dict(self._spent)

    def _was_slow(self, uid: int) -> bool:
        if uid in self._turned_away:
            return True
        spent = self._spent.get(uid)
        return uid in self._slow if spent is None else spent > self._share_s

    @contextmanager
    def charged(self, uid: int) -> Iterator[None]:
        """Charge what is done meanwhile to a user, however it ends."""
        began = self._clock.monotonic()
        try:
            yield
        except TimeoutError:  # the agent lets this user's files rest: each further question is one too many
            self._turned_away.add(uid)
            raise
        finally:
            self._spent[uid] = self._spent.get(uid, 0.0) + self._clock.monotonic() - began

    def is_spent(self, uid: int) -> bool:
        """Tell whether a user has no more time now."""
        spent = self._spent.get(uid, 0.0) - self._looked.get(uid, 0.0)
        return uid in self._turned_away or spent >= USER_S

    def bar(self, uid: int) -> str:
        """Say why a user's file is not read in this look; empty where it may be."""
        if self.is_spent(uid):
            return SLOW
        late = sum(self._spent.values()) >= self._all_s or self._clock.monotonic() > self._deadline
        return LATE if late else ""

    def is_slow(self, uid: int) -> bool:
        """Tell whether a user's files took long when they were asked for last: others come first now."""
        return uid in self._slow
