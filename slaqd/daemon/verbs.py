"""What can be asked on the control socket, verb by verb."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

import slaqd
from slaqd import tag as tags
from slaqd import wire
from slaqd.adapter import Registration
from slaqd.daemon.loop import Loop, Parts, refusals
from slaqd.daemon.view import ended_view
from slaqd.errors import AdapterError, JobGone, SlaqdError, StateError, TagError
from slaqd.types import Health, JobKey, Lever, Owner, State, Struct, Tag
from slaqd.wire import JobArgs, JobView, Registered, Verb

A = TypeVar("A", bound=Struct)

SHOW_ENDED_S = 3600.0

_BRAKE_S = 1.5
"""A brake waits this long for the act that is going on: less than slaqctl waits for its answer."""


class _No(Exception):
    """Carries a refusal to the one place that turns it into a reply."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.reply = wire.failure(code, text)


class Verbs:
    """Answers requests from the loop's last view and the journal.

    One user is served: the one slaqd runs as. Root may ask for everything.
    """

    def __init__(self, parts: Parts, loop: Loop) -> None:
        self._parts = parts
        self._loop = loop
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
        }

    def answer(self, request: wire.Request, uid: int) -> wire.Reply:
        """Answer one request of the peer ``uid``."""
        if uid not in (0, os.geteuid()):
            return wire.failure("not_permitted", f"this slaqd serves uid {os.geteuid()}, you are uid {uid}")
        try:
            return wire.ok(self._table[request.verb](request.args, uid))
        except _No as no:
            return no.reply
        except msgspec.MsgspecError as error:
            return wire.failure("bad_request", f"{request.verb.value}: {error}")
        except (AdapterError, StateError) as error:
            return wire.failure("refused", str(error))

    # what is

    def _status(self, _args: msgspec.Raw, _uid: int) -> wire.StatusView:
        parts, view = self._parts, self._loop.view
        section = parts.config.slaqd
        states = [job.state for job in view.jobs.values()]
        return wire.StatusView(
            version=slaqd.__version__,
            pid=os.getpid(),
            uid=os.geteuid(),
            mode=section.mode,
            paused=self._loop.paused,
            policy=parts.config.policy.name,
            adapter=section.adapter,
            epoch_s=section.epoch_s,
            started=self._started,
            cycles=view.cycles,
            sentence=view.sentence,
            pools=view.pools,
            room=sum(view.room.values()),
            planned=sum(allocation.units for allocation in view.plan.allocations) if view.plan else 0,
            running=states.count(State.RUNNING.value),
            waiting=states.count(State.WAITING.value),
            state_dir=section.state_dir,
            config=parts.config.path,
        )

    def _every(self) -> list[JobView]:
        live = dict(self._loop.view.jobs)
        known = self._parts.journal.registrations()
        fresh = {item.key: _unseen(item) for item in known if item.key not in live}
        ended = self._parts.journal.ended(self._parts.clock.wall() - SHOW_ENDED_S)
        over = [ended_view(row) for row in ended]
        gone = {row.registration.key for row in ended}
        return over + [view for key, view in (live | fresh).items() if key not in gone]

    def _jobs(self, _args: msgspec.Raw, _uid: int) -> list[JobView]:
        return sorted(self._every(), key=lambda view: view.submitted)

    def _show(self, raw: msgspec.Raw, _uid: int) -> JobView:
        name = _decode(raw, JobArgs).job
        named = [view for view in self._every() if view.job == name]
        if not named:
            raise _No("not_found", f"slaqd knows no job {name!r}; see: slaqctl jobs")
        return max(named, key=lambda view: view.submitted)

    def _plan(self, _args: msgspec.Raw, _uid: int) -> wire.PlanView:
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
        ]
        policy = self._parts.config.policy.name
        return wire.PlanView(policy=policy, room=sum(view.room.values()), rows=tuple(rows))

    # what shall be

    def _register(self, raw: msgspec.Raw, uid: int) -> Registered:
        args = _decode(raw, wire.RegisterArgs)
        parts = self._parts
        key = JobKey(manager=parts.config.slaqd.adapter, id=str(args.pgid), start=args.start)
        _bounds(args)
        owner = self._owner(key)
        if owner.uid != os.geteuid() or uid not in (0, owner.uid):
            raise _No(
                "not_permitted",
                f"job {key.id} belongs to {owner.name}; this slaqd serves uid {os.geteuid()} only",
            )
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

    def _owner(self, key: JobKey) -> Owner:
        try:
            return self._parts.adapter.owner(key)
        except JobGone as error:
            raise _No("not_found", str(error)) from error
        except SlaqdError as error:
            raise _No("refused", str(error)) from error

    def _ended(self, raw: msgspec.Raw, _uid: int) -> None:
        args = _decode(raw, wire.EndedArgs)
        key = JobKey(manager=self._parts.config.slaqd.adapter, id=args.job, start=args.start)
        self._parts.journal.keep_exit_status(key, args.status)

    def _pause(self, raw: msgspec.Raw, _uid: int) -> str:
        return self._set_paused(_decode(raw, JobArgs).job, paused=True)

    def _resume(self, raw: msgspec.Raw, _uid: int) -> str:
        return self._set_paused(_decode(raw, JobArgs).job, paused=False)

    def _set_paused(self, job: str | None, *, paused: bool) -> str:
        if job is None:
            self._parts.journal.keep_fact("paused", "1" if paused else "0")
        else:
            self._parts.journal.pause(self._key(job), paused=paused)
        # What was being done when the brake was pulled is over when the answer comes.
        with self._loop.hands_free(_BRAKE_S):
            self._loop.wake()
        what = "everything" if job is None else f"job {job}"
        if paused:
            again = "slaqctl resume" if job is None else f"slaqctl resume {job}"
            return f"{what} is paused: it keeps what it has until: {again}"
        return f"{what} goes on"

    def _restore(self, raw: msgspec.Raw, _uid: int) -> str:
        job = _decode(raw, JobArgs).job
        keys = self._braked(job)
        with self._loop.hands_free(_BRAKE_S) as free:
            if not free:
                what = "everything" if job is None else f"job {job}"
                raise _No("refused", f"slaqd is busy with a cycle; {what} is paused already: ask again")
            wrong = refusals(self._loop.restore(keys, "asked by slaqctl restore"))
        self._loop.wake()
        if wrong:
            raise _No("refused", "; ".join(wrong))
        if job is None:
            return f"jobs given back what they had: {len(keys)}; everything is paused until: slaqctl resume"
        return f"job {job} has back what it had, and is left alone until: slaqctl resume {job}"

    def _braked(self, job: str | None) -> list[JobKey]:
        journal = self._parts.journal
        if job is None:
            journal.keep_fact("paused", "1")
            return [registration.key for registration in journal.registrations()]
        key = self._key(job)
        journal.pause(key, paused=True)
        return [key]

    def _key(self, job: str) -> JobKey:
        keys = [item.key for item in self._parts.journal.registrations() if item.key.id == job]
        if not keys:
            raise _No("not_found", f"slaqd knows no running job {job!r}; see: slaqctl jobs")
        return keys[-1]


def _decode(raw: msgspec.Raw, kind: type[A]) -> A:
    return msgspec.json.decode(raw, type=kind)


def _bounds(args: wire.RegisterArgs) -> None:
    low, high = 1 if args.tag.min is None else args.tag.min, args.tag.max
    if low < 1 or (high is not None and high < low):
        raise _No("bad_request", f"min is {low} and max is {high}: they need 1 <= min <= max")


def _log(key: JobKey, owner: Owner, args: wire.RegisterArgs) -> None:
    if args.tag.log is None:
        return
    try:
        tags.expand(args.tag.log, key=key, user=owner.name, name=args.name, cwd=args.cwd)
    except TagError as error:
        raise _No("bad_request", str(error)) from error


def _unseen(registration: Registration) -> JobView:
    """Show a job that was registered since the last cycle."""
    return JobView(
        job=registration.key.id,
        start=registration.key.start,
        name=registration.name,
        user=registration.owner.name,
        state=(State.WAITING if registration.waits else State.RUNNING).value,
        pool="",
        lever="",
        min=registration.tag.min or 1,
        max=registration.tag.max or registration.tag.min or 1,
        submitted=registration.submitted,
        health=Health.EMPTY.value,
        reason="registered; the next cycle looks at it",
        wait=registration.waits,
    )
