"""The process that forks children: of one thread, and with nothing of any user's in its memory.

The agent's main process has threads and holds what children of all users remembered;
a child that came of it would carry both into the hands of one user.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import math
import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress

from slaqd.agent import child
from slaqd.agent.become import User
from slaqd.agent.protocol import MOST_OF_CHILD, ClosedError, receive, send
from slaqd.agent.warm import warm
from slaqd.errors import AgentUnavailable
from slaqd.types import Struct

ANSWER_S = 5.0
"""A forker that takes longer than this to fork is lost."""

_PR_SET_PDEATHSIG = 1
_REAP_S = 1.0
_KILL_S = 2
_STEP_S = 0.002
_MOST_OF_ONE = 4
"""Children of one user at a time: those that can't even be killed hang in a file system of that user's."""


class Fork(Struct, frozen=True, tag="fork"):
    """Make a child of this user's that lives ``life_s`` seconds at most; its socket comes along."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    life_s: float


class Kill(Struct, frozen=True, tag="kill"):
    """End a child before its time."""

    pid: int


class Did(Struct, frozen=True):
    """The child's pid, or 0 where there is none (any more), or none was made."""

    pid: int


Order = Fork | Kill


class Forker:
    """The agent's end: makes children and ends them. Any thread may ask."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        self._lock = threading.Lock()
        agent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            here.close()
            _be_forker(there, agent)
        there.close()
        here.settimeout(ANSWER_S)
        self._sock = here

    def fork(self, user: User, life_s: float) -> tuple[int, socket.socket]:
        """Make a child; give its pid and the socket on which it serves.

        Raises
        ------
        BlockingIOError
            Several children of this user hang, and can't be killed; or no process can be made at all.
        AgentUnavailable
            The forker is gone or hangs: nothing works any more, the agent has to end.

        """
        here, there = socket.socketpair()
        with there:
            try:
                did = self._ask(Fork(user.uid, user.gid, user.groups, life_s), there)
            except AgentUnavailable:
                here.close()
                raise
        if not did.pid:
            here.close()
            raise BlockingIOError(errno.EAGAIN, "no process can be made that reads this user's files")
        return did.pid, here

    def kill(self, pid: int) -> None:
        """End a child. Raises as `fork` does."""
        self._ask(Kill(pid))

    def close(self) -> None:
        """Let the forker end; children end by themselves."""
        self._sock.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _ask(self, order: Order, *along: socket.socket) -> Did:
        with self._lock:
            try:
                send(self._sock, order)
                if along:
                    socket.send_fds(self._sock, [b"!"], [each.fileno() for each in along])
                answer: Did = receive(self._sock, Did)
            except OSError as error:
                raise AgentUnavailable(f"the agent's forker doesn't answer: {error}") from error
            return answer


def _be_forker(sock: socket.socket, agent: int) -> None:
    """Be the forker until the agent is gone; never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent, and it ends this one
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != agent:
            os._exit(0)
        _close_others(sock.fileno())
        warm()
        gc.freeze()
        _Nursery(sock).serve()
    except (ClosedError, OSError):
        os._exit(0)
    except BaseException:  # noqa: BLE001 - it must never run the agent's code
        os._exit(os.EX_SOFTWARE)
    os._exit(0)


def _close_others(own: int) -> None:
    """Close what children must not have, such as a listening socket that came from systemd."""
    os.closerange(3, own)
    os.closerange(own + 1, os.sysconf("SC_OPEN_MAX"))


class _Nursery:
    """The children that live, by pid, with whose they are and when they should be gone."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._children: dict[int, tuple[User, float]] = {}
        self._helpers: list[int] = []

    def serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._sock], [], [], _REAP_S if self._children else None)
            self._reap()
            if not ready:
                continue
            order = receive(self._sock, Order, MOST_OF_CHILD)
            done = self._fork(order) if isinstance(order, Fork) else self._kill(order.pid)
            send(self._sock, Did(done))

    def _reap(self) -> None:
        now = time.monotonic()
        self._helpers = [pid for pid in self._helpers if not os.waitpid(pid, os.WNOHANG)[0]]
        for pid, (user, until) in list(self._children.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._children[pid]
            elif now > until:  # stopped by its user, who would soon have as many as are allowed
                self._children[pid] = (user, math.inf)
                self._kill(pid)

    def _fork(self, order: Fork) -> int:
        _, (descriptor,), _, _ = socket.recv_fds(self._sock, 1, 1)
        user = User(order.uid, order.gid, order.groups)
        with socket.socket(fileno=descriptor) as theirs:
            if [each.uid for each, _ in self._children.values()].count(user.uid) >= _MOST_OF_ONE:
                return 0
            try:
                pid = os.fork()
            except OSError:
                return 0
            if not pid:
                self._sock.close()
                child.live(user, theirs, order.life_s)
        self._children[pid] = (user, time.monotonic() + order.life_s + _REAP_S)
        return pid

    def _kill(self, pid: int) -> int:
        """Let a helper kill that acts as the same user: with SETUID and SETGID alone root may not (kill(2)).

        The child isn't reaped before, so its pid is still its own.
        """
        if pid not in self._children:
            return 0
        try:
            helper = os.fork()
        except OSError:
            return 0
        if not helper:
            _kill_as(self._children[pid][0], pid)
        self._await(helper)
        return pid

    def _await(self, helper: int) -> None:
        """Wait for a helper, but not longer than it may take: it is reaped later."""
        until = time.monotonic() + _KILL_S
        while not os.waitpid(helper, os.WNOHANG)[0]:
            if time.monotonic() > until:
                self._helpers.append(helper)
                return
            time.sleep(_STEP_S)


def _kill_as(user: User, pid: int) -> None:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_KILL_S)
        # In effect alone: the user may signal nobody whose real uid is root's (kill(2)), and so can't
        # stop the helper, for which everybody else would wait.
        os.setgroups(())
        os.setresuid(0, user.uid, 0)
        os.kill(pid, signal.SIGKILL)
    finally:
        os._exit(0)
