"""Tells whoever supervises slaqd, or its agent, how it stands: sd_notify(3), without libsystemd."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

from slaqd.text import show

_LONGEST = 300
_PATIENCE_S = 1.0


class Notify:
    """The way to the supervisor; without one every method does nothing.

    Nothing here has a thread or a timer of its own: the watchdog lives on finished
    cycles alone, so a loop that hangs is a daemon that hangs.

    Parameters
    ----------
    environ
        ``NOTIFY_SOCKET`` (a path, or ``@`` and an abstract name) and ``WATCHDOG_USEC``
        are taken out of it: what slaqd starts must not speak for it.

    """

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        where = environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + where[1:] if where.startswith("@") else where
        limit = environ.pop("WATCHDOG_USEC", "")
        environ.pop("WATCHDOG_PID", None)
        self._limit_us = int(limit) if limit.isdecimal() else 0

    def ready(self) -> None:
        """Say that slaqd answers; also that a reload is over."""
        self._send("READY=1")

    def patience(self, epoch_s: float) -> None:
        """Ask for a watchdog that also waits from one cycle to the next.

        The unit's ``WatchdogSec=`` says how long the work of a cycle may take; the
        epoch, which only slaqd's configuration knows, comes on top.
        """
        if self._limit_us:
            self._send(f"WATCHDOG_USEC={self._limit_us + round(epoch_s * 1e6)}")

    def often_s(self, most: float) -> float:
        """Tell how often, in seconds, to feed it where there are no cycles; ``most`` without a watchdog."""
        return min(most, self._limit_us / 3e6) if self._limit_us else most

    def cycle(self, sentence: str) -> None:
        """Say what a finished cycle came to, and feed the watchdog. Right also where it did nothing."""
        self._send("WATCHDOG=1", f"STATUS={show(sentence, _LONGEST)}")

    def reloading(self) -> None:
        """Say that the configuration is read anew; `ready` ends it."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        """Say that slaqd is about to end."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # A supervisor that doesn't listen is no reason to end, nor to wait for long.
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.settimeout(_PATIENCE_S)
            sock.sendto("\n".join(lines).encode("utf-8", "backslashreplace"), self._address)
