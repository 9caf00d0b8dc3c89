"""Who may ask for what: root and slaqd's own user for everything, others for their own jobs."""

from __future__ import annotations

import os

from slaqd.adapter import Adapter
from slaqd.clock import Clock
from slaqd.daemon.door import Buckets
from slaqd.errors import ControlError, JobGone, NotPermitted
from slaqd.types import JobKey, Owner

ASKS_PER_S = 50.0
ASKS_BURST = 200.0


class Rights:
    """Judges peers by the uid that the kernel names.

    What is shown goes by the owner in the snapshot. For an act the manager is asked
    afresh, for ids are reused and jobs change hands; so often, and not more, for one
    uid.

    Parameters
    ----------
    adapter, clock
        Whom to ask, and how often.
    everybody
        Whether users other than root and slaqd's own are served at all.

    """

    def __init__(self, adapter: Adapter, clock: Clock, *, everybody: bool = False) -> None:
        self.own = os.geteuid()
        self._adapter = adapter
        self.everybody = everybody
        self._asked = Buckets(ASKS_PER_S, ASKS_BURST, clock.monotonic)

    def serves(self, uid: int) -> bool:
        """Tell whether a user gets any answer."""
        return self.everybody or self.admin(uid)

    def admin(self, uid: int) -> bool:
        """Tell whether a user may do everything."""
        return uid in (0, self.own)

    def sees(self, uid: int, owner: int | None) -> bool:
        """Tell whether a user may see the jobs of another."""
        return self.admin(uid) or uid == owner

    def owner(self, uid: int, key: JobKey) -> Owner:
        """Ask the manager afresh whose job it is, in the name of ``uid``.

        Raises
        ------
        ControlError
            There is no such job (``not_found``), or this user has asked too often (``busy``).
        AdapterError
            The manager doesn't say.

        """
        if uid != 0 and not self._asked.take(uid):
            raise ControlError("busy", f"uid {uid} asks for acts on jobs too often: wait a moment")
        try:
            return self._adapter.owner(key)
        except JobGone as error:
            raise ControlError("not_found", str(error)) from error

    def check_act(self, uid: int, key: JobKey) -> None:
        """Let a user act on a job, or raise as `owner` does; `NotPermitted` where it is another's.

        An admin needs no look: the brakes work while the manager is away.
        """
        if self.admin(uid):
            return
        owner = self.owner(uid, key)
        if owner.uid != uid:
            raise NotPermitted(f"job {key} belongs to {owner.name}, you are uid {uid}")

    def check_admin(self, uid: int, what: str) -> None:
        """Let an admin pass; `NotPermitted` for everybody else."""
        if not self.admin(uid):
            raise NotPermitted(f"{what} is for root and uid {self.own}; you are uid {uid}")
