"""A child in the foreground: its own process group, held on a pipe, signals passed on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

EXIT_CANNOT_RUN = 126
EXIT_NOT_FOUND = 127
_SIGNALLED = 128
_PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGTSTP,
)
_WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)


class Child:
    """A forked child that leads its own group and waits until it is let go.

    Parameters
    ----------
    program
        Path of what it will execute.
    words
        Its argument vector.

    """

    def __init__(self, program: str, words: Sequence[str]) -> None:
        gate, self._gate = os.pipe()
        self._terminal = _Terminal()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            _become(gate, program, words)
        os.close(gate)
        self._status: int | None = None
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(self.pid, self.pid)
        self._terminal.move(os.getpgrp(), self.pid)
        for number in _PASSED_ON:
            signal.signal(number, self._pass_on)

    def let_go(self) -> None:
        """Let the child execute its program."""
        with suppress(BrokenPipeError):
            os.write(self._gate, b"go")
        os.close(self._gate)

    def give_up(self) -> None:
        """End the child before it has done anything."""
        os.close(self._gate)
        self.wait()

    def alive(self) -> bool:
        """Tell whether the waiting child still waits (an interrupt may have ended it)."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                self._note(status)
        return self._status is None

    def wait(self) -> int:
        """Wait for the end; give its exit status, or 128 + signal as shells do."""
        while self._status is None:
            self._note(os.waitpid(self.pid, os.WUNTRACED)[1])
        self._terminal.move(self.pid, os.getpgrp())
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else _SIGNALLED - code

    def _note(self, status: int) -> None:
        """Take in what waitpid said.

        SIGSTOP is left alone: that is how a keeper holds the group to its units.
        """
        if not os.WIFSTOPPED(status):
            self._status = status
        elif os.WSTOPSIG(status) in _WANTS_TERMINAL and self._terminal.belongs_to(os.getpgrp()):
            self._go_on()  # the shell's `fg` gave us what the child asks for
        elif os.WSTOPSIG(status) in (signal.SIGTSTP, *_WANTS_TERMINAL):
            self._terminal.move(self.pid, os.getpgrp())
            self._stop(signal.Signals(os.WSTOPSIG(status)))
            self._go_on()

    def _stop(self, number: signal.Signals) -> None:
        """Stop as the child did.

        From a terminal a stop is for the whole group: a script or ``make`` above, and the other
        commands of a pipeline, or the shell would wait for them. And the kernel passes over a
        Ctrl-Z where no shell is there to go on after it.
        """
        if not self._terminal.there:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif number is signal.SIGTSTP:
            before = signal.signal(number, signal.SIG_DFL)
            os.killpg(0, number)
            signal.signal(number, before)
        else:
            os.killpg(0, signal.SIGSTOP)

    def _go_on(self) -> None:
        """Go on with the child, in the foreground if that is where the shell put us."""
        self._terminal.move(os.getpgrp(), self.pid)
        self._pass_on(signal.SIGCONT, None)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class _Terminal:
    """The terminal at standard input, if there is one: who is in its foreground (tcsetpgrp(3))."""

    def __init__(self) -> None:
        self._number: int | None = None
        with suppress(OSError, ValueError, AttributeError):  # there may be no standard input at all
            number = sys.stdin.fileno()
            os.tcgetpgrp(number)
            self._number = number

    @property
    def there(self) -> bool:
        """Tell whether there is one."""
        return self._number is not None

    def belongs_to(self, group: int) -> bool:
        """Tell whether ``group`` is in the foreground."""
        with suppress(OSError):
            return self._number is not None and os.tcgetpgrp(self._number) == group
        return False

    def move(self, giver: int, taker: int) -> None:
        """Hand the foreground from one group to another; nothing where the giver hasn't got it."""
        if self._number is None or not self.belongs_to(giver):
            return
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError):
            os.tcsetpgrp(self._number, taker)
        signal.signal(signal.SIGTTOU, before)


def _become(gate: int, program: str, words: Sequence[str]) -> NoReturn:
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; programs expect them to end
            signal.signal(number, signal.SIG_DFL)
        if os.read(gate, 2) == b"go":
            os.close(gate)
            os.execv(program, list(words))  # noqa: S606 - the caller's own command, no shell wanted
    except KeyboardInterrupt:
        os._exit(_SIGNALLED + signal.SIGINT)
    except OSError as error:
        os.write(2, f"slaqctl run: {program}: {error.strerror}\n".encode())
        os._exit(EXIT_CANNOT_RUN)
    finally:
        os._exit(EXIT_CANNOT_RUN)
