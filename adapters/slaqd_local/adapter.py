"""The adapter for this machine: jobs are process groups, their lever is a CPU quota."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from slaqd.adapter import AsUser, Capabilities, LeverSpec, Registration, Store
from slaqd.clock import Clock
from slaqd.errors import AdapterRefused, AdapterUnavailable, JobGone, StateError
from slaqd.types import Action, Finding, Job, JobKey, Lever, Outcome, Owner, Refused, Restore, Snapshot, State
from slaqd_local import capacity, processes, rows
from slaqd_local import config as configuration
from slaqd_local.accounts import Account, Accounts
from slaqd_local.acts import Acts
from slaqd_local.config import MANAGER, POOL
from slaqd_local.findings import findings
from slaqd_local.holder import Holder
from slaqd_local.means import Seen
from slaqd_local.notes import Notes
from slaqd_local.rows import Facts
from slaqd_local.sight import Sight, View, Views
from slaqd_local.unheard import Unheard

_GATHERINGS = 5
_CROWDED = 0.95
_LIFTINGS = 2
_NOBODY = -1


class LocalAdapter:
    """Makes a resource manager of this machine.

    Jobs come from the core's registrations: a job is a process group and all its
    descendants. It lives while any process of it lives. How each is held is read
    back from the kernel, not remembered.
    """

    Config = configuration.Config

    def __init__(
        self, config: configuration.Config, clock: Clock, store: Store, as_user: AsUser | None = None
    ) -> None:
        self._config = config
        # The control socket's threads ask whose a job is while the loop looks and acts.
        self._one_at_a_time = threading.RLock()
        self._clock = clock
        self._store = store
        self._holder = Holder(config, as_user)
        self._sight = Sight(store, self._holder)
        self._accounts = Accounts()
        self._others = capacity.Others()
        self._left: dict[JobKey, View] = {}
        self._acts = Acts(self._holder, self._accounts, config.unit_milli, self._all_units())

    def check(self) -> Sequence[Finding]:
        """See `slaqd.adapter.Adapter.check`."""
        return findings(self._config, self._holder, self._all_units())

    def owner(self, key: JobKey) -> Owner:
        """See `slaqd.adapter.Adapter.owner`.

        A key that is not registered is one too, if it is that of a process group.

        Raises
        ------
        JobGone
            No process of the job lives.
        AdapterRefused
            It is the group of init, which is the system itself, or slaqd's own.
        AdapterUnavailable
            ``/proc`` can't be read.

        """
        if key.id in {"0", "1"}:
            msg = f"process group {key.id} is the system's own, not a job's"
            raise AdapterRefused(msg)
        self._refuse_own(key)
        for pid in self._asked(key):
            uid = processes.real_uid(pid)
            if uid is not None:
                return Owner(uid=uid, name=_user_name(uid))
        msg = f"job {key} has ended or never was"
        raise JobGone(msg)

    def _refuse_own(self, key: JobKey) -> None:
        if key.id == str(os.getpgrp()):
            msg = (
                f"process group {key.id} is the one that slaqd runs in, and slaqd can't hold itself:"
                " start the job, or slaqd, in a group of its own (slaqctl run does, and setsid)"
            )
            raise AdapterRefused(msg)
        if key.id in map(str, self._holder.apart):  # each keeper leads a group of its own
            msg = (
                f"process group {key.id} is a keeper's, by which slaqd holds a job:"
                " name that job's own group, see: slaqctl jobs"
            )
            raise AdapterRefused(msg)

    def capabilities(self) -> Capabilities:
        """See `slaqd.adapter.Adapter.capabilities`."""
        file = LeverSpec(swap_atomic=False)  # a growth waits until the other job has let go
        levers = {Lever.NONE: LeverSpec(), Lever.CPUS: LeverSpec(), Lever.FILE: file}
        return Capabilities(levers=levers, min_epoch_s=0.5, actions_per_s=1000.0)

    def snapshot(self, deadline: float) -> Snapshot:
        """See `slaqd.adapter.Adapter.snapshot`; one pass over ``/proc``, two where a job seems to have ended.

        Beside looking it keeps up what was asked for: a dead keeper is replaced, and
        processes that joined a held job come under its quota.

        Raises
        ------
        AdapterUnavailable
            ``/proc`` can't be read, or the deadline has passed.

        """
        with self._one_at_a_time:
            self._in_time(deadline)
            boot = _boot()
            views = self._views(boot)
            at = self._clock.monotonic()
            jobs = tuple([self._row(view, at) for view in views.values()])
            self._note_ends(views, jobs)
            self._keep_up(views)
            self._accounts.keep(set(views))
            room = {"cpu_milli": self._room(at) * self._config.unit_milli}
            self._in_time(deadline)
            return Snapshot(taken_at=at, incarnation=boot, pools={POOL: room}, jobs=jobs)

    def apply(self, actions: Sequence[Action], deadline: float) -> Sequence[Outcome]:
        """See `slaqd.adapter.Adapter.apply`. What the deadline cuts off is refused, and may be asked again.

        Raises
        ------
        AdapterUnavailable
            ``/proc`` can't be read: nothing was done.

        """
        with self._one_at_a_time:
            boot = _boot()
            views = self._views(boot)
            outcomes = [self._one(action, views.get(action.key), boot, deadline) for action in actions]
            self._gather_all(views, {each.key for each in actions if not isinstance(each, Restore)})
            return outcomes

    def close(self, *, restore: bool) -> None:
        """See `slaqd.adapter.Adapter.close`: with ``restore`` the jobs go on without quotas.

        Where they came from stays written down, and a new slaqd adopts them again.
        Jobs that keepers hold run free either way.

        Raises
        ------
        AdapterUnavailable
            Some may be held still: the agent doesn't answer, or the kernel refused.

        """
        with self._one_at_a_time:
            left = self._lift_all() if restore else 0
            if restore and not left:
                self._sweep_last()
            self._holder.close()
        if left:
            msg = f"jobs that could not be let go: {left}"
            raise AdapterUnavailable(msg)

    def _one(self, action: Action, view: View | None, boot: str, deadline: float) -> Outcome:
        if self._clock.monotonic() > deadline:
            return Refused("the deadline passed before its turn", retry=True)
        return self._acts.one(action, view, boot)

    def _row(self, view: View, at: float) -> Job:
        key, notes = view.registration.key, view.notes
        restored = notes.restored and rows.lever(view.registration)[0] is not Lever.FILE
        account = self._accounts.of(key)
        consumed = account.consumed(notes, view.seen, view.family)
        # What it consumed under slaqd's holds stands still while it is in none.
        spent = account.spent(consumed if view.seen is not None else None, view.family)
        if not restored:  # whatever its row says that it holds is no other process's use
            self._accounts.total += spent
        if view.state is State.ENDED:  # noted before or not: a kill may have come before the clearing
            self._left[key] = view
        facts = Facts(
            state=view.state,
            seen=view.seen,
            in_hold=notes.hold is not None,
            restored=restored,
            cpu_seconds=consumed,
            uses=account.rate(at, spent),
            spares=self._spares(account, at, consumed, view.seen),
            escapes=self._escapes(view),
            gap=view.gap or self._trouble(view),
        )
        return rows.row(view.registration, facts, self._config.unit_milli, self._all_units())

    def _trouble(self, view: View) -> str | None:
        # What shall be held no more may have any part outside.
        return self._holder.trouble(view.notes.hold, view.pids) if view.under_quota else None

    def _escapes(self, view: View) -> str | None:
        if view.seen is None or view.seen.milli is None or view.notes.restored or not view.under_quota:
            return None
        return self._holder.escapes(view.notes.hold, view.family.pids - view.seen.pids)

    def _spares(self, account: Account, at: float, consumed: float | None, seen: Seen | None) -> float | None:
        if seen is None:
            return None
        crowded = self._others.busy > _CROWDED * len(os.sched_getaffinity(0))
        return account.demand.look(at, consumed, seen, crowded=crowded)

    def _views(self, boot: str) -> dict[JobKey, View]:
        try:
            return self._sight.look(self._registrations(), boot)
        except OSError as error:
            raise _unreadable(error) from error

    def _registrations(self) -> list[Registration]:
        known = self._store.registrations()
        return [each for each in known if each.key.manager == MANAGER and each.key.id.isdecimal()]

    def _gather_all(self, views: Views, touched: set[JobKey]) -> None:
        # A process that was forked between the look and the move is outside: look again.
        live = {key: view for key, view in views.items() if view.state is not State.ENDED}
        unheard = Unheard()
        for _ in range(_GATHERINGS):
            live = self._sight.again(live)
            if not self._gather([view for key, view in live.items() if key in touched], unheard):
                return

    def _note_ends(self, views: Views, jobs: Sequence[Job]) -> None:
        over = [job for job in jobs if job.state is State.ENDED and not views[job.key].notes.ended]
        with suppress(StateError):  # on a full disk it is noted at a later look; the rows stand
            Notes.end_all(self._store, [(views[job.key].notes, job.cpu_seconds) for job in over])

    def _keep_up(self, views: Views) -> None:
        unheard = Unheard()
        for key, view in list(self._left.items()):
            if unheard.heard(view.registration.owner.uid, partial(self._clear, view)):
                del self._left[key]
        self._gather(views.values(), unheard)
        unheard.heard(_NOBODY, lambda: self._sweep(lambda key: key in views or key in self._left))

    def _sweep(self, is_known: Callable[[JobKey], bool]) -> bool:
        self._holder.sweep(is_known)
        return True

    def _gather(self, views: Iterable[View], unheard: Unheard) -> bool:
        found = False
        for view in views:
            held = view.under_quota and view.notes.hold is not None and not view.notes.restored
            if held and view.family.pids:
                found |= unheard.heard(view.registration.owner.uid, partial(self._gather_one, view))
        return found

    def _gather_one(self, view: View) -> bool:
        job, pids = view.registration, view.family.pids
        try:
            return self._holder.gather(job.key, job.owner.uid, view.notes, pids, self._sight.table)
        except OSError:
            return False  # this job's trouble shows in its own row, as units that don't hold

    def _lift_all(self) -> int:
        # No later look makes up for it: who wasn't heard once is tried once more after all others.
        left = self._registrations()
        for _ in range(_LIFTINGS):
            unheard = Unheard()
            left = [job for job in left if not unheard.heard(job.owner.uid, partial(self._lift, job))]
            if unheard.gone:
                break
        return len(left)

    def _sweep_last(self) -> None:
        live = {job.key for job in self._registrations()} - set(self._left)
        with suppress(AdapterUnavailable):  # no job is held by what is left: the next start removes it
            self._holder.sweep(live.__contains__)

    def _lift(self, job: Registration) -> bool:
        # One job's trouble must not leave the others under quota.
        try:
            self._holder.lift(job.key, job.owner.uid, Notes(self._store, job.key).hold)
        except OSError:
            return False
        return True

    def _clear(self, view: View) -> bool:
        # A group is busy as long as its last process waits to be reaped: a later look removes it.
        job = view.registration
        try:
            self._holder.clear(job.key, job.owner.uid, view.notes.hold)
            return self._holder.is_clear(job.key, view.notes.hold)
        except OSError:
            return True  # an empty group is no harm, and swept once its registration is closed

    def _asked(self, key: JobKey) -> Iterator[int]:
        # Users may ask often: as long as the leader lives it is asked alone, and nobody waits.
        if self._leads(key):
            yield int(key.id)
        with self._one_at_a_time:
            pids = self._pids(key)
        yield from sorted(pids)

    def _leads(self, key: JobKey) -> bool:
        try:
            leader = processes.read(int(key.id)) if key.id.isdecimal() else None
        except OSError:
            return False  # no number that a process can have, or the pass says what is wrong
        if leader is None or not leader.alive or leader.start != key.start:
            return False
        # Numbers and starts come again after a restart of the machine.
        return Notes(self._store, key).may_be_of(_boot())

    def _pids(self, key: JobKey) -> frozenset[int]:
        views = self._views(_boot())
        if key in views:
            return views[key].pids
        leader = self._sight.table.get(int(key.id)) if key.id.isdecimal() else None
        alive = leader is not None and leader.alive and leader.start == key.start
        return frozenset({int(key.id)}) if alive else frozenset()

    def _room(self, at: float) -> int:
        try:
            others = self._others.look(at, capacity.busy_seconds(), self._accounts.total)
            limits = [self._config.cores, capacity.quota_cores()]
        except OSError as error:
            raise _unreadable(error) from error
        return capacity.units(
            cores=len(os.sched_getaffinity(0)),
            limits=[limit for limit in limits if limit is not None],
            others=others,
            reserve=self._config.reserve_milli / 1000,
            unit=self._config.unit_milli / 1000,
        )

    def _all_units(self) -> int:
        return max(1, len(os.sched_getaffinity(0)) * 1000 // self._config.unit_milli)

    def _in_time(self, deadline: float) -> None:
        if self._clock.monotonic() > deadline:
            msg = "this machine was too slow: the deadline has passed"
            raise AdapterUnavailable(msg)


def _boot() -> str:
    try:
        return processes.boot_id()
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> AdapterUnavailable:
    return AdapterUnavailable(f"/proc can't be read: {error}")


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
