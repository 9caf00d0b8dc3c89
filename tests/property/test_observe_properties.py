"""Whatever a log holds and however it grows: no exception, and the same clean curve."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaqd.observe import DirectReader, History, Log, Tail, read_log
from slaqd.observe.formats import number
from slaqd.types import Better, Curve, Health, Tag

FINITE = st.floats(-1e6, 1e6)
STEPS = st.integers(0, 40)
POINTS = st.lists(st.tuples(STEPS, FINITE), max_size=60)
CUTS = st.lists(st.integers(0, 5000), max_size=6)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as found:
        yield Path(found)


def grow(path: Path, data: bytes, cuts: list[int]) -> Iterator[None]:
    """Write ``data`` piece by piece, stopping after each."""
    path.unlink(missing_ok=True)
    path.touch()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        with path.open("ab") as file:
            file.write(data[start:end])
        yield


def cleaned(points: list[tuple[int, float]]) -> list[tuple[float, float]]:
    """Apply the roll-back rule the slow way."""
    kept: list[tuple[float, float]] = []
    for step, loss in points:
        kept = [point for point in kept if point[0] < step]
        kept.append((step, loss))
    return kept


def check(curve: Curve) -> None:
    """Hold a curve to what its docstring promises."""
    assert len(curve.steps) == len(curve.losses) == len(curve.seconds)
    assert all(a < b for a, b in pairwise(curve.steps))
    assert all(math.isfinite(value) for value in (*curve.steps, *curve.losses))
    assert curve.count >= len(curve.steps)
    if curve.steps:
        assert curve.lowest == min(curve.losses)
        assert curve.first == curve.losses[0]
        assert curve.largest_change == max((abs(b - a) for a, b in pairwise(curve.losses)), default=0)
    if curve.health is not Health.OK:
        assert curve.note.startswith(curve.path)
    assert curve.note.isprintable()


@settings(deadline=None)  # no duration is promised
@given(POINTS)
def test_the_history_is_the_roll_back_rule(points: list[tuple[int, float]]) -> None:
    history = History()
    for step, loss in points:
        history.add(step, loss, math.nan)
    curve = history.curve(Health.OK, "log", "")
    assert list(zip(curve.steps, curve.losses, strict=True)) == cleaned(points)
    check(curve)


@settings(deadline=None)  # no duration is promised
@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"").replace(b"\0", b""))), CUTS)
def test_a_tail_hands_out_each_whole_line_once_however_the_file_grows(
    folder: Path, lines: list[bytes], cuts: list[int]
) -> None:
    path = folder / "tail"
    tail = Tail(str(path), DirectReader())
    found: list[bytes] = []
    for _ in grow(path, b"".join(line + b"\n" for line in lines) + b"torn", cuts):
        found += [line for part in tail.poll() for line in part.lines]
    assert found == lines
    assert tail.generation == 0


@settings(deadline=None)  # no duration is promised
@given(POINTS, CUTS, st.sampled_from(["jsonl", "csv", "tsv", "german"]))
def test_a_log_read_while_it_grows_gives_the_curve_of_the_whole(
    folder: Path, points: list[tuple[int, float]], cuts: list[int], form: str
) -> None:
    path = folder / "grown"
    log = Log(str(path), Tag())
    curve = Curve()
    for now, _ in enumerate(grow(path, _written(points, form), cuts)):
        curve = log.poll(now)
        check(curve)
    assert list(zip(curve.steps, curve.losses, strict=True)) == cleaned(points)
    whole = read_log(str(path))
    assert (whole.steps, whole.losses, whole.count) == (curve.steps, curve.losses, curve.count)


def _written(points: list[tuple[int, float]], form: str) -> bytes:
    """Write points as a logger would."""
    if form == "jsonl":
        return "".join(json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in points).encode()
    mark = {"csv": ",", "tsv": "\t", "german": ";"}[form]
    text = f"step{mark}loss\n" + "".join(f"{step}{mark}{loss!r}\n" for step, loss in points)
    return b"\xef\xbb\xbf" + text.replace(".", ",").encode() if form == "german" else text.encode()


ODD = st.sampled_from(
    [
        b"step,loss\n",
        b"1,0.5\n",
        b'{"step": 1, "loss": ',
        b'{"loss": 1}\n',
        b"NaN",
        b"}\n",
        b"\0\0",
        b"\n",
        b"1e309,",
    ]
)


@settings(deadline=None)  # no duration is promised
@given(st.lists(st.binary(max_size=40) | ODD, max_size=30).map(b"".join), CUTS, st.sampled_from(Better))
def test_any_bytes_give_a_curve_or_a_reason(
    folder: Path, data: bytes, cuts: list[int], better: Better
) -> None:
    path = folder / "any"
    log = Log(str(path), Tag(better=better))
    for now, _ in enumerate(grow(path, data, cuts)):
        check(log.poll(now))


@settings(deadline=None)  # no duration is promised
@given(st.lists(st.tuples(POINTS, st.booleans()), max_size=4))
def test_files_that_replace_one_another_join_by_the_roll_back_rule(
    folder: Path, runs: list[tuple[list[tuple[int, float]], bool]]
) -> None:
    path = folder / "replaced"
    path.unlink(missing_ok=True)
    log = Log(str(path), Tag())
    everything: list[tuple[int, float]] = []
    for number_of_run, (points, renamed) in enumerate(runs):
        # A run of its own kind of file: were it a longer copy of the last, it would be the same file.
        data = f"# run {number_of_run}\n".encode() + _written(points, "csv")
        target = folder / "replacing" if renamed else path
        target.write_bytes(data)
        os.utime(target, ns=(number_of_run, number_of_run))  # real polls are further apart than clock ticks
        target.replace(path)
        everything += points
        check(curve := log.poll(0))
        if curve.health is Health.OK:
            assert list(zip(curve.steps, curve.losses, strict=True)) == cleaned(everything)


@settings(deadline=None)  # no duration is promised
@given(st.floats())
def test_every_float_is_read_as_python_writes_it(value: float) -> None:
    found = number(repr(value))
    assert found == value or (found is not None and math.isnan(found) and math.isnan(value))


@settings(deadline=None)  # no duration is promised
@given(st.text(max_size=30))
def test_what_is_read_as_a_number_python_reads_too(text: str) -> None:
    found = number(text)
    if found is not None and math.isfinite(found):
        assert text.isascii()
        assert found == float(text)
