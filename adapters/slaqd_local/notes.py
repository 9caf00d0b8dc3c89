"""What the adapter writes down of a job before it touches it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slaqd.adapter import Store
from slaqd.types import JobKey, Struct
from slaqd_local import processes
from slaqd_local.means import Origins

_HOLD = "hold"
_ADMITTED = "admitted"
_RESTORED = "restored"
_ENDED = "ended"
_CPU = "cpu"
_BASE = "base"
_BOOT = "boot"

_MOST = 256
_MOST_BYTES = 65_536
_LONGEST = 4096
"""Bounds of the origins that are written down for one hierarchy, of all and of each in bytes.

They are read in each cycle; for those beyond the usual one stands.
"""


class Hold(Struct, frozen=True):
    """By which means a job is held, and where its processes came from."""

    means: str
    origins: Origins


class Notes:
    """One job's notes, as read at one moment. The setters return when they are on disk.

    ``values`` are what was read of them already, if they were.
    """

    def __init__(self, store: Store, key: JobKey, values: Mapping[str, str] | None = None) -> None:
        self._store = store
        self.key = key
        self.values: dict[str, str] = dict(store.notes(key) if values is None else values)

    @property
    def hold(self) -> Hold | None:
        """By which means it is held; None if slaqd has not touched it, or gave it back."""
        text = self.values.get(_HOLD, "")
        return msgspec.json.decode(text, type=Hold) if text else None

    def set_hold(self, means: str, origins: Origins) -> None:
        """Write down the means, and the origins beside those that are known: what came first is the truth."""
        old = self.hold
        known = old.origins if old is not None and old.means == means else {}
        both = {**known, **{name: _merged(known.get(name, {}), groups) for name, groups in origins.items()}}
        hold = Hold(means, both)
        if hold != old:
            self._set(_HOLD, msgspec.json.encode(hold).decode())

    @property
    def admitted(self) -> bool:
        """Whether a waiting command may run."""
        return _ADMITTED in self.values

    def admit(self) -> None:
        """Write down that it may run."""
        if not self.admitted:
            self._set(_ADMITTED, "1")

    @property
    def restored(self) -> bool:
        """Whether it was given back by request."""
        return bool(self.values.get(_RESTORED))

    def set_restored(self, cpu_seconds: float | None) -> None:
        """Write down that it was given back by request, and what it had used by then."""
        self._set(_CPU, repr(cpu_seconds or 0.0))
        self._set(_RESTORED, "1")
        self._set(_HOLD, "")

    def set_free(self, cpu_seconds: float | None) -> None:
        """Write down that it is held no more, and what it had used by then."""
        self._set(_CPU, repr(cpu_seconds or 0.0))
        self._set(_HOLD, "")

    def take_back(self) -> None:
        """Write down that it is in slaqd's hands again."""
        if self.restored:
            self._set(_RESTORED, "")

    @property
    def ended(self) -> bool:
        """Whether it was seen to have ended."""
        return _ENDED in self.values

    @staticmethod
    def end_all(store: Store, ended: Iterable[tuple[Notes, float | None]]) -> None:
        """Write down of jobs, at once, that they have ended, and what each had used in CPU seconds."""
        _set_all(
            store,
            [
                (notes, {_ENDED: "1"} | ({} if cpu_seconds is None else {_CPU: repr(cpu_seconds)}))
                for notes, cpu_seconds in ended
            ],
        )

    @property
    def cpu(self) -> float | None:
        """CPU seconds under holds that are no more."""
        return self._number(_CPU)

    @property
    def base(self) -> float | None:
        """What its processes had used when it came under a means that doesn't count."""
        return self._number(_BASE)

    def set_base(self, seconds: float) -> None:
        """Write down where counting starts."""
        self._set(_BASE, repr(seconds))

    @staticmethod
    def settle(store: Store, every: Iterable[Notes], boot: str) -> None:
        """Write down of jobs that were never looked at, at once, that they are of this life of the kernel."""
        _set_all(store, [(notes, {_BOOT: boot}) for notes in every if _BOOT not in notes.values])

    def is_of(self, boot: str) -> bool:
        """Tell whether the job is of this life of the kernel, once that was settled."""
        return self.values.get(_BOOT) == boot

    def may_be_of(self, boot: str) -> bool:
        """Tell whether nothing says that the job ended, or was of another life of the kernel."""
        return not self.ended and self.values.get(_BOOT, boot) == boot

    def _number(self, name: str) -> float | None:
        text = self.values.get(name, "")
        return float(text) if text else None

    def _set(self, name: str, value: str) -> None:
        self._store.note(self.key, name, value)
        self.values[name] = value


def _set_all(store: Store, news: Sequence[tuple[Notes, Mapping[str, str]]]) -> None:
    if news:
        store.note_all([(notes.key, name, value) for notes, said in news for name, value in said.items()])
    for notes, said in news:
        notes.values.update(said)


def _merged(known: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    # Most processes of a job come from one group, so only the others are listed: while they
    # live, and no more than a bound. Users name groups, and processes come and go without end.
    short = {pid: group for pid, group in found.items() if len(group.encode()) <= _LONGEST}
    usual = known.get("") or next((group for group, _ in Counter(short.values()).most_common(1)), "")
    unusual = {pid: group for pid, group in short.items() if group != usual}
    both = {**known, **unusual, **known}  # what was known first stands first, and is the truth
    living = ((pid, group) for pid, group in both.items() if pid and _lives(pid))
    return ({"": usual} if usual else {}) | _bounded(living)


def _bounded(origins: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    room = _MOST_BYTES
    for pid, group in origins:
        room -= len(group.encode())
        if room < 0 or len(found) == _MOST:
            break
        found[pid] = group
    return found


def _lives(pid: str) -> bool:
    return processes.read(int(pid)) is not None
