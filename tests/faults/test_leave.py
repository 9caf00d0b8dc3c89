"""SIGTERM at any moment: every job is let go, no act is left half done, nothing that was known is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from living import PATIENCE_S

pytestmark = pytest.mark.fault

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
TICKS = os.sysconf("SC_CLK_TCK")
SERVES = """
import json, random, sys, time
from pathlib import Path
from put_together import Daemon
from slaqd import logs
from slaqd.clock import SystemClock
from slaqd.daemon.service import _serve
folder, jobs, epoch_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
daemon = Daemon(folder, clock=SystemClock(), units=3 * jobs, epoch_s=epoch_s)
keys = [daemon.start(number + 1, max=4) for number in range(jobs)]
for key in keys[::10]:
    daemon.journal.pause(key, paused=True)
look, held = daemon.adapter.snapshot, daemon.manager.held
def moved(deadline):
    for key in random.sample(sorted(held), len(held) // 2):
        held[key] = random.randint(1, 4)
    return look(deadline)
daemon.adapter.snapshot = moved  # so that each cycle has something to do
known = daemon.adapter._registered()
daemon.adapter._registered = lambda: known  # the fake reads the journal anew for each act
logs.configure()
_serve(daemon.parts, once=False)
cpu = time.process_time()
print(json.dumps({
    "cpu": cpu,
    "held": len(daemon.manager.held),
    "acts": len(daemon.manager.acts),
    "known": len(daemon.journal.registrations()),
    "paused": len(daemon.journal.paused()),
    "intents": [row.outcome for row in daemon.journal.actions()].count(None),
}))
daemon.journal.close()
"""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def leave(folder: Path, jobs: int, epoch_s: float, after_s: float) -> tuple[Mapping[str, float], float]:
    """Let a slaqd go some time after its first cycle; give what is left, and its CPU seconds."""
    folder.mkdir()
    words = [sys.executable, "-c", SERVES, str(folder), str(jobs), str(epoch_s)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        lines = iter(started.stderr.readline, b"")
        assert any(b"jobs running" in line for line in lines), "it never started"
        time.sleep(after_s)
        before = cpu_s(started.pid)
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 0, err
        return json.loads(out), json.loads(out)["cpu"] - before


def check_left(left: Mapping[str, float], jobs: int) -> None:
    assert (left["held"], left["intents"]) == (0, 0)
    assert left["acts"] > 0
    assert (left["known"], left["paused"]) == (jobs, len(range(0, jobs, 10)))


def test_a_slaqd_that_is_told_to_go_at_any_moment_leaves_nothing_half_done(tmp_path: Path) -> None:
    moments = random.Random(22)  # noqa: S311 - moments, no secret
    for turn in range(4):
        left, _ = leave(tmp_path / str(turn), 200, 0.1, moments.uniform(0.0, 0.5))
        check_left(left, 200)


@pytest.mark.soak
def test_a_slaqd_with_4000_jobs_goes_within_five_seconds_of_cpu(tmp_path: Path) -> None:
    moments = random.Random(4000)  # noqa: S311 - moments, no secret
    for turn in range(5):
        left, cpu = leave(tmp_path / str(turn), 4000, 3.0, moments.uniform(0.0, 6.0))
        check_left(left, 4000)
        print(f"CPU seconds from SIGTERM to the end: {cpu:.2f}, acts {left['acts']}")  # noqa: T201 - the figure
        assert cpu <= 5.0
