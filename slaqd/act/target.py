"""Lever ``file``: what slaqd tells a job, what the job answers, and what is believed of it. Pure.

    FREE ──tell──▶ OPEN ──hear──▶ SETTLED ──tell──▶ OPEN
                    │  ▲             ▲
                 miss  tell         hear
                    ▼  │             │
                   MISSED ───────────┘

Whatever was told and not answered counts as held, beside what was held before: the
job may have applied it. Only an answer frees.
"""

from __future__ import annotations

import re
from enum import StrEnum
from glob import escape
from typing import Annotated, Literal, NamedTuple

import msgspec

from slaqd import tag as tags
from slaqd.errors import TagError
from slaqd.text import show
from slaqd.types import Job, Sizes, State, Struct

PATIENCE_S = 120.0
"""Seconds that a job has to answer, where its tag doesn't say otherwise (``grace=``)."""
LONGEST_S = 86_400.0
MISSES = 3
"""Deadlines missed one after the other, after which a job is only advised."""
MOST_BYTES = 4096
MOST_SEQ = 2**53 - 1
"""The largest number that every reader of JSON knows exactly (RFC 8259, section 6)."""
_FOREIGN = 2**52
_REASON = 200
_WORDS = 80
_ESCAPED = re.compile(r"\[([*?[])\]")

_Seq = Annotated[int, msgspec.Meta(ge=0, le=MOST_SEQ)]
_Units = Annotated[int, msgspec.Meta(ge=0, le=tags.MOST_UNITS)]


class Target(msgspec.Struct, frozen=True):
    """``target.json``: written by slaqd alone. ``issued`` and ``deadline`` are wall time, for people."""

    v: Literal[1]
    job: str
    seq: _Seq
    units: _Units
    min: int
    max: int
    issued: float
    deadline: float
    reason: str


class Ack(msgspec.Struct, frozen=True):
    """``ack.json``: written by the job alone. Keys that slaqd doesn't know are passed over.

    A ``seq`` of 0 tells what the job began with, before any target.
    """

    v: Literal[1]
    seq: _Seq
    state: Literal["applied"]
    units: _Units
    step: float | None = None
    time: float | None = None
    checkpoint_age_s: float | None = None
    note: str = ""


class Phase(StrEnum):
    """How it stands with a job's last target."""

    FREE = "free"
    OPEN = "open"
    MISSED = "missed"
    SETTLED = "settled"


class Track(Struct, frozen=True):
    """All that is kept of one job's following, in its notes.

    ``seq`` is the last number used and ``units`` what it asked for. ``acked`` is what
    the job said last that it holds; ``most`` the largest number of units that it may
    hold by targets it hasn't answered. ``before`` is what it began with, by its own
    word; ``misses`` counts deadlines missed one after the other; ``folder`` is where it
    was told.
    """

    phase: Phase = Phase.FREE
    seq: int = 0
    units: int = 0
    acked: int | None = None
    most: int = 0
    misses: int = 0
    before: int | None = None
    restored: bool = False
    folder: str = ""
    note: str = ""


class Place(NamedTuple):
    """Where a job's two files are, and as whom they are reached."""

    uid: int
    root: str
    folder: str


# what stands in files


def place(job: Job) -> Place:
    """Find a job's directory; `TagError` in words for its user where it names none."""
    if job.tag.dir is None:
        raise TagError("lever=file needs the directory of its target: say dir= in the tag")
    try:
        # Unlike log=, it is no glob: all is escaped, and nothing is then.
        path = tags.expand(escape(job.tag.dir), key=job.key, user=job.owner.name, name=job.name, cwd=job.cwd)
    except TagError as error:
        raise TagError(str(error).replace("tag: log=", "tag: dir=", 1)) from error
    folder = _ESCAPED.sub(r"\1", path).rstrip("/") or "/"
    return Place(job.owner.uid, job.cwd if job.cwd.startswith("/") else folder, folder)


def patience(job: Job) -> float:
    """Tell how many seconds a job has to answer."""
    said = job.tag.grace
    return PATIENCE_S if said is None else min(max(said, 1.0), LONGEST_S)


def read_ack(data: bytes) -> Ack | str:
    """Read an answer, or say in words why it is none."""
    if len(data) > MOST_BYTES:
        return f"ack.json is longer than {MOST_BYTES} bytes"
    try:
        return msgspec.json.decode(data, type=Ack)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return f"ack.json can't be understood: {show(str(error), _WORDS)}"


def read_target(data: bytes) -> Target | None:
    """Read back what stands in ``target.json``; None where slaqd did not write it."""
    try:
        return msgspec.json.decode(data, type=Target) if len(data) <= MOST_BYTES else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


# what becomes of it


def recall(track: Track, found: Target | None, job: Job) -> Track:
    """Take up a target of this job's that the notes don't know of: the journal is lost, or an older one."""
    if found is None or found.job != job.key.id or not track.seq < found.seq <= _FOREIGN:
        return track
    if not job.sizes.min <= found.units <= job.sizes.max:
        return msgspec.structs.replace(track, seq=found.seq)
    most = max(track.most, track.acked or 0, job.held, found.units)
    return msgspec.structs.replace(track, phase=Phase.OPEN, seq=found.seq, units=found.units, most=most)


def moved(track: Track, folder: str, seen: int) -> Track:
    """Forget what a job was told in another directory than it names now; not what it may hold by that."""
    if track.folder in {"", folder}:
        return track
    most = held(track, seen)
    return Track(seq=track.seq, most=most, before=track.before, restored=track.restored)


def tell(track: Track, seen: int, units: int, *known: int) -> Track:
    """Make the next target's track.

    Parameters
    ----------
    track
        How it stands now.
    seen
        Units that the job is seen to hold; 0 for one that hasn't begun.
    units
        What it shall hold.
    known
        Numbers that stand in the job's files: the next is larger than all of them.

    """
    seq = max(track.seq, *(number for number in (0, *known) if number <= _FOREIGN)) + 1
    return msgspec.structs.replace(
        track, phase=Phase.OPEN, seq=seq, units=units, most=max(held(track, seen), units), restored=False
    )


def hear(track: Track, ack: Ack | str | None, sizes: Sizes) -> tuple[Track, str]:
    """Take in what stands in ``ack.json``; also say why it is not believed, where it isn't."""
    if ack is None or isinstance(ack, str):
        return track, ack or ""
    why = _unbelievable(track, ack, sizes)
    if why or ack.seq < track.seq:
        return track, why
    if track.seq == 0:
        return msgspec.structs.replace(track, before=ack.units), ""
    phase = Phase.FREE if track.phase is Phase.FREE else Phase.SETTLED
    note = show(ack.note, _WORDS)
    return msgspec.structs.replace(track, phase=phase, acked=ack.units, most=0, misses=0, note=note), ""


def miss(track: Track) -> Track:
    """Count a deadline that passed without an answer."""
    return msgspec.structs.replace(track, phase=Phase.MISSED, misses=track.misses + 1)


def promise(track: Track, units: int) -> Track:
    """Count units that a job is let in with, though it could not be told of them."""
    return msgspec.structs.replace(track, phase=Phase.FREE, acked=None, most=units)


def restore(track: Track) -> Track:
    """Hold the job to nothing; what it may hold by targets without an answer it may hold still."""
    phase = track.phase if track.phase is Phase.OPEN else Phase.FREE
    return msgspec.structs.replace(track, phase=phase, misses=0, restored=True)


def held(track: Track, seen: int) -> int:
    """Count what a job holds: its own word, before the first word what is seen, and all that was promised."""
    return max(seen if track.acked is None else track.acked, track.most)


def unanswered(track: Track) -> str:
    """Say why a job is only advised; empty where it isn't."""
    if track.phase is not Phase.MISSED or track.misses < MISSES:
        return ""
    return (
        f"it has answered none of its last {track.misses} targets; it must read target.json"
        f" and write ack.json with seq {track.seq} (slaqd.job does both)"
    )


def waits(track: Track) -> str:
    """Say which answer is waited for."""
    return f"waits until the job answers target {track.seq}, {track.units} units"


def file(track: Track, job: Job, wall: float, reason: str) -> bytes:
    """Give ``target.json`` for a track, as bytes; ``wall`` is seconds since 1970."""
    target = Target(
        v=1,
        job=job.key.id,
        seq=track.seq,
        units=track.units,
        min=job.sizes.min,
        max=job.sizes.max,
        issued=round(wall, 3),
        deadline=round(wall + patience(job), 3),
        reason=show(reason, _REASON),
    )
    return msgspec.json.encode(target) + b"\n"


def row(job: Job, track: Track, why: str = "", *, fresh: bool = True) -> Job:
    """Show a job in the snapshot: what it holds, and what can be done to it now.

    Parameters
    ----------
    job
        As its manager shows it.
    track
        How it stands with its last target.
    why
        Why its last answer is not believed, or its files can't be read.
    fresh
        Whether it answered of late. An answer of other units than asked stands that
        long; then the job may be asked anew.

    """
    if job.state is not State.RUNNING:
        return msgspec.structs.replace(job, target=None)
    if track.restored:
        return _given_back(job, track)
    units = held(track, job.held)
    match track.phase:
        case Phase.FREE:
            return msgspec.structs.replace(job, held=units, target=None)
        case Phase.OPEN:
            gap = "; ".join(filter(None, (waits(track), why)))
            return msgspec.structs.replace(job, held=units, target=track.units, gap=job.gap or gap)
        case Phase.MISSED:
            return _missed(job, track, why, units)
        case _:  # settled
            return _settled(job, track, units, fresh=fresh)


def _given_back(job: Job, track: Track) -> Job:
    if track.phase is not Phase.OPEN:
        return msgspec.structs.replace(job, target=None)
    return msgspec.structs.replace(
        job, held=max(job.held, track.most), target=None, gap=job.gap or waits(track)
    )


def _missed(job: Job, track: Track, why: str, units: int) -> Job:
    """Show a job that is held to nothing it is known to follow: it is told anew, or left as it is."""
    silent = unanswered(track)
    if not silent:
        return msgspec.structs.replace(job, held=units, target=None)
    words = "; ".join(filter(None, (silent, why)))
    return msgspec.structs.replace(
        job, held=units, target=None, cannot_grow=words, cannot_shrink=words, gap=job.gap or words
    )


def _settled(job: Job, track: Track, units: int, *, fresh: bool) -> Job:
    wants, stuck = job.wants, job.cannot_shrink
    if fresh and units < track.units:
        wants = units if wants is None else min(wants, units)
    elif fresh and units > track.units:
        stuck = f"asked for {track.units} units it answered {units}" + (
            f": {track.note}" if track.note else ""
        )
    return msgspec.structs.replace(job, held=units, target=units, wants=wants, cannot_shrink=stuck)


def _unbelievable(track: Track, ack: Ack, sizes: Sizes) -> str:
    """Say why an answer can't be true; an old one can, it is only no answer to the last target."""
    if ack.seq > track.seq:
        return f"ack.json answers target {ack.seq}, and {track.seq} is the last that was written"
    if ack.seq < track.seq:
        return ""
    if not sizes.min <= ack.units <= sizes.max:
        return f"ack.json says {ack.units} units, outside the job's bounds, {sizes.min} to {sizes.max}"
    largest = max(track.units, track.most, track.acked or 0)
    if ack.units > largest and track.seq:
        return f"ack.json says {ack.units} units, more than the {largest} that the job can have had"
    return ""
