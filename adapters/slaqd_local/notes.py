"""What the adapter writes down of a job before it touches it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from slaqd.adapter import Store
from slaqd.types import JobKey, Struct
from slaqd_local.means import Origins

_HOLD = "hold"
_ADMITTED = "admitted"
_RESTORED = "restored"
_ENDED = "ended"
_CPU = "cpu"
_BASE = "base"
_BOOT = "boot"


class Hold(Struct, frozen=True):
    """By which means a job is held, and where its processes came from."""

    means: str
    origins: Origins


class Notes:
    """One job's notes, as read at one moment. The setters return when they are on disk."""

    def __init__(self, store: Store, key: JobKey) -> None:
        self._store = store
        self._key = key
        self._values: dict[str, str] = dict(store.notes(key))

    @property
    def hold(self) -> Hold | None:
        """By which means it is held; None if slaqd has not touched it, or gave it back."""
        text = self._values.get(_HOLD, "")
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
        return _ADMITTED in self._values

    def admit(self) -> None:
        """Write down that it may run."""
        if not self.admitted:
            self._set(_ADMITTED, "1")

    @property
    def restored(self) -> bool:
        """Whether it was given back by request."""
        return bool(self._values.get(_RESTORED))

    def set_restored(self, cpu_seconds: float | None) -> None:
        """Write down that it was given back, and what it had used by then."""
        self._set(_CPU, repr(cpu_seconds or 0.0))
        self._set(_RESTORED, "1")
        self._set(_HOLD, "")

    def take_back(self) -> None:
        """Write down that it is in slaqd's hands again."""
        if self.restored:
            self._set(_RESTORED, "")

    @property
    def ended(self) -> bool:
        """Whether it was seen to have ended."""
        return _ENDED in self._values

    def end(self, cpu_seconds: float | None) -> None:
        """Write down that it has ended, and what it had used."""
        if cpu_seconds is not None:
            self._set(_CPU, repr(cpu_seconds))
        self._set(_ENDED, "1")

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

    def is_of(self, boot: str) -> bool:
        """Tell whether the job is of this life of the kernel; the first asking settles it."""
        if _BOOT not in self._values:
            self._set(_BOOT, boot)
        return self._values[_BOOT] == boot

    def _number(self, name: str) -> float | None:
        text = self._values.get(name, "")
        return float(text) if text else None

    def _set(self, name: str, value: str) -> None:
        self._store.note(self._key, name, value)
        self._values[name] = value


def _merged(known: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    # Most processes of a job come from one group, so only the others are listed.
    counts = Counter(found.values())
    usual = known.get("") or next((group for group, _ in counts.most_common(1)), "")
    unusual = {pid: group for pid, group in found.items() if group != usual}
    return {"": usual, **unusual, **known}
