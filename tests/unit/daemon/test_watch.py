"""Following logs and paces from cycle to cycle."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from modelled import job, key, snapshot

from slaqd.daemon.watch import Watch, mean_units
from slaqd.observe import Log
from slaqd.types import Better, Curve, Health, Job, Tag


def logged(number: int, path: Path | str, *, held: int = 1) -> Job:
    return msgspec.structs.replace(job(number, held=held), tag=Tag(log=str(path)), cwd="/")


def write(path: Path, *points: tuple[float, float, float]) -> None:
    with path.open("a", encoding="utf-8") as out:
        for step, loss, time in points:
            out.write(json.dumps({"step": step, "loss": loss, "time": time}) + "\n")


def test_only_what_is_new_is_read_and_the_curve_grows(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    write(path, (1, 5.0, 100.0))
    (curve,), _ = watch.look(snapshot(logged(1, path)), 100.0)
    assert curve.count == 1
    write(path, (2, 4.0, 101.0), (3, 3.0, 102.0))
    (curve,), _ = watch.look(snapshot(logged(1, path)), 102.0)
    assert list(curve.losses) == [5.0, 4.0, 3.0]


def test_curves_and_paces_come_in_the_order_of_the_snapshot(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write(tmp_path / f"{number}.jsonl", (1, float(number), 100.0))
    jobs = [logged(number, tmp_path / f"{number}.jsonl") for number in (3, 1, 2)]
    curves, paces = Watch().look(snapshot(*jobs), 100.0)
    assert [curve.losses[0] for curve in curves] == [3.0, 1.0, 2.0]
    assert len(paces) == 3


def test_a_job_without_a_log_is_told_how_to_name_one() -> None:
    (curve,), _ = Watch().look(snapshot(job(1, held=1)), 100.0)
    assert curve.health is Health.MISSING
    assert "--log" in curve.note


def test_a_fault_in_reading_one_log_hurts_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = tmp_path / "bad.jsonl", tmp_path / "good.jsonl"
    for path in (bad, good):
        write(path, (1, 5.0, 100.0))
    poll = Log.poll

    def breaks(self: Log, now: float) -> Curve:
        if self._pattern == str(bad):
            raise ZeroDivisionError
        return poll(self, now)

    monkeypatch.setattr(Log, "poll", breaks)
    curves, _ = Watch().look(snapshot(logged(1, bad), logged(2, good)), 100.0)
    assert [curve.health for curve in curves] == [Health.UNREADABLE, Health.OK]
    assert "fault of slaqd's own" in curves[0].note


@pytest.mark.parametrize("log", ["{foo}.jsonl", "{taskid}", "relative.jsonl"])
def test_a_log_that_cant_be_worked_out_is_said_and_hurts_no_other(tmp_path: Path, log: str) -> None:
    write(tmp_path / "a.jsonl", (1, 5.0, 100.0))
    lost = msgspec.structs.replace(job(1, held=1), tag=Tag(log=log))
    curves, _ = Watch().look(snapshot(lost, logged(2, tmp_path / "a.jsonl")), 100.0)
    assert curves[0].health is Health.UNREADABLE
    assert log in curves[0].note
    assert curves[1].health is Health.OK


def test_a_job_that_is_gone_is_forgotten_and_a_new_one_of_its_id_starts_afresh(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    write(path, (1, 5.0, 100.0), (2, 4.0, 101.0))
    watch.look(snapshot(logged(1, path)), 101.0)
    watch.look(snapshot(), 102.0)
    assert watch._jobs == {}


def test_the_pace_is_seconds_per_iteration_at_the_units_held(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    write(path, (0, 5.0, 1000.0))
    watch.look(snapshot(logged(1, path, held=4)), 1000.0)
    write(path, (10, 4.0, 1020.0))
    _, (pace,) = watch.look(snapshot(logged(1, path, held=4)), 1020.0)
    assert pace.sums[0] == pytest.approx(1 / 2.0**2)  # one sample of 2 s per step …
    assert pace.sums[1] == pytest.approx(1 / 4 / 2.0**2)  # … at four units


def test_a_job_that_holds_nothing_teaches_no_pace(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    write(path, (0, 5.0, 1000.0))
    watch.look(snapshot(logged(1, path, held=0)), 1000.0)
    write(path, (10, 4.0, 1020.0))
    _, (pace,) = watch.look(snapshot(logged(1, path, held=0)), 1020.0)
    assert pace.sums == (0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_change_between_two_looks_is_averaged_in(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    write(path, (0, 5.0, 1000.0))
    watch.look(snapshot(logged(1, path, held=2)), 1000.0)
    watch.hold(key(1), 6, 1010.0)
    write(path, (10, 4.0, 1020.0))
    _, (pace,) = watch.look(snapshot(logged(1, path, held=6)), 1020.0)
    assert pace.sums[1] / pace.sums[0] == pytest.approx(1 / 4)


def test_a_clock_of_the_log_that_is_far_off_is_used_for_durations_alone(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    write(path, (0, 5.0, 3.0))
    watch.look(snapshot(logged(1, path, held=4)), 90_000.0)
    write(path, (10, 4.0, 23.0))
    _, (pace,) = watch.look(snapshot(logged(1, path, held=4)), 90_020.0)
    assert pace.sums[0] == pytest.approx(1 / 2.0**2)


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_jump_of_the_clock_gives_no_wild_pace(tmp_path: Path, jump: float) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    write(path, (0, 5.0, 1e6))
    watch.look(snapshot(logged(1, path, held=4)), 1e6)
    write(path, (10, 4.0, 1e6 + 20.0))
    _, (pace,) = watch.look(snapshot(logged(1, path, held=4)), 1e6 + 20.0 + jump)
    assert pace.sums[0] == pytest.approx(1 / 2.0**2)
    assert pace.sums[1] == pytest.approx(1 / 4 / 2.0**2)


def test_the_record_of_units_stays_short(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    for turn in range(200):
        write(path, (turn, 5.0 - turn / 100, 1000.0 + turn))
        watch.look(snapshot(logged(1, path, held=1 + turn % 2)), 1000.0 + turn)
    assert len(watch._jobs[key(1)].held) < 5


@pytest.mark.parametrize("kind", ["no log", "no file", "a stopwatch"])
def test_the_record_of_units_stays_short_whatever_the_log_is(tmp_path: Path, kind: str) -> None:
    watch, path = Watch(), tmp_path / "a.jsonl"
    for turn in range(600):
        held = 1 + turn % 2
        if kind == "a stopwatch":
            write(path, (turn, 5.0 - turn / 1000, float(turn)))
        one = job(1, held=held) if kind == "no log" else logged(1, path, held=held)
        watch.look(snapshot(one), 90_000.0 + turn)
    assert len(watch._jobs[key(1)].held) < 300


@pytest.mark.parametrize(
    "said",
    [
        {"key": "val_loss"},
        {"better": Better.HIGHER, "key": "val_loss"},
        {"format": "csv"},
        {"log": "b.jsonl"},
    ],
)
def test_a_job_that_is_registered_with_other_words_is_read_anew(
    tmp_path: Path, said: dict[str, object]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"loss": 5, "val_loss": 6}\n', encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"loss": 7}\n', encoding="utf-8")
    watch, before = Watch(), msgspec.structs.replace(logged(1, "a.jsonl"), cwd=str(tmp_path))
    (curve,), _ = watch.look(snapshot(before), 100.0)
    assert list(curve.losses) == [5.0]
    after = msgspec.structs.replace(before, tag=msgspec.structs.replace(before.tag, **said))
    (curve,), _ = watch.look(snapshot(after), 101.0)
    fresh, _ = Watch().look(snapshot(after), 101.0)
    assert (curve.losses, curve.health, curve.note) == (fresh[0].losses, fresh[0].health, fresh[0].note)


def test_other_bounds_are_no_reason_to_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, (1, 5.0, 100.0))
    watch, before = Watch(), logged(1, path)
    (first,), _ = watch.look(snapshot(before), 100.0)
    after = msgspec.structs.replace(before, tag=msgspec.structs.replace(before.tag, max=5))
    (second,), _ = watch.look(snapshot(after), 101.0)
    assert second is first


STEPS = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50)), min_size=1, max_size=8).map(sorted)


@given(STEPS, st.floats(0, 120), st.floats(0.01, 50))
def test_the_mean_lies_between_least_and_most(
    held: list[tuple[float, int]], start: float, length: float
) -> None:
    mean = mean_units(held, start, start + length)
    assert min(units for _, units in held) - 1e-6 <= mean <= max(units for _, units in held) + 1e-6


def test_the_mean_of_a_step_function_is_its_area_over_its_length() -> None:
    held = [(0.0, 2), (10.0, 4), (15.0, 8)]
    assert mean_units(held, 0.0, 20.0) == pytest.approx((10 * 2 + 5 * 4 + 5 * 8) / 20)
    assert mean_units(held, 12.0, 14.0) == pytest.approx(4)
    assert mean_units(held, -10.0, 0.0) == pytest.approx(2)
    assert mean_units([], 0.0, 1.0) == 0.0
    assert mean_units(held, 5.0, 5.0) == 8.0
