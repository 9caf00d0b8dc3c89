"""Where a job and slaqd leave each other word: two files of the user's, and slaqd's own note of them."""

from __future__ import annotations

import msgspec

from slaqd.act import target as targets
from slaqd.act.filetime import FileTime
from slaqd.act.target import Ack, Place, Target, Track
from slaqd.adapter import AsUser, Store
from slaqd.errors import AgentUnavailable
from slaqd.types import JobKey

_NOTE = "follow"


class Letterbox:
    """Reads and writes for one job at a time; whatever goes wrong is for the caller to judge.

    Methods that reach a user's files raise `OSError` where the system says no, and
    `slaqd.errors.AgentUnavailable`; the others `slaqd.errors.StateError`. The time that
    users' files take is charged to them.
    """

    def __init__(self, as_user: AsUser, store: Store, time: FileTime) -> None:
        self._as_user = as_user
        self._store = store
        self._time = time

    def noted(self, key: JobKey) -> Track | None:
        """Give what the notes say of a job; None where they say nothing that can be used."""
        text = self._store.notes(key).get(_NOTE)
        try:
            return None if text is None else msgspec.json.decode(text, type=Track)
        except msgspec.MsgspecError:
            return None  # of another slaqd: the job's files tell the rest

    def note(self, key: JobKey, track: Track) -> None:
        """Keep a job's track; on disk when this returns."""
        self._store.note(key, _NOTE, msgspec.json.encode(track).decode())

    def target(self, place: Place) -> Target | None:
        """Read back what was told last; None where slaqd wrote nothing there."""
        data = self._get(place, "target.json")
        return None if data is None else targets.read_target(data)

    def ack(self, place: Place) -> Ack | str | None:
        """Read the job's answer; None where there is none, and words where it can't be understood."""
        data = self._get(place, "ack.json")
        return None if data is None else targets.read_ack(data)

    def put(self, place: Place, data: bytes) -> None:
        """Tell the job."""
        with self._time.charged(place.uid):
            self._as_user.put(place.uid, place.root, f"{place.folder}/target.json", data)

    def is_spent(self, place: Place) -> bool:
        """Tell whether the user's files have taken all the time that they get now."""
        return self._time.is_spent(place.uid)

    def may_have(self, place: Place, seq: int) -> bool:
        """Tell whether a target may stand there although its writing failed."""
        try:
            there = self.target(place)
        except (OSError, AgentUnavailable):
            return True
        return there is not None and there.seq == seq

    def _get(self, place: Place, name: str) -> bytes | None:
        with self._time.charged(place.uid):
            return self._as_user.get(place.uid, place.root, f"{place.folder}/{name}")
