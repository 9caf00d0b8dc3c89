"""A disk under the journal that fails (strace injects): observe only, one alarm, and on again after."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from living import PATIENCE_S, SLAQD, Slaqd, straced, wait_for

pytestmark = [pytest.mark.fault, pytest.mark.service]

FAILURES = [
    ("pwrite64:error=EIO", "disk I/O error"),
    ("pwrite64:error=ENOSPC", "full"),
    ("fsync,fdatasync:error=EIO", "disk I/O error"),
]


@contextmanager
def failing(slaqd: Slaqd, failure: str) -> Iterator[None]:
    """Let the kernel's answer to these calls of a running slaqd be an error."""
    assert slaqd.process is not None
    calls = failure.partition(":")[0]
    words = ("-e", f"trace={calls}", "-e", f"inject={failure}", "-o", "/dev/null")
    with straced(slaqd.process.pid, slaqd.folder / "strace.err", *words):
        yield


@pytest.mark.parametrize(("failure", "words"), FAILURES)
def test_while_writing_fails_it_observes_with_one_alarm_and_then_acts_again(
    slaqd: Slaqd, failure: str, words: str
) -> None:
    slaqd.start()
    slaqd.busy("a", "--min", "5", "--max", "30")
    b = slaqd.busy("b", "--min", "20", "--max", "20")
    slaqd.comes_to("a", units=20)
    slaqd.comes_to("b", units=20)
    with failing(slaqd, failure):
        b.terminate()
        assert b.wait(PATIENCE_S) == 143
        wait_for(lambda: words in slaqd.status().alarm or None, slaqd.said)
        assert "the journal can't be used" in slaqd.status().alarm
        slaqd.cycles(4)
        assert slaqd.quota("a") == 20
        assert words in slaqd.ctl("status").stdout
    slaqd.comes_to("a", units=30)
    slaqd.comes_to("b", state="ended")
    wait_for(lambda: not slaqd.status().alarm or None, slaqd.said)
    said = slaqd.said()
    assert said.count("the journal can't be written") == said.count("the journal can be written again") >= 1
    assert slaqd.stop() == 0
    slaqd.start()
    slaqd.comes_to("a", units=30)
    assert slaqd.status().alarm == ""


def test_reading_that_fails_at_a_start_sets_nothing_aside(slaqd: Slaqd) -> None:
    slaqd.start()
    slaqd.stop()
    strace = shutil.which("strace")
    assert strace is not None
    journal = slaqd.state / "journal.sqlite"
    words = [strace, "-f", "-o", "/dev/null", "-P", str(journal), "-e", "trace=pread64"]
    words += ["-e", "inject=pread64:error=EIO", *SLAQD, "--config", str(slaqd.config)]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=slaqd.env
    )
    assert done.returncode == 74
    assert "disk I/O error" in done.stderr
    assert [each.name for each in slaqd.state.iterdir() if "corrupt" in each.name] == []
    slaqd.start()
    assert not slaqd.status().paused
