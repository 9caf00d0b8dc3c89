"""The demo, small: real trainings under both policies, a killed slaqd on the way, an interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.service, pytest.mark.timeout(900)]

PATIENCE_S = 400.0  # on a machine that others use there is no room for long
JOBS = 4


class Demo:
    """A running ``slaqctl demo``."""

    def __init__(self, out: Path, *words: str) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slaqd.cli", "demo", "--jobs", str(JOBS), "--out", str(out), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
        )

    def finish(self) -> str:
        said, _ = self.process.communicate(timeout=800)
        return said

    def trainings_of(self, policy: str) -> list[Path]:
        return sorted((self.out / policy).glob("*.jsonl"))

    def slaqd(self, policy: str) -> int:
        """Give the pid that the daemon wrote into its lock."""
        lock = self.out / policy / "state" / "lock"
        text = lock.read_text() if lock.exists() else ""
        return int(text) if text.strip() else 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    demos: list[Demo] = []

    def begin(*words: str) -> Demo:
        demos.append(Demo(tmp_path / "a place with spaces", *words))
        return demos[-1]

    yield begin
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()
        demo.process.communicate(timeout=PATIENCE_S)


def wait(until: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, f"it never came to that: {what}"
        time.sleep(0.1)


def processes_about(place: Path) -> list[str]:
    """Command lines of living processes that name ``place``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(place) in words:
            found.append(words)
    return found


def check_result(result: dict[str, Any], seed: int) -> None:
    assert list(result) == ["v", "manager", "seed", "order", "load", "policies"]
    assert (result["v"], result["manager"], result["seed"]) == (1, "local", seed)
    assert sorted(result["policies"]) == sorted(result["order"]) == ["fair", "slaq"]
    for policy in result["policies"].values():
        assert list(policy) == [
            "time_to", "mean_loss", "mean_completion", "after_99", "forecast_error", "jobs",
        ]  # fmt: skip
        assert list(policy["time_to"]) == ["0.5", "0.75", "0.9", "0.95"]
        assert len({job["job"] for job in policy["jobs"]}) == len(policy["jobs"]) == JOBS
        for job in policy["jobs"]:
            assert list(job) == [
                "job", "arrived", "ended", "reached", "first", "lowest", "unit_seconds", "cpu_seconds",
            ]  # fmt: skip
            assert job["ended"] > job["arrived"]
            assert job["first"] > job["lowest"]
            assert job["unit_seconds"] > 0
            assert job["cpu_seconds"] > 0


def test_a_demo_whose_slaqd_is_killed_loses_no_job_and_doubles_none(start: Callable[..., Demo]) -> None:
    """Kill -9 in the middle of the first run; it is started again, and both runs end."""
    demo = start("--seed", "2")
    wait(lambda: len(demo.trainings_of("slaq")) > 1, "two trainings of the first run log")
    killed = demo.slaqd("slaq")
    os.kill(killed, signal.SIGKILL)
    wait(lambda: demo.slaqd("slaq") not in (0, killed), "another slaqd holds the state")
    said = demo.finish()
    assert demo.process.returncode == 0, said
    check_result(json.loads((demo.out / "result.json").read_text()), seed=2)
    for policy in ("fair", "slaq"):
        assert len(demo.trainings_of(policy)) == JOBS
    for words in ("time to 90 %", "completion, mean", "completion, worst job", "load", "start-up CPU"):
        assert words in said
    page = (demo.out / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert processes_about(demo.out) == []


def test_an_interrupt_ends_the_demo_and_its_jobs(start: Callable[..., Demo]) -> None:
    demo = start("--seed", "1")
    wait(lambda: demo.trainings_of("fair"), "a training logs")
    demo.process.send_signal(signal.SIGINT)
    said = demo.finish()
    assert demo.process.returncode == 130
    assert "interrupted" in said
    wait(lambda: not processes_about(demo.out), "its slaqd is gone")


def test_an_output_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    demo = Demo(tmp_path / "file" / "out")
    said = demo.finish()
    assert demo.process.returncode == 1
    assert str(tmp_path / "file") in said
    assert "Traceback" not in said
