"""The log: bounded, harmless to terminals, patient with what repeats, at home in the journal."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from put_together import Daemon
from structlog.testing import capture_logs
from structlog.typing import EventDict

from slaqd import logs
from slaqd.text import show

HOSTILE = {
    "escape": "\x1b[2J\x1b]0;owned\x07",
    "return": "good\rlevel=error event=forged",
    "newline": "good\n2026-01-01 level=error event=forged",
    "next line": "a\x85b",
    "separators": "a\u2028b\u2029c",
    "right to left": "invoice\u202efdp.exe",
    "isolates": "\u2066a\u2069\u200f",
    "zero width": "a\u200bb\ufeff",
    "c1": "\x9b31m",
    "no utf-8": b"\xe9t\xe9".decode("utf-8", "surrogateescape"),
    "nul": "a\0b",
    "quotes": 'x" level=error event="forged',
    "backslash": "\\x1b \\",
    "emoji": "\N{SNAKE}\N{ZERO WIDTH JOINER}\N{FIRE}",
    "long": "x" * 1_000_000,
    "long and hostile": "\x1b" * 1_000_000,
}
FORBIDDEN = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
SAYS = """
import logging, sys, threading
import structlog
from slaqd import logs
from slaqd.text import show
logs.configure()
log = structlog.get_logger("slaqd")
{body}
"""

Lines = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Give structlog and the hooks back as they were."""
    import threading  # noqa: PLC0415 - the hook lies in the module

    before = structlog.get_config(), sys.excepthook, threading.excepthook
    yield
    structlog.configure(**before[0])
    sys.excepthook, threading.excepthook = before[1:]


@pytest.fixture(params=["key=value", "terminal", "journal"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Lines]:
    """Make a logger of each kind, and a way to see its lines."""
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    chain = logs.processors(terminal=request.param == "terminal", to_journal=request.param == "journal")
    log = structlog.wrap_logger(structlog.PrintLogger(out), processors=chain)
    return log, lambda: out.getvalue().splitlines()


def chain(*, processor: Callable[..., EventDict], **event: Any) -> EventDict:
    return processor(None, "info", event)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_value_steers_a_terminal_makes_a_line_or_is_long(written: tuple[Any, Lines], text: str) -> None:
    log, lines = written
    log.info("SetUnits", job=text, why=text)
    log.info(text)
    said = lines()
    assert len(said) == 2
    for line in said:
        assert not FORBIDDEN.search(line)
        assert len(line) < 4 * logs.LONGEST_EVENT


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_error_text_gets_out_of_its_trace(written: tuple[Any, Lines], text: str) -> None:
    log, lines = written
    log.error("a fault in the cycle", cycle=3, exc_info=ValueError(text))
    said = lines()
    assert sum(len(line) for line in said) < 80 * 2 * logs.LONGEST
    assert "a fault in the cycle" in said[0]
    assert all(line.startswith("| ") for line in said[1:])
    assert any("ValueError" in line for line in said)
    assert not [line for line in said[1:] if FORBIDDEN.search(line)]


def test_numbers_stay_numbers_and_everything_else_becomes_text() -> None:
    class Mute:
        def __str__(self) -> str:
            raise ZeroDivisionError

    event = chain(
        processor=logs.harmless,
        event="e",
        cycle=3,
        to=None,
        share=0.5,
        on=True,
        path=Path("/a\nb"),
        odd=Mute(),
    )
    assert event == {
        "event": "e",
        "cycle": 3,
        "to": None,
        "share": 0.5,
        "on": True,
        "path": "/a\\nb",
        "odd": "(Mute: can't be shown)",
    }
    assert chain(processor=logs.harmless, event="e", huge=10**5000)["huge"] == "(int: can't be shown)"


def test_a_trace_of_a_million_lines_keeps_its_ends(written: tuple[Any, Lines]) -> None:
    log, lines = written
    log.error("fault", exc_info=ValueError("\n".join(map(str, range(1_000_000)))))
    said = "\n".join(lines())
    assert "ValueError: 0" in said
    assert "999999" in said
    assert len(said) < 80 * logs.LONGEST


class Waits:
    """Counts what a patient log lets through, in a time of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.patience = logs.Patience(lambda: self.now)

    def says(self, event: str, *, level: str = "warning", **fields: object) -> int | None:
        """Give the number left out before this one, None where it is left out itself."""
        try:
            return int(self.patience(None, level, {"event": event, **fields}).get("left_out", 0))
        except structlog.DropEvent:
            return None


def test_the_same_warning_is_written_once_a_minute_with_a_count() -> None:
    waits = Waits()
    said = []
    for _ in range(100):
        said.append(waits.says("the disk is full"))
        waits.now += 3.0
    assert [one for one in said if one is not None] == [0, 19, 19, 19, 19]


def test_another_warning_or_one_about_another_job_is_not_the_same() -> None:
    waits = Waits()
    assert waits.says("SetUnits refused", job="1") == 0
    assert waits.says("SetUnits refused", job="2") == 0
    assert waits.says("Admit refused", job="1") == 0
    assert waits.says("SetUnits refused", job="1") is None


def test_a_thousand_jobs_that_fail_alike_write_few_lines() -> None:
    waits = Waits()
    said = [waits.says("SetUnits refused", job=str(job)) for _ in range(3) for job in range(1000)]
    written = [one for one in said if one is not None]
    assert len(written) == logs.MOST_ALIKE
    waits.now += logs.SILENCE_S
    again = waits.says("SetUnits refused", job="5000")
    assert again == 3000 - 2 * logs.MOST_ALIKE - logs.MOST_ALIKE
    assert waits.says("SetUnits refused", job="0") == 2


def test_another_reason_is_news_and_the_same_one_is_not() -> None:
    waits = Waits()
    said = []
    for error in ("epoch_s: expected a number >= 0.05", "epohc_s: unknown key", "epohc_s: unknown key"):
        said.append(waits.says("the new configuration is not used", error=error))
        waits.now += 2.0
    assert said == [0, 0, None]
    waits.now += logs.SILENCE_S
    assert waits.says("the new configuration is not used", error="epohc_s: unknown key") == 1


def test_reasons_that_are_ever_others_are_few_lines_and_hide_no_other_job() -> None:
    waits = Waits()
    said = [waits.says("SetUnits refused", job="1", error=f"{number} s late") for number in range(1000)]
    assert [one for one in said if one is not None] == [0] * logs.MOST_REASONS
    assert waits.says("SetUnits refused", job="2", error="too small") == 0
    waits.now += logs.SILENCE_S
    assert waits.says("SetUnits refused", job="1", error="again others") == 1000 - logs.MOST_REASONS


def test_reasons_and_jobs_that_are_ever_others_are_few_lines_too() -> None:
    waits = Waits()
    said = [waits.says("SetUnits refused", job=f"{n % 40}", error=f"{n} s late") for n in range(1000)]
    assert len([one for one in said if one is not None]) == logs.MOST_ALIKE


def test_what_is_known_of_reasons_is_bounded() -> None:
    waits = Waits()
    for number in range(10_000):
        waits.says(f"warning {number}", job=str(number), error="x" * 10_000 + str(number))
        waits.now += 0.001
    tables = (waits.patience._written, waits.patience._reasons, waits.patience._alike)
    assert all(len(table) <= 1024 for table in tables)
    assert max(len(word) for table in tables for key in table for word in key) <= 200


def test_what_is_no_warning_always_passes() -> None:
    waits = Waits()
    assert [waits.says("no jobs", level="info") for _ in range(50)] == [0] * 50


def test_what_is_known_of_warnings_is_bounded() -> None:
    waits = Waits()
    for number in range(10_000):
        waits.says(f"warning {number}")
        waits.now += 0.001
    assert len(waits.patience._written) <= 1024
    assert len(waits.patience._alike) <= 1024


def run(body: str, **extra: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SAYS.format(body=body)], check=False, text=True, timeout=60, **extra
    )


def test_the_journal_gets_priorities_and_no_times(tmp_path: Path) -> None:
    body = (
        'log.debug("a"); log.info("b", job="1"); log.warning("c"); log.error("d\\ne")\n'
        'try: 1/0\nexcept ZeroDivisionError: log.exception("f")'
    )
    with (tmp_path / "journal").open("w+") as file:
        seen = os.fstat(file.fileno())
        env = {**os.environ, "JOURNAL_STREAM": f"{seen.st_dev}:{seen.st_ino}"}
        assert run(body, env=env, stderr=file).returncode == 0
    lines = (tmp_path / "journal").read_text().splitlines()
    assert lines[:4] == ["<7>event=a", "<6>event=b job=1", "<4>event=c", "<3>event=d\\ne"]
    assert lines[4].startswith('<3>event=f exception="| Traceback')
    assert len(lines) == 5


def test_a_journal_that_is_somebody_elses_gets_no_priorities() -> None:
    done = run('log.info("b")', env={**os.environ, "JOURNAL_STREAM": "1:2"}, stderr=subprocess.PIPE)
    assert re.fullmatch(r"timestamp=\S+ level=info event=b\n", done.stderr)


def test_on_a_terminal_a_trace_shows_in_lines_and_steers_nothing() -> None:
    ours, theirs = pty.openpty()
    body = (
        'try: raise ValueError("\\x1b[2J\\nforged")\n'
        'except ValueError: log.exception("fault", name="\\x1b[31m")'
    )
    done = run(body, env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"}, stderr=theirs)
    os.close(theirs)
    said = b""
    with open(ours, "rb", buffering=0) as end:  # noqa: PTH123 - a descriptor
        while chunk := _read(end):
            said += chunk
    assert done.returncode == 0
    text = said.decode()
    assert "\x1b" not in text
    assert "| forged\r\n" in text
    assert "name=\\x1b[31m" in text


def _read(end: io.FileIO) -> bytes:
    try:
        return end.read(65536) or b""
    except OSError:  # the other side is closed
        return b""


def test_what_nobody_catches_goes_to_the_log_too() -> None:
    body = (
        'thread = threading.Thread(target=lambda: int("\\x1b"), name="t")\nthread.start(); thread.join()\n'
        'raise RuntimeError("\\x1b[2J")'
    )
    done = run(body, stderr=subprocess.PIPE)
    assert done.returncode == 1
    thread, end = done.stderr.splitlines()
    assert 'event="a thread ended by a fault"' in thread
    assert 'event="slaqd ends by a fault of its own"' in end
    assert "\x1b" not in done.stderr


def test_a_log_that_cant_be_written_ends_nothing() -> None:
    with Path("/dev/full").open("w") as full:
        done = run('log.info("lost"); print("alive")', stderr=full, stdout=subprocess.PIPE)
    assert done.stdout == "alive\n"


def test_a_complaint_is_one_printable_line() -> None:
    assert logs.complaint("a\nb\x1b", {}) == "slaqd: a\\nb\\x1b"


def test_an_action_is_one_event_with_who_what_and_why(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    one = daemon.start(1)
    daemon.manager.refuses[one] = "not now"
    with capture_logs() as said:
        daemon.cycle()
        del daemon.manager.refuses[one]
        daemon.cycle()
    daemon.journal.close()
    refused, sentence, adopted, second = said
    fields = {"job": "1", "user": "me", "from": None, "to": 8}
    assert {key: refused[key] for key in fields} == {key: adopted[key] for key in fields} == fields
    assert (refused["event"], refused["cycle"], refused["error"]) == ("Adopt refused", 1, "not now")
    assert (adopted["event"], adopted["cycle"], adopted["log_level"]) == ("Adopt", 2, "info")
    assert adopted["why"]
    assert [sentence["cycle"], second["cycle"]] == [1, 2]


def test_one_event_costs_little_where_a_name_has_a_million_characters() -> None:
    calls = []

    class Text(str):
        __slots__ = ()

        def isprintable(self) -> bool:
            calls.append(len(self))
            return str(self).isprintable()

        def __getitem__(self, key: Any) -> Text:
            return Text(str.__getitem__(self, key))

    assert len(show(Text("x" * 1_000_000))) == logs.LONGEST
    assert calls == [logs.LONGEST + 1]
