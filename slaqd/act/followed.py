"""One job that follows its target: what is known of it, and how it is told."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from slaqd.act import target as targets
from slaqd.act.filetime import SLOW
from slaqd.act.letterbox import Letterbox
from slaqd.act.target import Phase, Place, Track
from slaqd.clock import Clock
from slaqd.errors import AgentUnavailable, StateError, TagError
from slaqd.types import Accepted, Job, JobKey, Outcome, Refused, State, Unknown

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0


@dataclass
class Followed:
    """One job and what is known of it in this life of slaqd; times are monotonic seconds.

    ``row`` is its manager's, ``why`` says what makes following it impossible. ``track``
    is None until notes and files could be read, ``kept`` is what the notes say.
    ``waiting`` is the number of the target that is waited for, and since when; ``asked``
    is when its files were last asked for, whatever came of it.
    """

    row: Job
    place: Place | None = None
    why: str = ""
    track: Track | None = None
    kept: Track | None = None
    waiting: tuple[int, float] | None = None
    answered: float | None = None
    asked: float = -math.inf
    trouble: str = ""
    again: float = 0.0
    pause: float = _FIRST_PAUSE_S

    @property
    def key(self) -> JobKey:
        """Name the job."""
        return self.row.key

    @property
    def known(self) -> Track:
        """Give what there is to go by."""
        return self.track or self.kept or Track()

    @property
    def unknown(self) -> bool:
        """Tell whether the job may follow a target that nothing is known of."""
        return self.track is None and self.kept is None and self.has_files

    @property
    def has_files(self) -> bool:
        """Tell whether the job has files to ask for."""
        return self.place is not None and self.row.state is State.RUNNING

    def renew(self, job: Job) -> None:
        """Go on with the job's new row."""
        self.row, self.place, self.why = job, None, ""
        try:
            self.place = targets.place(job)
        except TagError as error:
            self.why = str(error)


class Desk:
    """Takes in what jobs answer, and tells them what they shall hold; notes it before it is told."""

    def __init__(self, box: Letterbox, clock: Clock) -> None:
        self._box = box
        self._clock = clock

    def recall(self, one: Followed, place: Place) -> Track:
        """Take up what notes and files know of a job, once in a life of slaqd."""
        if one.track is None:
            self.look_up(one)
            one.track = targets.recall(one.known, self._box.target(place), one.row)
        one.track = targets.moved(one.track, place.folder, one.row.held)
        return one.track

    def look_up(self, one: Followed) -> None:
        """Read the notes of a job, if nothing is known of it."""
        if one.track is None and one.kept is None:
            one.kept = self._box.noted(one.key)

    def note(self, one: Followed, track: Track) -> None:
        """Believe this of a job from now on; on disk when it returns."""
        one.track = track
        self._box.note(one.key, track)
        one.kept = track

    def read(self, one: Followed, place: Place) -> str:
        """Take in the answer and the time; say why the answer is not believed, where it isn't."""
        before = self.recall(one, place)
        track, why = targets.hear(before, self._box.ack(place), one.row.sizes)
        now = self._clock.monotonic()
        if track.phase is Phase.SETTLED and (before.phase is not Phase.SETTLED or one.answered is None):
            one.answered = now
        one.track = self._wait(one, track, now)
        if one.track != one.kept:  # also that nothing was told yet: a lost journal looks otherwise
            with suppress(StateError):  # a full disk: the answer is read again, and noted then
                self.note(one, one.track)
        return why

    def _wait(self, one: Followed, track: Track, now: float) -> Track:
        """Measure the wait, from the first look at the running job on: a new slaqd waits anew in full."""
        if track.phase is not Phase.OPEN:
            one.waiting = None
            return track
        if one.waiting is None or one.waiting[0] != track.seq:
            one.waiting = (track.seq, now)
        return targets.miss(track) if now - one.waiting[1] > targets.patience(one.row) else track

    def tell(self, one: Followed, units: int, why: str) -> Outcome:
        """Write the next target, unless the last one says the same and stands."""
        if one.place is None:
            return Refused(one.why)
        if self._box.is_spent(one.place):
            return Refused(SLOW, retry=True)
        try:
            before = self.recall(one, one.place)
            if _stands(one, before, units):
                return Accepted()
            return self._write(one, one.place, self._next(one, one.place, before, units), why)
        except AgentUnavailable as error:
            return Unknown(str(error))
        except OSError as error:
            return self._troubled(one, str(error))

    def _next(self, one: Followed, place: Place, before: Track, units: int) -> Track:
        target, ack = self._box.target(place), self._box.ack(place)
        known = [found.seq for found in (target, ack) if found is not None and not isinstance(found, str)]
        if one.row.state is State.WAITING:  # it has read nothing yet, and holds nothing
            before = Track(seq=before.seq, before=before.before)
        seen = 0 if one.row.state is State.WAITING else one.row.held
        track = targets.tell(before, seen, units, *known)
        return msgspec.structs.replace(track, folder=place.folder)

    def _write(self, one: Followed, place: Place, track: Track, why: str) -> Outcome:
        # Noted first: whatever happens now, this number is used and these units may be held.
        before = one.known
        self.note(one, track)
        one.waiting, one.answered = None, None
        try:
            self._box.put(place, targets.file(track, one.row, self._clock.wall(), why))
        except OSError:
            if not self._box.may_have(place, track.seq):
                with suppress(
                    StateError
                ):  # then the note promises more than was told: that errs the safe way
                    self.note(one, msgspec.structs.replace(before, seq=track.seq))
            raise
        one.trouble, one.again, one.pause = "", 0.0, _FIRST_PAUSE_S
        return Accepted()

    def _troubled(self, one: Followed, why: str) -> Refused:
        """Leave the job alone for a while: what is in the way won't be gone the next moment."""
        one.trouble = why
        one.again = self._clock.monotonic() + one.pause
        one.pause = min(2 * one.pause, _LONGEST_PAUSE_S)
        return Refused(why, retry=True)


def share(jobs: Iterable[Followed]) -> None:
    """Let the job that came first have a directory that several jobs of one user name."""
    first: dict[tuple[int, str], Followed] = {}
    live = [one for one in jobs if one.row.state is not State.ENDED]
    for one in sorted(live, key=lambda one: (one.row.submitted, one.key)):
        if one.place is None:
            continue
        other = first.setdefault((one.place.uid, one.place.folder), one)
        if other is not one:
            one.why = (
                f"job {other.key} has the same dir={one.row.tag.dir}: name another, such as ctl-{{jobid}}"
            )
            one.place = None


def in_turn(jobs: Iterable[Followed], is_slow: Callable[[int], bool]) -> Sequence[Followed]:
    """Put one job of each user's after the other, those not asked longest first, slow users' last."""
    seen, ranks = Counter[int](), dict[JobKey, tuple[bool, int, float]]()
    ordered = sorted(jobs, key=_asked)
    for one in ordered:
        uid = one.row.owner.uid
        ranks[one.key] = is_slow(uid), seen[uid], _asked(one)
        seen[uid] += 1
    return sorted(ordered, key=lambda one: ranks[one.key])


def _asked(one: Followed) -> float:
    return one.asked if one.has_files else math.inf


def _stands(one: Followed, track: Track, units: int) -> bool:
    """Tell whether a job has been told these units, and nothing speaks against them."""
    if track.restored or track.units != units:
        return False
    if track.phase is Phase.OPEN:
        return True
    return track.phase is Phase.SETTLED and one.row.state is State.RUNNING and track.acked == units
