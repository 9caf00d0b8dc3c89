"""SIGHUP, heard from a program's first line on: unheard it ends one, and to systemd that is a clean end.

Python itself and this package take some 0.1 s before that line, in which nobody can hear; the units let
systemd start a program anew that SIGHUP ended then (``RestartForceExitStatus=``).
"""

from __future__ import annotations

import os
import signal
from types import FrameType


class HangUp:
    """Keeps SIGHUP from ending this program, unless its terminal is gone.

    ``asked`` tells whether it came, which asks for the configuration to be read anew.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before = signal.getsignal(signal.SIGHUP)
        # Who is started by nohup(1) outlives the terminal.
        self._on_terminal = self._before is not signal.SIG_IGN and _has_terminal()

    @property
    def closed(self) -> bool:
        """Tell whether it was started on a terminal that is there no more: nobody asks for anything."""
        return self._on_terminal and not _has_terminal()

    def hear(self) -> None:
        """Hear it from now on. For the main thread."""
        self._before = signal.signal(signal.SIGHUP, self._heard)

    def hear_no_more(self) -> None:
        """Leave it as it was before."""
        signal.signal(signal.SIGHUP, self._before)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self.closed:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def _has_terminal() -> bool:
    """Tell whether this process has a controlling terminal that is still there (tty(4))."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
