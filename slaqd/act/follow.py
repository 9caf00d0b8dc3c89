"""Lever ``file`` for any adapter: jobs that follow a target in a file, and answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from slaqd.act import target as targets
from slaqd.act.filetime import LATE, FileTime
from slaqd.act.followed import Desk, Followed, in_turn, share
from slaqd.act.letterbox import Letterbox
from slaqd.act.target import Phase, Track
from slaqd.adapter import Adapter, AsUser, Capabilities, LeverSpec, Store
from slaqd.clock import Clock
from slaqd.errors import AgentUnavailable
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Adopt,
    Finding,
    Job,
    JobKey,
    Lever,
    Outcome,
    Owner,
    Refused,
    Restore,
    SetUnits,
    Snapshot,
    State,
    Unknown,
)

SPEC = LeverSpec(up_s=targets.PATIENCE_S, down_s=targets.PATIENCE_S, swap_atomic=False)
"""A change shows when the job answers, which may take all of its patience; slaqd stops nothing for it."""


@dataclass
class _Batch:
    """What of a batch goes to the adapter, and what came of each action, by its place in the batch."""

    passed: list[int] = field(default_factory=list)
    outcomes: dict[int, Outcome] = field(default_factory=dict)


class FollowFiles:
    """An adapter with the lever ``file`` added to those that it has.

    Jobs whose rows say `Lever.FILE` get their targets and give their answers through
    files in a directory of their own; everything else is the adapter's. What was told
    and not answered counts as held, and so does what was held before, until the answer.
    One that the adapter holds still, by the lever it had before, is shown without a lever
    until it is restored: two levers would hold it at once.

    Parameters
    ----------
    adapter
        The resource manager's. It admits and restores jobs with this lever too; their
        units are not its business.
    as_user
        Reaches users' files.
    store
        Keeps what was told, one note for each job.
    clock
        Monotonic time measures the wait for an answer; wall time is shown in the file.

    """

    def __init__(self, adapter: Adapter, as_user: AsUser, store: Store, clock: Clock) -> None:
        self._adapter = adapter
        self._time = FileTime(clock)
        self._desk = Desk(Letterbox(as_user, store, self._time), clock)
        self._clock = clock
        self._jobs: dict[JobKey, Followed] = {}
        self._incarnation: str | None = None
        self._begun = False

    def check(self) -> Sequence[Finding]:
        """See `slaqd.adapter.Adapter.check`."""
        return self._adapter.check()

    def owner(self, key: JobKey) -> Owner:
        """See `slaqd.adapter.Adapter.owner`."""
        return self._adapter.owner(key)

    def capabilities(self) -> Capabilities:
        """See `slaqd.adapter.Adapter.capabilities`."""
        own = self._adapter.capabilities()
        return msgspec.structs.replace(own, levers={**own.levers, Lever.FILE: SPEC})

    def close(self, *, restore: bool) -> None:
        """See `slaqd.adapter.Adapter.close`. A job that follows a target goes on with its last one."""
        self._adapter.close(restore=restore)

    # looking

    def snapshot(self, deadline: float) -> Snapshot:
        """See `slaqd.adapter.Adapter.snapshot`; reads following jobs' answers, and writes nothing of theirs.

        What can't be read of one job, also where it is the agent that doesn't answer or
        files that answer too slowly, is that job's gap: the others go on. Only where nothing
        at all is known of what a job was told, and that is not its own user's doing, it is
        the snapshot's.
        """
        seen = self._adapter.snapshot(deadline)
        self._incarnation = seen.incarnation
        rows = [job for job in seen.jobs if job.lever is Lever.FILE and job.target is None]
        self._renew(rows, whole=not seen.gaps)
        self._time.begin((job.owner.uid for job in rows), deadline)
        silent, shown, gaps = "", _held_otherwise(seen), list(seen.gaps)
        for one in in_turn((self._jobs[job.key] for job in rows), self._time.is_slow):
            unread = silent or self._time.bar(one.row.owner.uid)
            try:
                shown[one.key] = self._look(one, unread)
            except AgentUnavailable as error:  # asked no more: each asking may take its whole time
                unread = silent = str(error)
                shown[one.key] = self._look(one, silent)
            if one.unknown and (silent or self._never_reached(one, unread)):
                gaps.append(f"what job {one.key} was told can't be read: {unread}")
        self._begun = self._begun or not gaps
        jobs = tuple(shown.get(job.key, job) for job in seen.jobs)
        return msgspec.structs.replace(seen, jobs=jobs, gaps=tuple(gaps))

    def _never_reached(self, one: Followed, unread: str) -> bool:
        """Tell whether a job may follow a target of a slaqd before this one, and nobody has looked yet.

        Then its units must not be given away, and it comes first in the next look.
        """
        # Not once all were reached: a job that turns up later was told nothing before, or its note would
        # tell. Not where its own user's files are slow or broken: it is counted with what its manager sees
        # of it, and only its user can have made it so. Others lose nothing, for it is its own promise that
        # is forgotten; its user may gain no more than the units that the job held by that promise anyway.
        return unread == LATE and one.asked == -math.inf and not self._begun

    def _renew(self, rows: Sequence[Job], *, whole: bool) -> None:
        before = self._jobs
        self._jobs = {} if whole else dict(before)  # a row that is missing from a part is not gone
        for job in rows:
            one = self._jobs[job.key] = before.get(job.key) or Followed(job)
            one.renew(job)
        share(self._jobs[job.key] for job in rows)

    def _look(self, one: Followed, unread: str) -> Job:
        """Read a running job's answer, unless something is in the way, and show the job."""
        if one.row.state is not State.RUNNING:
            return targets.row(one.row, Track())
        barred = unread = one.why or unread
        why = ""
        try:
            if not unread and one.place is not None:
                why = self._desk.read(one, one.place)
        except OSError as error:
            unread = str(error)
        one.asked = one.asked if barred else self._clock.monotonic()
        self._desk.look_up(one)
        now = self._clock.monotonic()
        fresh = one.answered is not None and now - one.answered <= targets.patience(one.row)
        shown = targets.row(one.row, one.known, why, fresh=fresh)
        gap = shown.gap or unread or (one.trouble if now < one.again else "")
        return msgspec.structs.replace(shown, gap=gap or None)

    # acting

    def apply(self, actions: Sequence[Action], deadline: float) -> Sequence[Outcome]:
        """See `slaqd.adapter.Adapter.apply`.

        A waiting job's first target is there before the job is let in; where it can't be
        written, because its directory comes with the job, the job is let in all the same.
        """
        if self._incarnation is None:
            self.snapshot(deadline)
        self._time.tell()
        batch = _Batch()
        for at, action in enumerate(actions):
            one = self._jobs.get(action.key)
            outcome = None if one is None else self._before(one, action, deadline)
            if outcome is not None:
                batch.outcomes[at] = outcome
            elif one is None or isinstance(action, Admit | Restore):
                batch.passed.append(at)
        self._pass_on(batch, actions, deadline)
        for at, action in enumerate(actions):
            one = self._jobs.get(action.key)
            if one is not None and isinstance(batch.outcomes.get(at, Accepted()), Accepted):
                batch.outcomes[at] = self._after(one, action, deadline)
        return [batch.outcomes[at] for at in range(len(actions))]

    def _pass_on(self, batch: _Batch, actions: Sequence[Action], deadline: float) -> None:
        if not batch.passed:
            return
        answers = list(self._adapter.apply([actions[at] for at in batch.passed], deadline))
        missing = len(batch.passed) - len(answers)
        answers += [Unknown("the adapter gave no answer")] * missing
        batch.outcomes.update(zip(batch.passed, answers, strict=False))

    def _before(self, one: Followed, action: Action, deadline: float) -> Outcome | None:
        """Do what comes before the adapter's part; an outcome ends the action here."""
        if one.row.state is State.ENDED:
            return None if isinstance(action, Restore) else Refused("the job has ended")
        if action.incarnation not in {"", self._incarnation}:
            return Refused("the manager has been started anew since this was planned")
        if self._clock.monotonic() > deadline:
            return Refused("the deadline passed before its turn", retry=True)
        match action:
            case Restore():
                return self._give_back(one)
            case Admit() if one.row.state is State.WAITING:
                return self._first(one, action)
            case _:
                return self._bars(one, action)

    def _after(self, one: Followed, action: Action, deadline: float) -> Outcome:
        """Do what comes after it."""
        match action:
            case Restore():
                if one.row.state is not State.ENDED:
                    self._desk.note(one, targets.restore(one.known))
                return Accepted()
            case Admit() if one.row.state is State.WAITING:
                return Accepted()
            case _:
                if self._clock.monotonic() > deadline:
                    return Refused("the deadline passed before its turn", retry=True)
                return self._desk.tell(one, action.units, action.why)

    def _first(self, one: Followed, action: Admit) -> Outcome | None:
        """Leave the first target for a job that is about to begin, or keep in mind what it was promised."""
        bounds = _out_of_bounds(one.row, action.units)
        if bounds is not None:
            return bounds
        outcome = self._desk.tell(one, action.units, action.why)
        if isinstance(outcome, Refused):  # it must not wait for a directory that it makes itself
            self._desk.note(one, targets.promise(one.known, action.units))
            one.again = 0.0
            return None
        return outcome if isinstance(outcome, Unknown) else None

    def _give_back(self, one: Followed) -> Outcome | None:
        """Tell a job what it began with, if it ever said so; else its last target stays."""
        track = one.known
        if track.before is None or track.restored or track.seq == 0 or one.row.state is State.WAITING:
            return None
        if track.phase is Phase.OPEN:
            return Refused(f"{targets.waits(track)}; ask again then", retry=True)
        if track.phase is Phase.SETTLED and track.acked == track.before:
            return None
        outcome = self._desk.tell(one, track.before, "given back: what it began with")
        return None if isinstance(outcome, Accepted) else outcome

    def _bars(self, one: Followed, action: Admit | Adopt | SetUnits) -> Refused | None:
        track, silent = one.known, targets.unanswered(one.known)
        other = track.units != action.units or track.restored
        rules = (
            (one.row.state is State.WAITING, "it waits for its admission", False),
            (bool(one.why), one.why, False),
            (
                track.restored and isinstance(action, SetUnits),
                "it was given back by request: adopt it first",
                False,
            ),
            (track.phase is Phase.OPEN and other, targets.waits(track), True),
            (bool(silent), silent, False),
        )
        broken = next((Refused(why, retry=retry) for holds, why, retry in rules if holds), None)
        return broken or _out_of_bounds(one.row, action.units)


def _held_otherwise(seen: Snapshot) -> dict[JobKey, Job]:
    """Show those that shall follow and are held by another lever still."""
    return {
        job.key: msgspec.structs.replace(job, lever=Lever.NONE)
        for job in seen.jobs
        if job.lever is Lever.FILE and job.target is not None
    }


def _out_of_bounds(job: Job, units: int) -> Refused | None:
    low, high = job.sizes.min, job.sizes.max
    if low <= units <= high:
        return None
    return Refused(f"{units} units are outside its bounds, {low} to {high}")
