"""What jobs weigh where CPU is short: as the cores that they were granted, alone and together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slaqd_local import groups
from slaqd_local.weights import Weights


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(groups, "write", lambda path, text: path.write_text(text, encoding="ascii"))
    # Not every file system counts folders by links, as that of cgroups does.
    monkeypatch.setattr(groups, "count", lambda home: len([each for each in home.iterdir() if each.is_dir()]))
    group = tmp_path / "slaqd"
    group.mkdir()
    (group / "w").write_text("100", encoding="ascii")
    return group


def fresh() -> Weights:
    return Weights("w", 100, 1, 10_000)


def add(home: Path, weights: Weights, number: int, milli: int) -> Path:
    job = home / f"job-{number}-7"
    job.mkdir(exist_ok=True)
    (job / "w").touch()
    weights.set(job, milli)
    return job


def read(directory: Path) -> int:
    return int((directory / "w").read_text(encoding="ascii"))


def remove(job: Path) -> None:
    (job / "w").unlink()
    job.rmdir()


def test_a_hundred_small_jobs_weigh_no_more_than_what_they_were_granted(home: Path) -> None:
    weights = fresh()
    jobs = [add(home, weights, number, 20) for number in range(1, 101)]
    assert [read(job) for job in jobs] == [2] * 100
    assert read(home) == 200


def test_the_jobs_together_weigh_a_core_at_least_and_the_machine_at_most(home: Path) -> None:
    weights = fresh()
    add(home, weights, 1, 100)
    assert read(home) == 100
    for number, together in ((2, 210), (3, 400), (4, 400)):
        add(home, weights, number, 2000)
        assert read(home) == together


@pytest.mark.parametrize("new", [True, False])
def test_one_that_is_resized_or_gone_weighs_what_it_is(home: Path, *, new: bool) -> None:
    weights = fresh()
    first, second = add(home, weights, 1, 1500), add(home, weights, 2, 2000)
    assert read(home) == 350
    weights = fresh() if new else weights
    weights.set(second, 500)
    assert (read(second), read(home)) == (50, 200)
    remove(second)
    weights.drop(second)
    assert read(home) == 150
    weights.drop(first)  # a process stayed in it
    assert read(home) == 150


def test_a_change_reads_no_other_jobs_weight(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = fresh()
    for number in range(1, 4):
        add(home, weights, number, 1000)
    monkeypatch.setattr(groups, "number", lambda path: pytest.fail(f"read {path}"))
    add(home, weights, 2, 500)
    assert read(home) == 250


def test_the_group_of_all_may_be_gone_with_its_last_job(home: Path) -> None:
    weights = fresh()
    job = add(home, weights, 1, 1000)
    remove(job)
    remove(home)
    weights.drop(job)
    assert not home.exists()
