"""Runs work in a child and kills it at its n-th system call, just before the kernel does it or just after.

By ptrace(2): one counter over all calls, whatever their names, which strace's injection doesn't have.
The child is a fork of this process, so what was imported here costs it nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

Work = Callable[[], None]

_TRACEME, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_SYSGOOD, _EXITKILL = 1, 0x100000
_FORK, _VFORK, _CLONE = 2, 4, 8
_CALL_STOP = signal.SIGTRAP | 0x80
_INFO = 88
_ENTRY = 1
_NUMBER_AT = 24
_KILLED = -int(signal.SIGKILL)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Edge(StrEnum):
    """Where in a call the kill comes: the kernel has not begun it, or it is done and nobody knows."""

    BEFORE = "before"
    AFTER = "after"


class Point(NamedTuple):
    """One moment to kill at; ``number`` counts the calls from 1."""

    number: int
    edge: Edge

    def __str__(self) -> str:
        return f"{self.edge.value} call {self.number}"


def run(work: Work) -> int:
    """Let a child do the work undisturbed; give its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(_child(work), 0)[1])


def calls(work: Work) -> list[int]:
    """List the numbers of the system calls that the work makes, in order."""
    with _traced(work) as pid:
        return [_number(pid) for _, edge in _stops(pid) if edge is Edge.BEFORE]


def kill(work: Work, point: Point) -> bool:
    """Kill the work there; False where it came to a good end before."""
    with _traced(work) as pid:
        if point not in _stops(pid):
            return False
        os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == _KILLED, f"killed {point}, yet it ended with {status}"
        return True


def _stops(pid: int) -> Iterator[Point]:
    """Let it go on from stop to stop, until it ends."""
    number, edge = 0, Edge.AFTER
    while _next_stop(pid):
        edge = Edge.BEFORE if edge is Edge.AFTER else Edge.AFTER
        number += edge is Edge.BEFORE
        yield Point(number, edge)


def _next_stop(pid: int) -> bool:
    """Go on to the next beginning or end of a call; False where the process has ended well instead."""
    pending = 0
    while True:
        _ptrace(_SYSCALL, pid, pending)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            assert code == 0, f"the work failed by itself: {code}"
            return False
        pending = os.WSTOPSIG(status)
        if pending == _CALL_STOP:
            return True
        assert status >> 16 == 0, "a second thread or process: one counter doesn't reach over both"


def _number(pid: int) -> int:
    info = ctypes.create_string_buffer(_INFO)
    _ptrace(_GET_SYSCALL_INFO, pid, ctypes.addressof(info), _INFO)
    assert info.raw[0] == _ENTRY, "out of step with the calls"
    return int(struct.unpack_from("=Q", info.raw, _NUMBER_AT)[0])


@contextmanager
def _traced(work: Work) -> Iterator[int]:
    def stopped_first() -> None:
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        work()

    pid = _child(stopped_first)
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), status
    _ptrace(_SETOPTIONS, pid, _SYSGOOD | _EXITKILL | _FORK | _VFORK | _CLONE)
    yield pid


def _child(work: Work) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - nothing may climb out of a fork
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _ptrace(request: int, pid: int, data: int = 0, address: int = 0) -> None:
    if _libc.ptrace(request, pid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
