"""A means whose groups slaqd looks at itself, and has its agent write to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from slaqd.adapter import AsUser
from slaqd.errors import AdapterUnavailable
from slaqd.types import JobKey, Struct
from slaqd_local import processes
from slaqd_local.means import Cgroups, Origins, Seen
from slaqd_local.processes import Table
from slaqd_local.requests import MOST_PIDS, Answer, Cgroup, Clear, Gather, GiveBack, Hold, Lift, Sweep, WhyNot


class Remote:
    """Holds one user's jobs through the agent.

    Methods that write raise `slaqd.errors.AgentUnavailable` where its answer is lost:
    the change may have been made. OSError, as ever, where it was refused.
    """

    def __init__(self, local: Cgroups, as_user: AsUser, uid: int) -> None:
        self.name = local.name
        self._local = local
        self._as_user = as_user
        self._uid = uid

    def why_not(self) -> str | None:
        """See `Means.why_not`; an agent that doesn't answer is a reason too."""
        try:
            return self._local.why_not() or self._as_user.hands(WhyNot(self._means), Answer).why
        except OSError as error:
            return _words(error)
        except AdapterUnavailable as error:
            return str(error)

    def bars(self, pids: Collection[int]) -> str | None:
        """See `Means.bars`: nobody else's process is moved, whoever started it."""
        for pid in sorted(pids):
            if processes.real_uid(pid) not in {None, self._uid}:
                return f"process {pid} belongs to another user and is not moved"
        return self._local.bars(pids)

    def origins(self, pids: Collection[int]) -> Origins:
        """See `Means.origins`."""
        return self._local.origins(pids)

    def look(self, key: JobKey) -> Seen | None:
        """See `Means.look`."""
        return self._local.look(key)

    def outside(self, key: JobKey, pids: Collection[int]) -> list[int]:
        """See `Means.outside`; another user's process is left outside."""
        return self._own(self._local.outside(key, pids))

    def trouble(self, pids: Collection[int]) -> str | None:
        """See `Means.trouble`."""
        return self._local.trouble(pids)

    def escapes(self, pids: Collection[int]) -> str | None:
        """See `Means.escapes`."""
        return self._local.escapes(pids)

    def hold(self, key: JobKey, pids: Collection[int], milli: int) -> None:
        """See `Means.hold`."""
        held = self._local.look(key) is not None
        own = self._own(self._local.outside(key, pids) if held else pids)
        first, rest = own[:MOST_PIDS], own[MOST_PIDS:]
        self._ask(Hold(self._means, int(key.id), key.start, self._uid, tuple(first), milli))
        self._gather(key, rest)

    def gather(self, key: JobKey, pids: Collection[int], table: Table) -> None:
        """See `Means.gather`."""
        del table
        self._gather(key, list(pids))

    def lift(self, key: JobKey) -> None:
        """See `Means.lift`."""
        self._ask(Lift(self._means, int(key.id), key.start, self._uid))

    def give_back(self, key: JobKey, origins: Origins) -> None:
        """See `Means.give_back`."""
        self._ask(GiveBack(self._means, int(key.id), key.start, self._uid, origins))

    def clear(self, key: JobKey) -> None:
        """See `Means.clear`."""
        self._ask(Clear(self._means, int(key.id), key.start, self._uid))

    def sweep(self, keys: Sequence[JobKey]) -> None:
        """Remove what these ended jobs left behind, whose they ever were."""
        jobs = tuple((int(key.id), key.start) for key in keys[:MOST_PIDS])
        self._ask(Sweep(self._means, jobs))

    def close(self) -> None:
        """See `Means.close`."""
        self._local.close()

    @property
    def _means(self) -> Cgroup:
        return cast("Cgroup", self.name)

    def _own(self, pids: Collection[int]) -> list[int]:
        return [pid for pid in pids if processes.real_uid(pid) == self._uid]

    def _gather(self, key: JobKey, pids: list[int]) -> None:
        for at in range(0, len(pids), MOST_PIDS):
            some = tuple(pids[at : at + MOST_PIDS])
            self._ask(Gather(self._means, int(key.id), key.start, self._uid, some))

    def _ask(self, request: Struct) -> None:
        try:
            self._as_user.hands(request, type(None))
        except OSError as error:
            raise OSError(_words(error)) from error  # for the user, who cares for no number


def _words(error: OSError) -> str:
    return error.strerror or str(error)
