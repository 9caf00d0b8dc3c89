"""The log that a kill left, frame by frame (SQLite: fileformat2, section 4, and walformat)."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from slaqd.act.wal import Left, frames_in_use, look

PAGE = 512
SALTS = b"saltsalt"
OTHERS = b"not ours"
LITTLE, BIG = 0x377F0682, 0x377F0683
HEAD_DAMAGED = Left(flaw="the head of its log is damaged")


def sums(data: bytes, order: str) -> bytes:
    """Sum up as the document says, over pairs of words."""
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    first = second = 0
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) % 2**32
        second = (second + words[at + 1] + first) % 2**32
    return struct.pack(">2I", first, second)


def head(page: int = PAGE, magic: int = LITTLE) -> bytes:
    data = struct.pack(">4I", magic, 3_007_000, page, 7) + SALTS
    return data + sums(data, ">" if magic == BIG else "<")


def frame(commit: int = 0, salts: bytes = SALTS, page: int = PAGE) -> bytes:
    return struct.pack(">2I", 1, commit) + salts + bytes(8) + bytes(page)


def looked(folder: Path, data: bytes) -> Left:
    (folder / "log").write_bytes(data)
    return look(folder / "log")


def test_no_log_and_one_without_a_frame_have_lost_nothing(tmp_path: Path) -> None:
    assert look(tmp_path / "none") == Left()
    for size in (0, 10, 32):
        assert looked(tmp_path, head()[:size]) == Left()


def test_a_log_that_cant_be_read_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        look(tmp_path)


def test_what_sqlite_wrote_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (x)")
        for size in (10, 20_000, 10):
            db.execute("INSERT INTO t VALUES (zeroblob(?))", (size,))
        left = look(tmp_path / "journal-wal")
        in_use = frames_in_use(tmp_path / "journal-shm")
    assert (left.flaw, left.holes, len(left.commits)) == (None, (), 4)
    assert left.commits[-1] == left.last == in_use > 8


@pytest.mark.parametrize("magic", [LITTLE, BIG])
def test_ends_of_transactions_are_numbered_from_one(tmp_path: Path, magic: int) -> None:
    frames = [frame(), frame(commit=2), frame(commit=0x01000000), frame()]
    left = looked(tmp_path, head(magic=magic) + b"".join(frames))
    assert left == Left(commits=(2, 3), last=4)


def test_half_a_frame_at_the_end_is_none(tmp_path: Path) -> None:
    assert looked(tmp_path, head() + frame(1) + frame(1)[:-1]) == Left(commits=(1,), last=1)


def test_what_an_earlier_round_left_behind_the_end_is_passed_over(tmp_path: Path) -> None:
    data = head() + frame(1) + frame(1, OTHERS) + frame(0, OTHERS)
    assert looked(tmp_path, data) == Left(commits=(1,), last=1)


def test_what_is_not_ours_before_one_of_ours_is_a_hole(tmp_path: Path) -> None:
    data = head() + frame(1) + frame(1, OTHERS) + frame(0, OTHERS) + frame(1)
    assert looked(tmp_path, data) == Left(commits=(1, 4), last=4, holes=(2, 3))
    assert looked(tmp_path, head() + frame(1, OTHERS)) == Left()


@pytest.mark.parametrize("byte", range(32))
def test_a_changed_byte_of_the_head_is_damage(tmp_path: Path, byte: int) -> None:
    data = bytearray(head() + frame(1))
    data[byte] ^= 0x10
    assert looked(tmp_path, bytes(data)) == HEAD_DAMAGED


@pytest.mark.parametrize(
    ("page", "whole"),
    [(512, True), (4096, True), (65_536, True), (256, False), (131_072, False), (1000, False)],
)
def test_a_page_has_a_size_that_sqlite_has(tmp_path: Path, page: int, whole: bool) -> None:  # noqa: FBT001 - a parameter of the table
    left = looked(tmp_path, head(page) + frame(1, page=page))
    assert left == (Left(commits=(1,), last=1) if whole else HEAD_DAMAGED)


@pytest.mark.parametrize(
    ("commits", "holes", "valid", "lost"),
    [
        ((2, 5), (), 5, False),
        ((2, 5), (), 4, False),
        ((2, 4, 5), (), 3, True),
        ((2, 4, 5), (), 4, False),
        ((5,), (3,), 2, True),
        ((5,), (3,), 3, False),
        ((), (), 0, False),
    ],
)
def test_a_transaction_that_others_follow_was_acknowledged(
    commits: Sequence[int],
    holes: Sequence[int],
    valid: int,
    lost: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    left = Left(commits=tuple(commits), last=5, holes=tuple(holes))
    assert left.lost_beyond(valid) is lost
