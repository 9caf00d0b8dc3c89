"""A journal damaged under a real slaqd: set aside, nothing touched, and on again once an admin says so."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from living import Slaqd, quota_of, wait_for

pytestmark = [pytest.mark.fault, pytest.mark.service]

NAME = "journal.sqlite"


def settle(path: Path) -> bytes:
    """Bring the log that the kill left into the file, as SQLite would; give the file."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return path.read_bytes()


def all_pages(data: bytes) -> bytes:
    """Write rubbish over the head of every page but the first."""
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    return pages[0] + b"".join(b"\xa5" * 100 + page[100:] for page in pages[1:])


def one_bit(data: bytes) -> bytes:
    """Flip one bit in what the journal knows of a job's processes."""
    at = data.index(b'{"means":')
    return data[: at + 2] + bytes([data[at + 2] ^ 1]) + data[at + 3 :]


@pytest.mark.parametrize(("harm", "saved"), [(all_pages, 0), (one_bit, 1)])
def test_after_damage_no_quota_is_touched_until_resume(
    slaqd: Slaqd, harm: Callable[[bytes], bytes], saved: int
) -> None:
    slaqd.start()
    slaqd.busy("a", "--min", "10", "--max", "30")
    slaqd.comes_to("a", units=30)
    job = int(slaqd.job("a").job)
    slaqd.stop(signal.SIGKILL)
    bad = harm(settle(slaqd.state / NAME))
    (slaqd.state / NAME).write_bytes(bad)
    slaqd.start()
    slaqd.cycles(3)
    status = slaqd.status()
    assert status.paused
    assert "the journal was damaged" in status.alarm
    assert f"saved from it: jobs {saved}," in status.alarm
    assert "slaqctl resume" in status.sentence
    assert "the journal was damaged" in slaqd.ctl("status").stdout
    (aside,) = slaqd.state.glob(f"{NAME}.corrupt-*Z")
    assert aside.read_bytes() == bad
    assert slaqd.ctl("history").stdout.count("set aside") >= 1
    started = slaqd.run("new", "/bin/sh", "-c", "exit 4")
    assert started.wait(60) == 4
    assert quota_of(job) == 30
    assert slaqd.ctl("resume").returncode == 0
    assert slaqd.status().alarm == ""
    if not saved:
        assert slaqd.ctl("adopt", str(job), "--min", "5", "--max", "5", "--name", "a").returncode == 0
        slaqd.comes_to("a", units=5)
    wait_for(lambda: quota_of(job) == slaqd.job("a").units, slaqd.said)
    assert slaqd.stop() == 0
    assert quota_of(job) is None
