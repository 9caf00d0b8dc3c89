"""What the demo reads back: units from the journal, points from logs, errors by replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slaqd.act import Journal
from slaqd.demo.run import forecast_error
from slaqd.demo.stage import held_units, read_points, unit_seconds
from slaqd.types import Accepted, Admit, JobKey, Refused, Restore, SetUnits

KEY = JobKey("local", "42", 7)


def test_units_are_integrated_up_to_the_end_of_the_job() -> None:
    steps = [(1.0, 10.0), (3.0, 4.0), (9.0, 0.0)]
    assert unit_seconds(steps, 5.0) == pytest.approx(10 * 2 + 4 * 2)
    assert unit_seconds(steps, 20.0) == pytest.approx(10 * 2 + 4 * 6)
    assert unit_seconds(steps, 2.0) == pytest.approx(10)
    assert unit_seconds([], 5.0) == 0.0


def test_only_what_was_accepted_counts_as_held(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    acts = [Admit("1", KEY, "boot", 5), SetUnits("2", KEY, "boot", 9), SetUnits("3", KEY, "boot", 7)]
    for number, (act, outcome) in enumerate(zip(acts, [Accepted(), Refused("no"), Accepted()], strict=True)):
        journal.intend([act], {}, 100.0 + number, {})
        journal.record([(act.id, outcome)], 100.5 + number)
    journal.intend([Restore("4", KEY, "boot")], {}, 110.0, {})
    journal.record([("4", Accepted())], 110.0)
    journal.close()
    assert held_units(journal.path, 100.0) == {"42": [(0.5, 5.0), (2.5, 7.0), (10.0, 0.0)]}


def test_an_act_without_an_answer_counts_if_the_next_one_found_it_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    journal.intend([SetUnits("1", KEY, "boot", 5)], {KEY: 2}, 101.0, {})
    journal.intend([SetUnits("2", KEY, "boot", 8)], {KEY: 5}, 102.0, {})
    journal.intend([SetUnits("3", KEY, "boot", 9)], {KEY: 5}, 103.0, {})
    journal.close()
    assert held_units(journal.path, 100.0) == {"42": [(1.0, 5.0), (3.0, 9.0)]}


def test_a_torn_last_line_is_no_point(tmp_path: Path) -> None:
    log = tmp_path / "train.jsonl"
    log.write_text('{"step":0,"loss":2.0,"time":101.0}\n{"step":1,"loss":1.5,"time":102.0}\n{"step":2,"lo')
    assert read_points(log, 100.0) == ([1.0, 2.0], [2.0, 1.5])
    assert read_points(tmp_path / "none", 100.0) == ([], [])


def test_the_forecast_error_is_that_of_a_replay(tmp_path: Path) -> None:
    """A curve of the sublinear family itself is foretold; one that breaks is not."""
    assert forecast_error(tmp_path) is None
    _write(tmp_path / "smooth.jsonl", [1 / (0.1 * step + 1) + 0.5 for step in range(100)])
    smooth = forecast_error(tmp_path)
    assert smooth is not None
    assert smooth < 0.01
    _write(tmp_path / "smooth.jsonl", [1.0 - 0.004 * step if step % 20 < 10 else 3.0 for step in range(100)])
    broken = forecast_error(tmp_path)
    assert broken is not None
    assert broken > 10 * smooth


def _write(path: Path, losses: list[float]) -> None:
    lines = [json.dumps({"step": step, "loss": loss, "time": 1e9 + step}) for step, loss in enumerate(losses)]
    path.write_text("\n".join(lines) + "\n")
