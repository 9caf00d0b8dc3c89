"""Following a file: what is a line, and when the file is another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slaqd.observe import DirectReader, FileId, SourceMissing, Tail
from slaqd.observe import tail as module


class CountingReader(DirectReader):
    """Counts the bytes that were read."""

    def __init__(self) -> None:
        self.bytes = 0

    def read(self, path: str, offset: int, limit: int) -> bytes:
        data = super().read(path, offset, limit)
        self.bytes += len(data)
        return data


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


def follow(log: Path) -> Tail:
    return Tail(str(log), DirectReader())


def lines(tail: Tail) -> list[bytes]:
    return [line for found in tail.poll() for line in found.lines]


def all_lines(tail: Tail) -> list[bytes]:
    """Poll until nothing is left, and leave out what was skipped."""
    found = lines(tail)
    while tail.behind:
        found += lines(tail)
    return [line for line in found if line]


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_a_torn_last_line_is_not_a_line(log: Path) -> None:
    tail = follow(log)
    append(log, b"78,0.5\n79,0.4")
    assert lines(tail) == [b"78,0.5"]
    append(log, b"839\n")
    assert lines(tail) == [b"79,0.4839"]


def test_lines_are_numbered_from_one_over_all_polls(log: Path) -> None:
    tail = follow(log)
    append(log, b"a\nb\n")
    assert [found.first for found in tail.poll()] == [1]
    append(log, b"c\n")
    assert [found.first for found in tail.poll()] == [3]


def test_nothing_is_read_while_nothing_grows(log: Path) -> None:
    reader = CountingReader()
    tail = Tail(str(log), reader)
    append(log, b"a\n" * 1000)
    lines(tail)
    before = reader.bytes
    assert lines(tail) == []
    assert reader.bytes == before


def test_only_what_is_new_is_read_again(log: Path) -> None:
    reader = CountingReader()
    tail = Tail(str(log), reader)
    append(log, b"0123456789\n" * 10_000)
    lines(tail)
    before = reader.bytes
    append(log, b"new\n")
    assert lines(tail) == [b"new"]
    assert reader.bytes - before <= 4 + 2 * module.PRINT


def test_a_file_cut_off_starts_a_new_generation(log: Path) -> None:
    tail = follow(log)
    append(log, b"old 1\nold 2\n")
    lines(tail)
    log.write_bytes(b"new\n")
    assert lines(tail) == [b"new"]
    assert tail.generation == 1


def test_a_file_written_anew_in_place_and_longer_starts_a_new_generation(log: Path) -> None:
    """Lightning rewrites metrics.csv when a column appears: same inode, larger, another header."""
    tail = follow(log)
    append(log, b"step,loss\n1,0.5\n")
    lines(tail)
    log.write_bytes(b"step,loss,acc\n1,0.5,\n2,0.4,0.9\n")
    assert lines(tail) == [b"step,loss,acc", b"1,0.5,", b"2,0.4,0.9"]
    assert tail.generation == 1


def test_a_change_just_before_the_offset_is_noticed_far_from_the_head(log: Path) -> None:
    tail = follow(log)
    head = b"the same head\n" * 100
    append(log, head + b"10,0.5\n")
    lines(tail)
    log.write_bytes(head + b"10,0.7\n11,0.6\n")
    assert lines(tail)[-2:] == [b"10,0.7", b"11,0.6"]
    assert tail.generation == 1


def test_another_file_under_the_same_name_starts_a_new_generation(log: Path, tmp_path: Path) -> None:
    tail = follow(log)
    append(log, b"a\n")
    lines(tail)
    (tmp_path / "next").write_bytes(b"b\nc\n")
    (tmp_path / "next").rename(log)
    assert lines(tail) == [b"b", b"c"]
    assert tail.generation == 1


def test_a_file_replaced_by_a_longer_copy_of_itself_goes_on(log: Path, tmp_path: Path) -> None:
    """Loggers that write the whole file beside and rename it do so at every epoch."""
    tail = follow(log)
    append(log, b"a\nb\n")
    lines(tail)
    (tmp_path / "next").write_bytes(b"a\nb\nc\n")
    (tmp_path / "next").rename(log)
    assert lines(tail) == [b"c"]
    assert tail.generation == 0


def test_a_missing_file_keeps_the_state(log: Path, tmp_path: Path) -> None:
    tail = follow(log)
    append(log, b"a\n")
    lines(tail)
    log.rename(tmp_path / "away")
    with pytest.raises(SourceMissing):
        lines(tail)
    (tmp_path / "away").rename(log)
    append(log, b"b\n")
    assert lines(tail) == [b"b"]
    assert tail.generation == 0


def test_a_nul_tail_waits_for_the_text_that_takes_its_place(log: Path) -> None:
    tail = follow(log)
    append(log, b"a\nb" + b"\0" * 2048)
    assert lines(tail) == [b"a"]
    with log.open("r+b") as file:
        file.seek(3)
        file.write(b"c\nd\n" + b"\0" * 100)
    os.truncate(log, 2051)
    assert lines(tail) == [b"bc", b"d"]
    assert tail.nul_lines == 0


def test_a_nul_hole_takes_only_the_lines_that_touch_it(log: Path) -> None:
    tail = follow(log)
    append(log, b"a\nb" + b"\0" * 50 + b"c\nd\n")
    assert lines(tail) == [b"a", b"", b"d"]
    assert tail.nul_lines == 1


def test_a_large_hole_is_waited_at_and_passed_once_text_follows(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 64)
    tail = follow(log)
    append(log, b"a\nb" + b"\0" * 1000)
    assert all_lines(tail) == [b"a"]
    assert tail.offset == 2
    append(log, b"c\nd\n")
    assert all_lines(tail) == [b"d"]
    assert tail.nul_lines == 1


def test_a_hole_longer_than_one_poll_is_worked_through(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 64)
    tail = follow(log)
    append(log, b"a\n" + b"\0" * (64 * module.CHUNKS * 3) + b"\nz\n")
    assert all_lines(tail) == [b"a", b"z"]


def test_a_line_without_end_is_skipped_and_counted(log: Path) -> None:
    tail = follow(log)
    append(log, b"a\n" + b"x" * (module.CHUNK + 10))
    assert lines(tail) == [b"a"]
    append(log, b"x" * module.CHUNK)
    assert lines(tail) == []
    append(log, b"the end of it\nb\n")
    assert [line for line in lines(tail) if line] == [b"b"]
    assert tail.long_lines == 1


def test_an_overlong_line_inside_a_chunk_is_skipped_and_keeps_its_number(log: Path) -> None:
    tail = follow(log)
    append(log, b"a\n" + b"x" * (module.MAX_LINE + 1) + b"\nb\n")
    assert lines(tail) == [b"a", b"", b"b"]
    assert tail.long_lines == 1


def test_one_poll_reads_a_bounded_amount_and_the_next_goes_on(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 16)
    tail = follow(log)
    append(log, b"0123456\n" * 100)
    first = lines(tail)
    assert len(first) == 2 * module.CHUNKS
    assert tail.behind
    while tail.behind:
        first += lines(tail)
    assert first == [b"0123456"] * 100


def test_an_endless_sparse_file_is_leapt_over(log: Path) -> None:
    reader = CountingReader()
    tail = Tail(str(log), reader)
    append(log, b"a\n")
    os.truncate(log, 10 * 2**30)
    append(log, b"\nz\n")
    assert all_lines(tail) == [b"a", b"z"]
    assert tail.leapt > 9 * 2**30
    assert reader.bytes < 64 * 2**20


def test_an_error_in_the_middle_of_a_poll_loses_nothing(log: Path) -> None:
    class Failing(DirectReader):
        broken = True

        def read(self, path: str, offset: int, limit: int) -> bytes:
            if self.broken:
                message = "stale"
                raise SourceMissing(message)
            return super().read(path, offset, limit)

        def stat(self, path: str) -> FileId:
            return super().stat(path)

    reader = Failing()
    tail = Tail(str(log), reader)
    append(log, b"a\n")
    with pytest.raises(SourceMissing):
        lines(tail)
    reader.broken = False
    assert lines(tail) == [b"a"]
