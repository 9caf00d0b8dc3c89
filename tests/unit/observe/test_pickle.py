"""A log that is carried as bytes between two polls: the same curve, and never many bytes."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from slaqd.observe import Log, read_log
from slaqd.observe.detect import MOST_BYTES
from slaqd.observe.tail import MAX_LINE
from slaqd.types import Better, Curve, Health, Tag

ROOT = Path(__file__).parents[3]
LOGS = ROOT / "tests" / "data" / "logs"
WHOLE = ROOT.parent / "shared" / "logs"
"""The whole corpus, where a checkout has it beside it; LOGS are copies of some of it."""
CORPUS = [
    path
    for folder in (LOGS, WHOLE)
    if folder.is_dir()
    for path in sorted(folder.iterdir())
    if path.is_file() and not path.name.endswith((".expected.json", ".md"))
]
KEEP = 256
PIECES = 9
USUAL = 64 * 1024
HOSTILE = 256 * 1024


def carried(log: Log) -> Log:
    found = pickle.loads(pickle.dumps(log))  # noqa: S301 - made here
    assert isinstance(found, Log)
    return found


def growing(path: Path, data: bytes) -> Iterator[None]:
    """Write ``data`` in pieces that end anywhere in a line."""
    path.write_bytes(b"")
    for start, end in pairwise(len(data) * part // PIECES for part in range(PIECES + 1)):
        with path.open("ab") as file:
            file.write(data[start:end])
        yield


def as_it_is(curve: Curve) -> str:
    """Show all of a curve, so that NaN is like NaN."""
    return repr(curve)


@pytest.mark.parametrize("original", CORPUS, ids=str)
@pytest.mark.parametrize("better", Better)
def test_a_log_carried_between_every_two_polls_gives_the_same_curve(
    tmp_path: Path, original: Path, better: Better
) -> None:
    path = tmp_path / original.name
    tag = Tag(better=better)
    stays, goes = Log(str(path), tag, keep=KEEP), Log(str(path), tag, keep=KEEP)
    for now, _ in enumerate(growing(path, original.read_bytes())):
        goes = carried(goes)
        assert as_it_is(stays.poll(now)) == as_it_is(goes.poll(now))
        assert stays.describe() == goes.describe()
        assert len(pickle.dumps(goes)) <= USUAL


@pytest.mark.parametrize("original", CORPUS, ids=str)
def test_the_last_points_are_the_same_however_few_are_kept(original: Path) -> None:
    whole, log = read_log(str(original)), Log(str(original), Tag(), keep=KEEP)
    curve = log.poll(0)
    while log.behind:
        curve = log.poll(0)
    newest = slice(-KEEP // 2, None)
    assert (curve.steps[newest], curve.losses[newest]) == (whole.steps[newest], whole.losses[newest])
    assert (curve.count, curve.first, curve.lowest) == (whole.count, whole.first, whole.lowest)
    assert (curve.largest_change, curve.health, curve.note) == (
        whole.largest_change,
        whole.health,
        whole.note,
    )


def test_nulls_after_a_point_are_told_from_other_rows_across_a_pickle(tmp_path: Path) -> None:
    path = tmp_path / "log"
    wide = {f"part{number}": number for number in range(600)}
    log = Log(str(path), Tag(), keep=KEEP)
    for loss in (0.5, 0.4, None, None, None):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"loss": loss, **wide}) + "\n")
        log = carried(log)
        curve = log.poll(0)
    assert curve.health is Health.DIVERGED


def test_a_file_once_left_is_not_taken_up_again_across_a_pickle(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "*.log"), Tag())
    for place, name in enumerate(("old", "new")):
        path = tmp_path / f"{name}.log"
        path.write_text(f"step,loss\n1,{place}\n")
        os.utime(path, ns=(place, place))
        log = carried(log)
        log.poll(0)
    os.utime(tmp_path / "old.log", ns=(5, 5))
    assert list(carried(log).poll(0).losses) == [1]


def rows(names: Callable[[int], str], count: int) -> bytes:
    """Write JSON of that many columns in lines that are not too long."""
    made = [f'"{names(number)}": {number}' for number in range(count)]
    return b"".join(b"{" + ", ".join(made[at : at + 100]).encode() + b"}\n" for at in range(0, count, 100))


def letters(number: int, length: int) -> str:
    """Make a name that no compression makes short."""
    return "n" + random.Random(number).randbytes(length // 2).hex()  # noqa: S311 - any will do


def table(names: list[str]) -> bytes:
    values = ",".join("1" for _ in names)
    return (",".join(names) + "\n" + f"{values}\n" * 3).encode()


def epochs() -> bytes:
    return b"".join(
        b'{"epoch": %d, "iter": %d, "loss": 1}\n' % (epoch, step)
        for epoch in range(10_000)
        for step in (1, 2)
    )


def unlike(seed: int, length: int) -> bytes:
    """Make a line of text that is in no format, three bytes to a character."""
    signs = random.Random(seed)  # noqa: S311 - any will do
    return "".join(chr(signs.randrange(0x4E00, 0x9FFF)) for _ in range(length // 3)).encode()


HOSTILE_LOGS = {
    "4,096 columns in a table": table(["loss", *(f"column{number:05}" for number in range(4095))]),
    "4,096 columns of JSON": rows(lambda number: f"column{number:05}", 4096),
    "long names": rows(lambda number: letters(number, 400), 4096),
    "names without end": rows(lambda number: letters(number, 20_000), 100).replace(b", ", b"}\n{"),
    "4,096 losses": rows(lambda number: letters(number, 10) + ".loss", 4096),
    "4,096 clocks": b'{"loss": 1, "step": 1}\n' + rows(lambda number: letters(number, 10) + ".time", 4096),
    "names of one letter": table(["loss", *["a"] * (MAX_LINE // 2 - 10)]),
    "a header that is no text": b"loss," + b"\xff" * (MAX_LINE - 50) + b"\n1,1\n2,2\n",
    "first one header and then another": table(["loss", *(letters(n, 14) for n in range(4000))])
    + table(["loss", *(letters(-n, 14) for n in range(4000))]),
    "many epochs": epochs(),
    "long lines of nothing": b"\n".join(unlike(seed, MAX_LINE - 10) for seed in range(4)) + b"\n",
    "bytes that are no text": b"\n".join(b"\xff" * (MAX_LINE - 10 - n) for n in range(4)) + b"\n",
    "deep names": b'{"loss": 1, "' + b"p" * 20_000 + b'": {"q": {"r": {"s": 1}}}}\n',
    "leaves below a long name": b'{"loss": 1, "%s": {%s}}\n'
    % (b"p" * 500, b", ".join(b'"l%d": 1' % number for number in range(4000))),
}


@pytest.mark.parametrize("name", HOSTILE_LOGS)
def test_a_log_that_means_to_be_heavy_is_carried_in_256_kib(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    stays, goes = Log(str(path), Tag(), keep=KEEP), Log(str(path), Tag(), keep=KEEP)
    for now, _ in enumerate(growing(path, HOSTILE_LOGS[name])):
        goes = carried(goes)
        assert as_it_is(stays.poll(now)) == as_it_is(goes.poll(now))
        assert len(pickle.dumps(goes)) <= HOSTILE


def test_a_log_that_is_written_anew_with_other_clocks_each_time_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(str(path), Tag(), keep=KEEP)
    for life in range(60):
        falling = "".join(f'{{"loss": 1, "{letters(life, 480)}.time": {-step}}}\n' for step in range(9))
        path.write_text(f'{{"life": {life}}}\n' + falling)
        os.utime(path, ns=(life, life))
        log = carried(log)
        log.poll(0)
    assert len(pickle.dumps(log)) <= USUAL


def test_a_log_of_thousands_of_files_stays_small(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "*.log"), Tag(), keep=KEEP)
    for life in range(1500):
        path = tmp_path / f"{life:0200}.log"
        path.write_text(f'{{"step": {life}, "loss": 1}}\n')
        log.poll(0)
        path.unlink()
    assert len(pickle.dumps(log)) <= USUAL


def test_names_beyond_what_is_remembered_are_not_looked_at(tmp_path: Path) -> None:
    """What is forgotten of a log that is too wide: columns past the first 64 KiB of names."""
    path = tmp_path / "log"
    many = rows(lambda number: letters(number, 300), MOST_BYTES // 300 + 1)
    path.write_bytes(many + b'{"step": 1, "a.loss": 3}\n')
    assert read_log(str(path)).health is Health.AMBIGUOUS
