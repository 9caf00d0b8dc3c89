"""What is done with the agent's rights: writing to cgroups, for slaqd has no right to.

Runs inside slaqd-agent, as root with no capability that helps. It writes to nothing but
the group that all jobs' groups are in, the jobs' groups, what makes the kernel divide
CPU among them, and ``cgroup.procs`` of the groups that a job's processes came from.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from slaqd.types import JobKey
from slaqd_local import config as configuration
from slaqd_local import groups, requests
from slaqd_local.cgroup1 import Cgroup1
from slaqd_local.cgroup2 import Cgroup2
from slaqd_local.config import MANAGER
from slaqd_local.groups import Move
from slaqd_local.guard import Guard, be_ours, guarded, refusal
from slaqd_local.hierarchy import may_divide
from slaqd_local.leftovers import NOBODY, left_behind
from slaqd_local.means import Cgroups, period_us
from slaqd_local.processes import Table
from slaqd_local.requests import Answer, Clear, Gather, GiveBack, Hold, Lift, Named, Sweep, WhyNot

_KINDS: dict[str, type[Cgroup1 | Cgroup2]] = {Cgroup2.name: Cgroup2, Cgroup1.name: Cgroup1}
_NOTHING: Table = {}


class LocalHands:
    """Holds and frees jobs for a slaqd without rights; see `slaqd.adapter.Hands`.

    Parameters
    ----------
    config
        The section ``[adapter.local]``.
    least_uid
        Users below it are the system's own: their processes are not touched.

    """

    Config = configuration.Config
    Request = requests.Request

    def __init__(self, config: configuration.Config, least_uid: int) -> None:
        self._config = config
        self._least_uid = max(1, least_uid)
        self._one_at_a_time = threading.Lock()
        self._weights = {name: kind.weights() for name, kind in _KINDS.items()}
        self._sweep_all()

    def do(self, request: Any) -> object:  # noqa: ANN401 - bounds and types are checked here
        """See `slaqd.adapter.Hands.do`.

        Raises
        ------
        PermissionError
            It asks for more than is granted; the text names what.
        OSError
            The kernel says no.

        """
        asked = _checked(request)
        with self._one_at_a_time:
            if isinstance(asked, WhyNot):
                return Answer(self._why_not(asked.means, self._kind(asked.means)))
            if isinstance(asked, Sweep):
                _sweep(self._kind(asked.means), {_key(*job) for job in asked.jobs}.__contains__)
                return None
            self._change(asked)
            return None

    def _sweep_all(self) -> None:
        """Remove what an agent that was killed left: slaqd may never ask for it, or be gone for good."""
        for name in _KINDS:
            with suppress(OSError):  # that means is not to be had, or not ours to write to
                means = self._kind(name)
                _sweep(means, lambda _key: True)
                for _, place in means.places(NOBODY):
                    be_ours(place)
                means.clear(NOBODY)  # the group above, if it is empty

    def _change(self, asked: Named) -> None:
        guard = Guard(asked.uid, self._least_uid)
        key = _key(asked.id, asked.start)
        places: set[Path] = set()
        means = self._kind(asked.means, move=guarded(guard, places))
        why = self._why_not(asked.means, means)
        if why is not None:
            raise refusal(why)
        places |= {directory for _, directory in means.places(key)}
        for directory in places:
            guard.own(directory)
        self._do(asked, means, key, guard)

    def _do(self, asked: Named, means: Cgroups, key: JobKey, guard: Guard) -> None:
        match asked:
            case Hold(pids=pids, milli=milli):
                self._fits(milli)
                _hold(means, guard, key, pids, milli)
            case Gather(pids=pids):
                _is_held(means, key)
                _gather(means, guard, key, pids)
            case Lift():
                means.lift(key)
            case GiveBack(origins=origins):
                means.give_back(key, guard.checked(origins, means.places(key)))
            case Clear():
                means.clear(key)

    def _kind(self, name: str, move: Move = groups.move) -> Cgroups:
        if self._config.means not in {"auto", name}:
            msg = f"jobs are held by {self._config.means} alone, as the configuration says, not by {name}"
            raise refusal(msg)
        period, weights = period_us(self._config.unit_milli), self._weights[name]
        return _KINDS[name](self._config.cgroup, period, move, weights, shared=True)

    def _fits(self, milli: int) -> None:
        unit = self._config.unit_milli
        most = max(unit, 1000 * (os.cpu_count() or 1))
        if not unit <= milli <= most:
            msg = f"{milli} thousandths of a core are not between one unit, {unit}, and this machine's {most}"
            raise refusal(msg)

    @staticmethod
    def _why_not(name: str, means: Cgroups) -> str | None:
        why = means.why_not()
        if why is not None:
            return why
        for tree, _ in means.places(NOBODY):
            point = tree.mount.point
            if not may_divide(point):
                return f"slaqd-agent has no right to make groups in {point}"
            # The root of a container's hierarchy would have to be emptied first (see Cgroup2).
            if name == Cgroup2.name and (point / "cgroup.type").exists() and groups.members(point):
                return f"{point} is not the hierarchy's root, and processes stand in it"
        return None


def _key(number: int, start: int) -> JobKey:
    return JobKey(MANAGER, str(number), start)


def _sweep(means: Cgroups, is_asked: Callable[[JobKey], bool]) -> None:
    for key in left_behind(means, lambda key: not is_asked(key)):
        with suppress(PermissionError):  # one that isn't ours stays, and keeps no other from going
            for _, place in means.places(key):
                be_ours(place)
            means.clear(key)


def _checked(request: object) -> requests.Request:
    try:
        checked: requests.Request = msgspec.convert(msgspec.to_builtins(request), requests.Request)
    except (msgspec.ValidationError, TypeError) as error:
        msg = f"not a request that is served: {error}"
        raise refusal(msg) from error
    return checked


def _hold(means: Cgroups, guard: Guard, key: JobKey, pids: Collection[int], milli: int) -> None:
    if means.look(key) is not None:
        # What can't be moved must not stop the quota: a job would keep its largest one.
        means.hold(key, (), milli)
        _gather(means, guard, key, pids)
        return
    guard.vouch(pids)
    why = means.bars(pids)
    if why is not None:
        raise refusal(why)
    means.hold(key, pids, milli)


def _gather(means: Cgroups, guard: Guard, key: JobKey, pids: Collection[int]) -> None:
    inside = set.intersection(*(set(groups.members(directory)) for _, directory in means.places(key)))
    guard.vouch([pid for pid in pids if pid not in inside])
    means.gather(key, means.outside(key, pids), _NOTHING)


def _is_held(means: Cgroups, key: JobKey) -> None:
    if means.look(key) is None:
        msg = f"job {key} is not held by {means.name}"
        raise refusal(msg)
