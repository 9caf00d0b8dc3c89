"""A world that stands still: cycle after cycle, nothing is written to the kernel's groups."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from living import Make, Slaqd, straced

from slaqd.act import Journal

pytestmark = pytest.mark.service

CHANGES = "write,writev,pwrite64,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,kill,tgkill"


@contextmanager
def watched(slaqd: Slaqd, calls: Path) -> Iterator[None]:
    """Have the kernel's own list of all that a running slaqd changes written to ``calls``."""
    assert slaqd.process is not None
    words = ("-y", "-e", f"trace={CHANGES}", "-o", str(calls))
    with straced(slaqd.process.pid, slaqd.folder / "strace.err", *words):
        yield


def to_the_groups(calls: Path) -> list[str]:
    lines = calls.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if "/sys/fs/cgroup" in line or " kill(" in line or " tgkill(" in line]


def test_a_second_cycle_on_an_unchanged_world_writes_nothing_to_the_manager(make: Make) -> None:
    slaqd = make(epoch_s=0.6).start()
    # On a machine that others use too, what a job uses is no constant: here it has no say in its units.
    slaqd.busy("a", "--min", "20", "--max", "20")
    slaqd.busy("b", "--min", "15", "--max", "15")
    slaqd.comes_to("a", units=20)
    slaqd.comes_to("b", units=15)
    slaqd.cycles(2)
    still, moved = slaqd.folder / "still", slaqd.folder / "moved"
    with watched(slaqd, still):
        slaqd.cycles(5)
    assert to_the_groups(still) == []
    assert str(slaqd.log) in still.read_text(encoding="utf-8", errors="replace"), "strace saw nothing at all"
    with watched(slaqd, moved):
        slaqd.busy("c", "--min", "5", "--max", "5")
        slaqd.comes_to("c", units=5)
    assert to_the_groups(moved) != []
    slaqd.stop(signal.SIGKILL)
    journal = Journal(slaqd.state / "journal.sqlite")
    assert [row.kind for row in journal.actions()] == ["Admit"] * 3
    journal.close()
    slaqd.start()
