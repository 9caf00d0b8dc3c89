"""What can be asked on the control socket, verb by verb."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

import slaqd
from slaqd import tag as tags
from slaqd import wire
from slaqd.act import refusals
from slaqd.act.past import Ask
from slaqd.adapter import Registration
from slaqd.daemon.doctor import of_daemon
from slaqd.daemon.door import Buckets
from slaqd.daemon.in_time import BRAKE_S, in_time
from slaqd.daemon.loop import Loop, Parts
from slaqd.daemon.rights import Rights
from slaqd.daemon.view import ended_view, registered_view
from slaqd.errors import AdapterError, AdapterRefused, ControlError, NotPermitted, StateError, TagError
from slaqd.types import Finding, Health, JobKey, Lever, Owner, State, Struct, Tag
from slaqd.wire import JobArgs, JobView, Registered, Verb

A = TypeVar("A", bound=Struct)

SHOW_ENDED_S = 3600.0
MOST_REGISTERED = 10_000
"""So many jobs may one user have registered at the same time."""
MOST_REGISTERED_BYTES = 8 * 1024 * 1024
"""So many bytes may their registrations have, those that ended within `SHOW_ENDED_S` included."""
LONGEST_NAME = 256
HISTORIES_PER_S = 1.0
HISTORIES_BURST = 20.0
"""So often may a user who is no admin ask for the history: each answer reads thousands of rows."""
BRAKES_PER_S = 0.5
BRAKES_BURST = 30.0
"""So often may a user who is no admin pull brakes: each is written to disk."""


class Verbs:
    """Answers requests from the loop's last view and the journal.

    Root, the user that slaqd runs as and the members of ``admin_group`` may ask for
    everything; others, where they are served at all (``everybody``), see their own jobs
    and act on these.
    """

    def __init__(self, parts: Parts, loop: Loop, *, everybody: bool = False) -> None:
        self._parts = parts
        self._loop = loop
        self._rights = Rights(
            parts.adapter,
            parts.clock,
            everybody=everybody,
            admins=lambda: loop.config.slaqd.admin_group,
        )
        self._histories = Buckets(HISTORIES_PER_S, HISTORIES_BURST, parts.clock.monotonic)
        self._brakes = Buckets(BRAKES_PER_S, BRAKES_BURST, parts.clock.monotonic)
        self._started = parts.clock.wall()
        self._table: Mapping[Verb, Callable[[msgspec.Raw, int], Any]] = {
            Verb.STATUS: self._status,
            Verb.JOBS: self._jobs,
            Verb.SHOW: self._show,
            Verb.PLAN: self._plan,
            Verb.REGISTER: self._register,
            Verb.ENDED: self._ended,
            Verb.PAUSE: self._pause,
            Verb.RESUME: self._resume,
            Verb.RESTORE: self._restore,
            Verb.DROP: self._drop,
            Verb.DOCTOR: self._doctor,
            Verb.HISTORY: self._history,
        }

    def answer(self, request: wire.Request, uid: int) -> wire.Reply:
        """Answer one request of the peer ``uid``."""
        if not self._rights.serves(uid):
            return wire.failure("not_permitted", f"this slaqd serves uid {os.geteuid()}, you are uid {uid}")
        try:
            return wire.ok(self._table[request.verb](request.args, uid))
        except ControlError as no:
            return wire.failure(no.code, str(no))
        except msgspec.MsgspecError as error:
            return wire.failure("bad_request", f"{request.verb.value}: {error}")
        except AdapterRefused as no:
            return wire.failure("refused", str(no))
        except (AdapterError, StateError) as error:
            return wire.failure("unavailable", str(error))

    # what is

    def _status(self, _args: msgspec.Raw, _uid: int) -> wire.StatusView:
        view, config = self._loop.view, self._loop.config
        section = config.slaqd
        states = [job.state for job in view.jobs.values()]
        return wire.StatusView(
            version=slaqd.__version__,
            pid=os.getpid(),
            uid=os.geteuid(),
            mode=section.mode,
            paused=self._loop.paused,
            policy=config.policy.name,
            adapter=section.adapter,
            epoch_s=self._loop.epoch_s,
            started=self._started,
            cycles=view.cycles,
            sentence=view.sentence,
            pools=view.pools,
            room=sum(view.room.values()),
            planned=sum(allocation.units for allocation in view.plan.allocations) if view.plan else 0,
            running=states.count(State.RUNNING.value),
            waiting=states.count(State.WAITING.value),
            state_dir=section.state_dir,
            config=config.path,
            halted=self._loop.halted,
            alarm=self._loop.alarm,
            config_error=self._loop.config_error,
        )

    def _every(self) -> list[JobView]:
        live = dict(self._loop.view.jobs)
        known = self._parts.journal.registrations()
        fresh = {item.key: _unseen(item) for item in known if item.key not in live}
        ended = self._parts.journal.ended(self._parts.clock.wall() - SHOW_ENDED_S)
        over = [ended_view(row) for row in ended]
        gone = {row.registration.key for row in ended}
        return over + [view for key, view in (live | fresh).items() if key not in gone]

    def _jobs(self, _args: msgspec.Raw, uid: int) -> list[JobView]:
        seen = [view for view in self._every() if self._rights.sees(uid, view.uid)]
        return sorted(seen, key=lambda view: view.submitted)

    def _show(self, raw: msgspec.Raw, uid: int) -> JobView:
        name = _decode(raw, JobArgs).job
        named = [view for view in self._every() if view.job == name]
        if not named:
            raise ControlError("not_found", f"slaqd knows no job {name!r}; see: slaqctl jobs")
        seen = [view for view in named if self._rights.sees(uid, view.uid)]
        if not seen:
            raise NotPermitted(f"job {name} belongs to {named[-1].user}, you are uid {uid}")
        return max(seen, key=lambda view: view.submitted)

    def _plan(self, _args: msgspec.Raw, uid: int) -> wire.PlanView:
        view = self._loop.view
        rows = [
            wire.PlanRow(
                job=item.key.id,
                name=view.jobs[item.key].name if item.key in view.jobs else "",
                now=view.jobs[item.key].units if item.key in view.jobs else None,
                units=item.units,
                fall=item.fall,
                reason=item.reason,
            )
            for item in (view.plan.allocations if view.plan else ())
            if self._rights.sees(uid, view.jobs[item.key].uid if item.key in view.jobs else None)
        ]
        policy = self._loop.config.policy.name
        return wire.PlanView(policy=policy, room=sum(view.room.values()), rows=tuple(rows))

    def _doctor(self, _args: msgspec.Raw, uid: int) -> list[Finding]:
        self._rights.check_admin(uid, "slaqctl doctor")
        return of_daemon(self._parts, self._loop)

    def _history(self, raw: msgspec.Raw, uid: int) -> list[wire.EventView]:
        args = _decode(raw, wire.HistoryArgs)
        self._rights.check_often(uid, self._histories, "the history")
        whose = None if self._rights.admin(uid) else uid
        return list(self._parts.journal.past(Ask(job=args.job, since=args.since, uid=whose)))

    # what shall be

    def _register(self, raw: msgspec.Raw, uid: int) -> Registered:
        args = _decode(raw, wire.RegisterArgs)
        parts = self._parts
        key = JobKey(manager=parts.config.slaqd.adapter, id=str(args.pgid), start=args.start)
        _check_said(args)
        owner = self._rights.owner(uid, key)
        if not self._rights.sees(uid, owner.uid):
            raise NotPermitted(f"job {key.id} belongs to {owner.name}, you are uid {uid}")
        if not (self._rights.everybody or owner.uid == self._rights.own):
            raise NotPermitted(
                f"job {key.id} belongs to {owner.name}; this slaqd serves uid {self._rights.own} only"
            )
        self._check_room(key, owner)
        _log(key, owner, args)
        waits = args.waits and self._loop.enforcing and self._movable(args.tag)
        parts.journal.register(
            Registration(
                key=key,
                owner=owner,
                tag=args.tag,
                name=args.name,
                cwd=args.cwd,
                submitted=parts.clock.wall(),
                waits=waits,
            )
        )
        self._loop.wake()
        return Registered(job=key.id, wait=waits)

    def _movable(self, tag: Tag) -> bool:
        """Tell whether slaqd could hold such a job: one that is only advised need not wait."""
        levers = self._parts.adapter.capabilities().levers
        return tag.lever is None or (tag.lever is not Lever.NONE and tag.lever in levers)

    def _check_room(self, key: JobKey, owner: Owner) -> None:
        journal = self._parts.journal
        since = self._parts.clock.wall() - SHOW_ENDED_S
        if journal.bytes_of(owner.uid, since) >= MOST_REGISTERED_BYTES:
            what = (
                f"{MOST_REGISTERED_BYTES >> 20} MiB, the most there may be: shorter names and tags take less"
            )
            raise ControlError("refused", f"what {owner.name} has registered takes {what}")
        if journal.count_of(owner.uid) < MOST_REGISTERED:
            return
        if key not in {item.key for item in journal.registrations()}:
            raise ControlError(
                "refused", f"{owner.name} has {MOST_REGISTERED} jobs registered, the most there may be"
            )

    def _ended(self, raw: msgspec.Raw, uid: int) -> None:
        args = _decode(raw, wire.EndedArgs)
        key = JobKey(manager=self._parts.config.slaqd.adapter, id=args.job, start=args.start)
        # Its processes are gone: the manager can't be asked any more whose they were.
        if not self._rights.admin(uid):
            known = self._parts.journal.registered(key)
            if known is None:
                raise ControlError("not_found", f"slaqd knows no job {key.id!r} that began then")
            if known.owner.uid != uid:
                raise NotPermitted(f"job {key.id} belongs to {known.owner.name}, you are uid {uid}")
        self._parts.journal.keep_exit_status(key, args.status)

    def _pause(self, raw: msgspec.Raw, uid: int) -> str:
        return self._set_paused(_decode(raw, JobArgs).job, uid, paused=True)

    def _resume(self, raw: msgspec.Raw, uid: int) -> str:
        return self._set_paused(_decode(raw, JobArgs).job, uid, paused=False)

    def _set_paused(self, job: str | None, uid: int, *, paused: bool) -> str:
        if job is None:
            self._rights.check_admin(uid, "a brake on everything")
            self._parts.journal.pause_all(paused=paused)
            self._note("paused" if paused else "resumed", None, uid)
        else:
            self._pause_one(self._one(job, uid), uid, paused=paused)
        # What was being done when the brake was pulled is over when the answer comes, or the answer says so.
        with self._loop.between_acts(BRAKE_S) as over:
            self._loop.wake()
        what = "everything" if job is None else f"job {job}"
        if not paused:
            return f"{what} goes on"
        again = "slaqctl resume" if job is None else f"slaqctl resume {job}"
        late = "" if over else " (slaqd is busy with a cycle, which may still change something)"
        return f"{what} is paused: it keeps what it has until: {again}{late}"

    def _restore(self, raw: msgspec.Raw, uid: int) -> str:
        job = _decode(raw, JobArgs).job
        keys = self._pause_and_name(job, uid)
        why = "asked by slaqctl restore"
        what = "everything" if job is None else f"job {job}"
        wrong = in_time(self._loop, what, lambda: refusals(self._loop.restore(keys, why)))
        self._loop.wake()
        if wrong:
            raise ControlError("refused", "; ".join(wrong))
        if job is None:
            return f"jobs given back what they had: {len(keys)}; everything is paused until: slaqctl resume"
        return f"job {job} has back what it had, and is left alone until: slaqctl resume {job}"

    def _drop(self, raw: msgspec.Raw, uid: int) -> str:
        job = _decode(raw, wire.NamedJobArgs).job
        (key,) = self._pause_and_name(job, uid)  # should slaqd die between the two, it isn't taken up again
        in_time(self._loop, f"job {job}", lambda: self._forget(key))
        return f"job {job} has back what it had, and slaqd knows it no more"

    def _forget(self, key: JobKey) -> None:
        wrong = refusals(self._loop.restore([key], "asked by slaqctl drop"))
        if wrong:
            raise ControlError("refused", "; ".join(wrong))
        self._loop.forget(key)

    def _pause_and_name(self, job: str | None, uid: int) -> list[JobKey]:
        journal = self._parts.journal
        if job is None:
            self._rights.check_admin(uid, "a brake on everything")
            journal.pause_all(paused=True)
            self._note("paused", None, uid)
            return [registration.key for registration in journal.registrations()]
        one = self._one(job, uid)
        self._pause_one(one, uid, paused=True)
        return [one.key]

    def _pause_one(self, one: Registration, uid: int, *, paused: bool) -> None:
        journal = self._parts.journal
        was = one.key in journal.paused()
        journal.pause(one.key, paused=paused)
        if paused != was:  # asked again and again, it would push others' events out of the history
            self._note("paused" if paused else "resumed", one, uid)

    def _note(self, what: str, one: Registration | None, uid: int) -> None:
        """Put into the history what was asked, where the job's owner finds it, and by whom."""
        job, owner = (None, None) if one is None else (one.key.id, one.owner.uid)
        with suppress(StateError):  # what was asked is on disk already
            self._parts.journal.tell(
                what, f"asked by uid {uid}", self._parts.clock.wall(), job=job, uid=owner
            )

    def _one(self, job: str, uid: int) -> Registration:
        """Find a job that ``uid`` may act on, as often as one user may pull brakes."""
        found = [item for item in self._parts.journal.registrations() if item.key.id == job]
        if not found:
            raise ControlError("not_found", f"slaqd knows no running job {job!r}; see: slaqctl jobs")
        self._rights.check_act(uid, found[-1].key)
        self._rights.check_often(uid, self._brakes, "brakes on jobs")
        return found[-1]


def _decode(raw: msgspec.Raw, kind: type[A]) -> A:
    return msgspec.json.decode(raw, type=kind)


def _check_said(args: wire.RegisterArgs) -> None:
    """Refuse what no command line says: the wire carries text and numbers of any size."""
    _bounds(args)
    if len(args.name) > LONGEST_NAME:  # of any signs: whoever shows it escapes them
        what = f"a job's name has up to {LONGEST_NAME} characters: give another one with --name"
        raise ControlError("bad_request", what)
    if args.cwd and not args.cwd.startswith("/"):
        raise ControlError("bad_request", "the working directory is not absolute")
    if len(args.cwd) > tags.LONGEST_PATH or "\0" in args.cwd:
        what = f"up to {tags.LONGEST_PATH} characters, no NUL"
        raise ControlError("bad_request", f"a working directory has {what}")
    try:
        tags.check(args.tag)
    except TagError as error:
        raise ControlError("bad_request", str(error)) from error


def _bounds(args: wire.RegisterArgs) -> None:
    low, high = 1 if args.tag.min is None else args.tag.min, args.tag.max
    if low < 1 or (high is not None and high < low):
        raise ControlError("bad_request", f"min is {low} and max is {high}: they need 1 <= min <= max")


def _log(key: JobKey, owner: Owner, args: wire.RegisterArgs) -> None:
    if args.tag.log is None:
        return
    try:
        tags.expand(args.tag.log, key=key, user=owner.name, name=args.name, cwd=args.cwd)
    except TagError as error:
        raise ControlError("bad_request", str(error)) from error


def _unseen(registration: Registration) -> JobView:
    """Show a job that was registered since the last cycle."""
    return msgspec.structs.replace(
        registered_view(registration),
        health=Health.EMPTY.value,
        reason="registered; the next cycle looks at it",
        wait=registration.waits,
    )
