"""A process that writes the journal, killed again and again: what it was told is on disk is there."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from slaqd.act import open_journal

pytestmark = pytest.mark.fault

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
FAILURES = (("pwrite64", "EIO"), ("pwrite64", "ENOSPC"), ("fdatasync", "EIO"), ("fsync", "EIO"))
WRITES = """
import sys
from pathlib import Path
from modelled import registration
from slaqd.act import open_journal
journal = open_journal(Path(sys.argv[1]), 0.0)
number = int(sys.argv[2])
while True:
    journal.register(registration(number))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    number += 1
"""

FEW = """
import sys
from pathlib import Path
from modelled import registration
from slaqd.act import open_journal
from slaqd.errors import StateError
try:
    journal = open_journal(Path(sys.argv[1]), 0.0)
except StateError:
    raise SystemExit(74)
for number in range(6):
    try:
        journal.register(registration(number))
        if number == 3:
            journal.pause_all(paused=True)
    except StateError:
        continue
    print(number, flush=True)
journal.close()
"""


def killed(path: Path, first: int, after_s: float) -> list[int]:
    """Let a process register jobs one by one, kill it at some moment, and give those it was sure of."""
    words = [sys.executable, "-c", WRITES, str(path), str(first)]
    writer = subprocess.Popen(words, stdout=subprocess.PIPE, env=ENV)
    assert writer.stdout is not None
    with writer.stdout as out:
        sure = [out.readline()]  # from here on it writes without a pause
        time.sleep(after_s)
        writer.kill()
        sure += out.readlines()
    writer.wait()
    return [int(line) for line in sure if line.endswith(b"\n")]


def kill_often(path: Path, kills: int) -> int:
    """Kill a writer so many times; give the number of acknowledged registrations, all of which are there."""
    moments = random.Random(kills)  # noqa: S311 - moments, no secret
    sure: set[int] = set()
    for _ in range(kills):
        sure.update(killed(path, max(sure, default=0) + 2, moments.uniform(0.0, 0.05)))
        journal = open_journal(path, 0.0)
        assert journal.unconfirmed == ""
        journal.close()
        with closing(sqlite3.connect(path)) as db:
            known = {int(row[0]) for row in db.execute("SELECT job FROM jobs")}
        assert sure <= known
        assert len(known - sure) <= kills, "more than one a kill that nobody was told of"
    return len(sure)


def test_sixty_kills_of_a_writer_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert kill_often(tmp_path / "journal.sqlite", 60) > 60


def writes(path: Path, inject: Sequence[str]) -> tuple[list[int], str]:
    """Let a process make six registrations under strace; give those it was sure of, and its calls."""
    calls = path.parent / "calls"
    words = ["strace", "-f", "-qq", "-o", str(calls), "-e", "trace=pwrite64,fdatasync,fsync", *inject]
    done = subprocess.run(
        [*words, sys.executable, "-c", FEW, str(path)],
        capture_output=True,
        check=False,
        timeout=60,
        env=ENV,
    )
    assert done.returncode in (0, 74), done.stderr
    return [int(line) for line in done.stdout.splitlines()], calls.read_text(encoding="ascii")


def fail_each(folder: Path, every: int) -> int:
    """Let one write or sync after another fail; give how many did. No journal is damaged by it."""
    sure, seen = writes(folder / "whole.sqlite", [])
    assert sure == list(range(6))
    tried = 0
    for call, error in FAILURES:
        for number in range(1, seen.count(f" {call}(") + 1, every):
            path = folder / f"{call}-{error}-{number}" / "journal.sqlite"
            path.parent.mkdir()
            sure, done = writes(path, ["-e", f"inject={call}:error={error}:when={number}"])
            assert done.count("(INJECTED)") == 1
            journal = open_journal(path, 0.0)
            assert journal.unconfirmed == "", path.parent.name
            assert {str(each) for each in sure} <= {each.key.id for each in journal.registrations()}
            journal.close()
            tried += 1
    return tried


def test_a_write_that_fails_damages_nothing_and_is_not_acknowledged(tmp_path: Path) -> None:
    assert fail_each(tmp_path, 15) > 9


@pytest.mark.soak
def test_each_write_that_fails_damages_nothing_and_is_not_acknowledged(tmp_path: Path) -> None:
    assert fail_each(tmp_path, 1) > 150


@pytest.mark.soak
def test_a_thousand_kills_of_a_writer_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert kill_often(tmp_path / "journal.sqlite", 1000) > 1000
