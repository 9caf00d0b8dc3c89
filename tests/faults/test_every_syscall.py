"""SIGKILL at every system call of what slaqd does: two cycles later all is as if nothing had been.

Real processes under real quotas (cgroup v1), the real adapter, the real ``slaqd --once``; what follows a kill
is compared with an undisturbed run: groups, quotas, weights, the place of each process, the journal's rows,
the files. Acts are also counted by a record that is not slaqd's. `kill_points` says what is killed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from living import wait_for

pytestmark = [pytest.mark.fault, pytest.mark.service]

PROGRAM = Path(__file__).with_name("kill_points.py")
CGROUPS = Path("/sys/fs/cgroup")
APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, str(PROGRAM))
# One thread and one order of sets: the n-th call is then the same in each run.
ENV = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
ACTS = {"cycle": 4, "twice": 4, "restore": 3, "first": 0}
"""What is killed, and how many acts of the adapter there are in an undisturbed run of it."""

SAMPLE = {"cycle": 30, "twice": 15, "restore": 15, "first": 10}
ENDS_ITSELF = 20
"""So many calls fewer may there be in one run or another: what was left is another each time."""


class Told(NamedTuple):
    """What the program found: the points after which something was wrong, and the counts of all."""

    faulty: list[dict[str, Any]]
    counts: Counter[str]


def swept(group: str) -> bool:
    for folder in CGROUPS.glob(f"cpu*/{group}"):
        with suppress(OSError):
            for each in (*folder.glob("job-*"), folder):
                each.rmdir()
    return not list(CGROUPS.glob(f"cpu*/{group}"))


@contextmanager
def killing(folder: Path, name: str, points: str, seed: int) -> Iterator[subprocess.Popen[str]]:
    """Run the program; nothing of it is left afterwards, however it ended."""
    folder.mkdir()
    group = f"slaqdtest-{os.getpid()}-{folder.name}"
    words = [*APART, name, str(folder), group, points, str(seed)]
    with (folder / "err").open("wb") as err:
        started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=err, text=True, env=ENV)
    try:
        with started:
            try:
                yield started
            finally:
                started.kill()
    finally:
        wait_for(lambda: swept(group), lambda: f"the groups of {group} are empty")


def kill_at(tmp_path: Path, name: str, parts: Sequence[str], seed: int = 0) -> Told:
    """Kill at the points of each part, the parts side by side."""
    assert os.geteuid() == 0, "making groups and namespaces needs root"
    told = Told([], Counter())
    with ExitStack() as stack:
        running = [
            stack.enter_context(killing(tmp_path / f"{name}-{number}", name, part, seed))
            for number, part in enumerate(parts)
        ]
        for number, each in enumerate(running):
            assert each.stdout is not None
            lines = [json.loads(line) for line in each.stdout]
            said = (tmp_path / f"{name}-{number}" / "err").read_text(encoding="utf-8")
            assert each.wait() == 0, said
            told.faulty.extend(lines[:-1])
            told.counts.update(lines[-1])
    return told


def all_good(told: Told, what: str) -> None:
    shown = "\n".join(json.dumps(each, indent=1) for each in told.faulty[:5])
    assert not told.faulty, f"{what}: {len(told.faulty)} points of {told.counts}; the first:\n{shown}"


@pytest.mark.parametrize("name", SAMPLE)
def test_killed_at_some_system_call_it_comes_to_the_same_end_in_two_cycles(name: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)  # noqa: S311 - a choice, no secret
    told = kill_at(tmp_path, name, [str(SAMPLE[name])], seed)
    all_good(told, f"seed {seed}")
    assert told.counts["acts"] == ACTS[name]
    assert told.counts["good"] + told.counts["ended before"] == SAMPLE[name]


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SAMPLE)
def test_killed_at_every_system_call_it_comes_to_the_same_end_in_two_cycles(
    name: str, tmp_path: Path
) -> None:
    parts = os.cpu_count() or 1
    told = kill_at(tmp_path, name, [f"{number}/{parts}" for number in range(parts)])
    all_good(told, name)
    calls = told.counts["calls"] // parts
    assert told.counts["good"] >= 2 * (calls - ENDS_ITSELF) >= 500
    assert told.counts["acts"] == parts * ACTS[name]
