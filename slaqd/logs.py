"""The daemon's log: lines for people on a terminal, key=value elsewhere, with priorities for journald.

What users chose (names, paths, what stands in their files) can neither steer the terminal of whoever reads
the log, nor write lines of its own, nor fill the disk: every value is cut, and escaped where it isn't
printable; a warning that repeats is written once a minute, with a count of those left out.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from slaqd.text import LONGEST, show

LONGEST_EVENT = 400
LONGEST_COMPLAINT = 2000
TRACE_LINES = (20, 40)
SILENCE_S = 60.0
MOST_ALIKE = 20
MOST_REASONS = 5
_MOST_KNOWN = 1024
_LARGEST = 1 << 64
_PRIORITY = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}

log = structlog.get_logger("slaqd")


def configure(stream: TextIO | None = None) -> None:
    """Log to ``stream`` (stderr): for people on a terminal, for journald where it listens, else as key=value.

    What ends a thread or the process uncaught goes to the log too.
    """
    out = stream or sys.stderr
    to_journal = is_journal(out, os.environ)
    terminal = out.isatty() and not to_journal
    structlog.configure(
        processors=processors(terminal=terminal, to_journal=to_journal),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Patient(out))),
        cache_logger_on_first_use=True,
    )
    sys.excepthook = _uncaught
    threading.excepthook = _ended_thread


def processors(*, terminal: bool, to_journal: bool) -> list[Processor]:
    """Give what each event goes through, in order."""
    line: list[Processor]
    if to_journal:
        line = [priority(structlog.processors.LogfmtRenderer(key_order=["event"]))]
    else:
        # Times are added after the values were cut: they are ours.
        line = [structlog.processors.TimeStamper(fmt="iso", utc=False)]
        line += (
            [_console()]
            if terminal
            else [structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])]
        )
    return [structlog.processors.add_log_level, Patience(time.monotonic), trace, harmless, *line]


def _console() -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors="NO_COLOR" not in os.environ, exception_formatter=structlog.dev.plain_traceback
    )


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether a stream leads to journald (systemd.exec(5), ``$JOURNAL_STREAM``: device and inode)."""
    try:
        seen = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{seen.st_dev}:{seen.st_ino}"


def complaint(text: str, environ: Mapping[str, str] = os.environ, name: str = "slaqd") -> str:
    """Put what ends a program of ours before it has a log into one printable line, an error to journald."""
    prefix = f"<{_PRIORITY['error']}>" if is_journal(sys.stderr, environ) else ""
    return f"{prefix}{name}: {show(text, LONGEST_COMPLAINT)}"


def harmless(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Cut and escape every value; numbers and what is not there stay as they are."""
    for key, value in event.items():
        if key != "exception" and not _is_plain(value):
            event[key] = show(_text(value), LONGEST_EVENT if key == "event" else LONGEST)
    return event


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) < _LARGEST
    return value is None or isinstance(value, float)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a value that can't show itself must not cost its line
        return f"({type(value).__name__}: can't be shown)"


def trace(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Turn ``exc_info`` into text: each line escaped and marked, the middle left out of what is too long.

    The mark at the left keeps what stands in an error's text from looking like a line of the log.
    """
    error = _error(event.pop("exc_info", None))
    event.pop("stack_info", None)
    if error is not None:
        lines = "".join(traceback.format_exception(error, limit=-30)).rstrip("\n").split("\n")
        first, last = TRACE_LINES
        if len(lines) > first + last:
            lines = [*lines[:first], "…", *lines[-last:]]
        event["exception"] = "\n".join(f"| {show(line)}" for line in lines)
    return event


def _error(info: object) -> BaseException | None:
    if isinstance(info, BaseException):
        return info
    found = info if isinstance(info, tuple) else sys.exc_info() if info else (None, None, None)
    return cast("BaseException | None", found[1])


def priority(render: Callable[[WrappedLogger, str, EventDict], str]) -> Processor:
    """Write as journald wants it: a priority (sd-daemon(3)) before the line, no time, no level."""

    def line(logger: WrappedLogger, name: str, event: EventDict) -> str:
        number = _PRIORITY.get(event.pop("level", "info"), _PRIORITY["info"])
        return f"<{number}>{render(logger, name, event)}"

    return line


class Patience:
    """Leaves out warnings and errors that repeat, lest a thing that keeps failing fill the disk.

    The same event about the same job for the same reason (``error``) is written once in `SILENCE_S`, with
    ``left_out``, the number of those in between that were not. Another reason is news, but reasons may
    hold numbers and users' words, which never end: one event about one job is written for at most
    `MOST_REASONS` reasons in that span, lest one job's hide all others', and whatever jobs and reasons at
    most `MOST_ALIKE` times. What is no warning always passes: its number is bounded by cycles and actions.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._written: dict[tuple[str, ...], tuple[float, int]] = {}
        self._reasons: dict[tuple[str, ...], tuple[float, int, int]] = {}
        self._alike: dict[tuple[str, ...], tuple[float, int, int]] = {}

    def __call__(self, _logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
        """Pass an event on, or raise `structlog.DropEvent`."""
        if name in {"debug", "info"}:
            return event
        said, job, why = (show(_text(event.get(key, ""))) for key in ("event", "job", "error"))
        with self._lock:
            left_out = self._judge(said, job, why, self._monotonic())
        if left_out:
            event["left_out"] = left_out
        return event

    def _judge(self, said: str, job: str, why: str, now: float) -> int:
        """Say how many were left out before this one; leaves it out itself by `structlog.DropEvent`."""
        since, left_out = self._written.get((said, job, why), (now - SILENCE_S, 0))
        if now - since < SILENCE_S:
            self._written[said, job, why] = (since, left_out + 1)
            raise structlog.DropEvent
        spans = ((self._alike, (said,), MOST_ALIKE), (self._reasons, (said, job), MOST_REASONS))
        for table, key, most in spans:
            start, written, hidden = _span(table, key, now)
            if written >= most:
                table[key] = (start, written, hidden + 1)
                raise structlog.DropEvent
        self._keep(now)
        self._written[said, job, why] = (now, 0)
        for table, key, _ in spans:
            start, written, hidden = _span(table, key, now)
            table[key] = (start, written + 1, 0)
            left_out += hidden
        return left_out

    def _keep(self, now: float) -> None:
        """Forget what is old; what is new too, oldest first, where there is far too much of it."""
        for table in (self._written, self._reasons, self._alike):
            if len(table) >= _MOST_KNOWN:
                old = [key for key, (since, *_) in table.items() if now - since >= SILENCE_S]
                for key in old or list(table)[: _MOST_KNOWN // 2]:
                    del table[key]


def _span(
    table: dict[tuple[str, ...], tuple[float, int, int]], key: tuple[str, ...], now: float
) -> tuple[float, int, int]:
    """Give when a span began, how many were written in it, and how many were left out since the last one."""
    start, written, hidden = table.get(key, (now, 0, 0))
    return (start, written, hidden) if now - start < SILENCE_S else (now, 0, hidden)


class _Patient:
    """A stream whose disk may be full: a line of the log that is lost must not end the daemon."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _uncaught(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        log.critical("slaqd ends by a fault of its own", exc_info=error)


def _ended_thread(args: Any) -> None:  # noqa: ANN401 - threading.ExceptHookArgs is no type for annotations
    if args.exc_value is not None:
        name = args.thread.name if args.thread else "?"
        log.critical("a thread ended by a fault", thread=name, exc_info=args.exc_value)
