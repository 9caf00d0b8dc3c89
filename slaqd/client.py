"""Asks a running slaqd over its control socket. Light: it loads in jobs' wrappers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from slaqd import wire
from slaqd.errors import ControlError, DaemonUnreachable, NotPermitted
from slaqd.types import Struct

T = TypeVar("T")

TIMEOUT_S = 1.5  # with the start of Python its user waits less than two seconds
GONE_S = 10.0

_KNOCK_S = 0.1
_BUSY = b'{"v":1,"error":{"code":"busy",'
_MAX_REPLY = 64 * 1024 * 1024


class AnswerLostError(DaemonUnreachable):
    """slaqd ended while it was asked: whether it did what was asked is not known."""


class Client:
    """One daemon, asked one question per connection.

    Parameters
    ----------
    path
        The unix socket.
    timeout_s
        How long a question may take in all.

    """

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self.path = path
        self._timeout_s = timeout_s

    def ask(self, verb: wire.Verb, kind: type[T], args: Struct | None = None) -> T:
        """Ask, and give the answer as ``kind``.

        Raises
        ------
        DaemonUnreachable
            Nobody answers in time, or what answers is no slaqd of this version; an
            `AnswerLostError` where slaqd ended while it was asked.
        NotPermitted
            The daemon serves somebody else, or the job is somebody else's.
        ControlError
            The daemon said no; its text says why.

        """
        try:
            raw = msgspec.Raw(msgspec.json.encode(args)) if args is not None else msgspec.Raw(b"{}")
        except UnicodeEncodeError as error:
            code, text = "bad_request", error.object.encode("utf-8", "backslashreplace").decode()
            raise ControlError(code, f"{text}: not UTF-8 text; slaqd can't take it") from error
        line = self._exchange(wire.encode(wire.Request(v=wire.VERSION, verb=verb, args=raw)))
        try:
            reply = msgspec.json.decode(line, type=wire.Reply)
            if reply.v != wire.VERSION:
                msg = f"{self.path}: slaqd speaks version {reply.v}, this slaqctl {wire.VERSION}"
                raise DaemonUnreachable(msg)
            if reply.error is None and not isinstance(reply.ok, msgspec.UnsetType):
                return msgspec.json.decode(reply.ok, type=kind)
        except msgspec.MsgspecError as error:
            msg = f"{self.path}: the answer makes no sense to this version: {error}"
            raise DaemonUnreachable(msg) from error
        raise _raised(reply.error, self.path)

    def _exchange(self, request: bytes) -> bytes:
        try:
            return self._knock(request, time.monotonic() + self._timeout_s)
        except PermissionError as error:
            msg = f"{self.path}: permission denied: this slaqd serves another user"
            raise NotPermitted(msg) from error
        except (TimeoutError, BlockingIOError) as error:
            msg = f"{self.path}: slaqd does not answer within {self._timeout_s:g} s; is it overloaded?"
            raise DaemonUnreachable(msg) from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            msg = f"{self.path}: no slaqd is running there; start one with: slaqd"
            raise DaemonUnreachable(msg) from error
        except OSError as error:
            msg = f"{self.path}: slaqd can't be reached: {error.strerror or error}"
            raise DaemonUnreachable(msg) from error

    def _knock(self, request: bytes, deadline: float) -> bytes:
        """Ask until there is an answer. A slaqd with too much to do shuts its door, or says so."""
        busy, hung_up = b"", False
        while True:
            last = time.monotonic() + _KNOCK_S > deadline
            try:
                line = self._once(request, deadline)
            except (_ClosedError, BlockingIOError) as error:  # the latter: so many knock that no more fit
                if last:
                    raise
                hung_up |= isinstance(error, _ClosedError)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                if not hung_up:
                    raise
                msg = f"{self.path}: slaqd ended before it answered: it may have done what was asked, or not"
                raise AnswerLostError(msg) from error
            except TimeoutError:
                if busy:  # it lives, and has said why
                    return busy
                raise
            else:
                if last or not line.startswith(_BUSY):
                    return line
                busy = line
            time.sleep(_KNOCK_S)

    def _once(self, request: bytes, deadline: float) -> bytes:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            sock.connect(str(self.path))
            try:
                sock.sendall(request)
                return _line(sock, deadline)
            except (BrokenPipeError, ConnectionResetError) as error:
                raise _ClosedError("the connection was closed before the answer") from error


class _ClosedError(ConnectionError):
    """The other side hung up before it answered."""


def start_ticks(pid: int) -> int:
    """Give a process's start in clock ticks since boot (proc(5), field 22 of stat).

    Raises
    ------
    ProcessLookupError
        There is no such process.

    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError as error:
        msg = f"no process has the id {pid}"
        raise ProcessLookupError(msg) from error
    return int(stat.rpartition(b")")[2].split()[19])


def register(
    client: Client,
    args: wire.RegisterArgs,
    poll_s: float,
    told: Callable[[str], None],
    alive: Callable[[], bool] = lambda: True,
) -> wire.Registered:
    """Register a job; where slaqd ends before it has answered, ask the one that follows it.

    The job may be written down already: said again of the same process group, it takes
    its own place. ``told`` gets the news; the wait ends after `GONE_S`, and when the
    waiting command is no longer ``alive``. Raises as `Client.ask` does.
    """
    until: float | None = None
    while True:
        try:
            return client.ask(wire.Verb.REGISTER, wire.Registered, args)
        except DaemonUnreachable as error:
            if until is None:
                if not isinstance(error, AnswerLostError):
                    raise
                until = time.monotonic() + GONE_S
                told(f"slaqd ended before it answered; waiting up to {GONE_S:g} s for it to be back")
            if time.monotonic() > until or not alive():
                raise
        time.sleep(poll_s)


def await_admission(
    client: Client,
    job: str,
    poll_s: float,
    told: Callable[[str], None],
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """Wait until slaqd lets ``job`` start, or has been gone for `GONE_S`.

    ``told`` gets each new reason for waiting, and the news that slaqd is gone. The
    wait ends too when the waiting command is no longer ``alive``, and when slaqd was
    told to forget the job.
    """
    reason, seen = "", time.monotonic()
    while alive():
        try:
            view = client.ask(wire.Verb.SHOW, wire.JobView, wire.JobArgs(job=job))
        except ControlError as error:
            if error.code == "busy":  # somebody asks too often, but slaqd lives
                seen = time.monotonic()
            elif error.code == "not_found" or time.monotonic() - seen > GONE_S:
                told(f"starting without slaqd: {error}")
                return
        else:
            seen = time.monotonic()
            if not view.wait:
                return
            if view.reason != reason:
                reason = view.reason
                told(reason)
        time.sleep(poll_s)


def reachable(paths: Sequence[Path]) -> Path:
    """Choose the first socket that exists, else the first."""
    return next((path for path in paths if _is_socket(path)), paths[0])


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except PermissionError:
        return False  # another user's place: not for us


def _line(sock: socket.socket, deadline: float) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while not (chunks and chunks[-1].endswith(b"\n")):
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = sock.recv(65536)
        if not chunk:
            raise _ClosedError("the connection was closed before the answer")
        size += len(chunk)
        if size > _MAX_REPLY:
            msg = "the answer is too long"
            raise ConnectionError(msg)
        chunks.append(chunk)
    return b"".join(chunks)


def _raised(failure: wire.Failure | None, path: Path) -> ControlError:
    if failure is None:
        return DaemonUnreachable(f"{path}: an empty answer")
    if failure.code == "not_permitted":
        return NotPermitted(failure.text)
    if failure.code == "version":
        return DaemonUnreachable(f"{path}: {failure.text}")
    return ControlError(failure.code, failure.text)
