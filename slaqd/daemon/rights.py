"""Who may ask for what: root, slaqd's user and the admin group for everything, others for their own jobs."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable

from slaqd.adapter import Adapter
from slaqd.clock import Clock
from slaqd.daemon.door import Buckets
from slaqd.errors import ControlError, JobGone, NotPermitted
from slaqd.types import JobKey, Owner

ASKS_PER_S = 50.0
ASKS_BURST = 200.0
MEMBER_S = 60.0
"""A group's members are asked of the name service so often at most, for each user."""


_MOST_MEMBERS = 10_000


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
    admins
        Names the group whose members are admins too; empty where there is none.

    """

    def __init__(
        self,
        adapter: Adapter,
        clock: Clock,
        *,
        everybody: bool = False,
        admins: Callable[[], str] = str,
    ) -> None:
        self.own = os.geteuid()
        self._adapter = adapter
        self._clock = clock
        self._admins = admins
        self._members: dict[tuple[str, int], tuple[float, bool]] = {}
        self.everybody = everybody
        self._asked = Buckets(ASKS_PER_S, ASKS_BURST, clock.monotonic)

    def serves(self, uid: int) -> bool:
        """Tell whether a user gets any answer."""
        return self.everybody or self.admin(uid)

    def admin(self, uid: int) -> bool:
        """Tell whether a user may do everything."""
        return uid in (0, self.own) or self._is_member(uid)

    def _is_member(self, uid: int) -> bool:
        group = self._admins()
        if not group:
            return False
        now = self._clock.monotonic()
        at, known = self._members.get((group, uid), (-MEMBER_S, False))
        if now - at >= MEMBER_S:
            if len(self._members) >= _MOST_MEMBERS:
                self._members.clear()
            known = is_member(uid, group)
            self._members[group, uid] = (now, known)
        return known

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

    def check_often(self, uid: int, buckets: Buckets, what: str) -> None:
        """Let an admin pass, another user while there are tokens; else `ControlError` (``busy``)."""
        if not self.admin(uid) and not buckets.take(uid):
            raise ControlError("busy", f"uid {uid} asks for {what} too often: wait a moment")

    def check_admin(self, uid: int, what: str) -> None:
        """Let an admin pass; `NotPermitted` for everybody else."""
        if not self.admin(uid):
            group = self._admins()
            others = f", uid {self.own} and the group {group}" if group else f" and uid {self.own}"
            raise NotPermitted(f"{what} is for root{others}; you are uid {uid}")


def is_member(uid: int, group: str) -> bool:
    """Tell whether a user is in a group, as the name service says now; unknown ones are in none."""
    try:
        user = pwd.getpwuid(uid)
        return grp.getgrnam(group).gr_gid in os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OverflowError):
        return False
