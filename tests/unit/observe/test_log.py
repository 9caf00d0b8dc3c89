"""A job's log from poll to poll: the curve, its health, and what the note tells the user."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
from pathlib import Path

import pytest

from slaqd.observe import DirectReader, Log, SourceMissing, read_log
from slaqd.types import Better, Curve, Health, Tag


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def rows(path: Path, *values: dict[str, object]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)


def read(path: Path, text: str | bytes, tag: Tag | None = None) -> Curve:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_log(str(path), tag)


def losses(path: Path, text: str, tag: Tag | None = None) -> list[float]:
    return list(read(path, text, tag).losses)


def test_a_missing_log_says_so_and_is_followed_once_it_comes(path: Path) -> None:
    log = Log(str(path), Tag())
    curve = log.poll(0.0)
    assert (curve.health, curve.note) == (Health.MISSING, f"{path}: not there yet")
    rows(path, {"step": 1, "loss": 0.5})
    assert log.poll(7.0).health is Health.OK


def test_an_empty_log_says_so(path: Path) -> None:
    curve = read(path, "")
    assert (curve.health, curve.note) == (Health.EMPTY, f"{path}: empty")


@pytest.mark.parametrize("text", ["step,loss\n", '{"step": 1, "loss"', "1"])
def test_a_beginning_is_not_yet_an_error(path: Path, text: str) -> None:
    assert read(path, text).health is Health.EMPTY


def test_a_directory_is_unreadable_and_named(tmp_path: Path) -> None:
    curve = read_log(str(tmp_path))
    assert curve.health is Health.UNREADABLE
    assert curve.note.startswith(f"{tmp_path}: is a directory")


@pytest.mark.parametrize(
    "data",
    [
        random.Random(1).randbytes(5000),  # noqa: S311 - any bytes do
        gzip.compress(b"step,loss\n1,2\n"),
        b"\x01\n" * 9,
    ],
)
def test_binary_rubbish_is_called_so(path: Path, data: bytes) -> None:
    curve = read(path, data)
    assert curve.health is Health.UNKNOWN_FORMAT
    assert curve.note.startswith(f"{path}: holds binary data")


def test_a_line_that_never_ends_is_called_so(path: Path) -> None:
    curve = read(path, "x" * 600_000)
    assert curve.health is Health.UNKNOWN_FORMAT
    assert "no line of a usable length" in curve.note


def test_free_text_names_the_first_line_without_its_control_characters(path: Path) -> None:
    curve = read(path, "\nhello \x1b[31mworld\nfoo\n")
    assert curve.health is Health.UNKNOWN_FORMAT
    assert f"{path}: line 2 is in no known format (csv, jsonl): 'hello \\x1b[31mworld'" in curve.note


def test_a_format_that_is_not_known_is_named_with_those_that_are(path: Path) -> None:
    curve = read(path, '{"loss": 1}\n', Tag(format="parquet"))
    assert curve.health is Health.UNKNOWN_FORMAT
    assert "format=parquet is not known; known are csv, jsonl" in curve.note


def test_a_forced_format_reads_a_table_of_unknown_names(path: Path) -> None:
    assert losses(path, "a,b\n1,2\n3,4\n", Tag(format="csv", key="b")) == [2, 4]


def test_losses_that_are_no_numbers_are_diverged_and_named(path: Path) -> None:
    curve = read(path, "step,loss\n1,0.5\n2,nan\n3,inf\n")
    assert curve.health is Health.DIVERGED
    assert list(curve.losses) == [0.5]
    assert curve.note == f"{path}: line 3: loss is nan at step 2, and no number since"


def test_a_loss_too_large_to_square_counts_as_diverged(path: Path) -> None:
    assert read(path, "step,loss\n1,1e200\n").health is Health.DIVERGED
    assert read(path, "step,loss\n1,1e25\n").health is Health.OK


def test_a_number_after_nan_brings_the_curve_back(path: Path) -> None:
    log = Log(str(path), Tag())
    path.write_text("step,loss\n1,0.5\n2,nan\n")
    assert log.poll(0).health is Health.DIVERGED
    with path.open("a") as file:
        file.write("3,0.4\n")
    curve = log.poll(1)
    assert (curve.health, curve.note, list(curve.losses)) == (Health.OK, "", [0.5, 0.4])


def test_a_restart_before_the_nan_drops_what_came_after(path: Path) -> None:
    assert losses(path, "step,loss\n1,5\n2,4\n3,nan\n2,nan\n1,4.5\n2,4.2\n") == [4.5, 4.2]


def test_null_losses_in_a_row_are_diverged(path: Path) -> None:
    """Loggers that use orjson write NaN as null."""
    rows(
        path, {"step": 1, "loss": 0.5, "lr": 0.1}, *({"step": s, "loss": None, "lr": 0.1} for s in (2, 3, 4))
    )
    curve = read_log(str(path))
    assert curve.health is Health.DIVERGED
    assert "null" in curve.note


def test_null_losses_in_rows_of_another_kind_are_usual(path: Path) -> None:
    rows(
        path,
        {"step": 1, "loss": 0.5, "val_loss": None},
        *({"step": s, "loss": None, "val_loss": 1} for s in (2, 3, 4)),
    )
    assert read_log(str(path)).health is Health.OK


def test_bad_lines_are_counted_and_the_first_is_named(path: Path) -> None:
    curve = read(
        path, '{"step": 1, "loss": 1}\nSaving weights ...\n{"step": 2, "lo\n{"step": 3, "loss": 2}\n'
    )
    assert curve.health is Health.OK
    assert list(curve.steps) == [1, 3]
    assert curve.note == f"{path}: 2 unreadable, the first: line 2 is not a JSON object: 'Saving weights ...'"


def test_a_row_of_another_length_names_its_line(path: Path) -> None:
    curve = read(path, "epoch,loss\n1,0.5\n2,0.4,9,9\n3,0.3\n")
    assert list(curve.steps) == [1, 3]
    assert "line 3 has 4 fields under 2 names" in curve.note


def test_a_row_without_a_usable_step_or_loss_is_a_bad_line(path: Path) -> None:
    curve = read(path, "step,loss\n1,0.5\n,0.4\n1e300,0.3\n4,abc\n5,0.2\n")
    assert list(curve.steps) == [1, 5]
    assert "3 unreadable, the first: line 3 has no step" in curve.note


def test_no_loss_column_asks_for_key_and_lists_what_there_is(path: Path) -> None:
    curve = read(path, "epoch,reward\n1,0.5\n")
    assert curve.health is Health.AMBIGUOUS
    assert (
        curve.note == f"{path}: no column is known to be a loss; say with key= which it is of: epoch, reward"
    )


def test_a_key_that_is_not_there_is_named_with_what_is(path: Path) -> None:
    curve = read(path, "epoch,loss\n1,0.5\n", Tag(key="vall_oss"))
    assert curve.health is Health.AMBIGUOUS
    assert "no column 'vall_oss' with numbers; key= may name one of: epoch, loss" in curve.note


def test_a_key_beats_every_better_name(path: Path) -> None:
    assert losses(path, "epoch,loss,foo\n1,0.5,9\n", Tag(key="foo")) == [9]


def test_higher_is_better_turns_the_sign(path: Path) -> None:
    tag = Tag(better=Better.HIGHER)
    curve = read(path, "epoch,loss,acc\n1,9,0.5\n2,9,0.75\n", tag)
    assert list(curve.losses) == [-0.5, -0.75]
    assert (curve.first, curve.lowest, curve.largest_change) == (-0.5, -0.75, 0.25)


def test_quoted_numbers_in_json_are_numbers(path: Path) -> None:
    assert losses(path, '{"num_updates": "10", "loss": "3.017"}\n') == [3.017]


def test_points_without_a_step_are_numbered_from_one(path: Path) -> None:
    assert list(read(path, "loss\n5\n4\n3\n").steps) == [1, 2, 3]


def test_a_header_written_anew_with_more_columns_keeps_the_curve(path: Path) -> None:
    log = Log(str(path), Tag())
    path.write_text("epoch,step,train_loss\n0,4,1.5\n0,9,1.2\n")
    log.poll(0)
    path.write_text("epoch,step,train_loss,val_loss\n0,4,1.5,\n0,9,1.2,\n0,9,,0.9\n0,14,1.1,\n")
    curve = log.poll(1)
    assert list(curve.steps) == [4, 9, 14]
    assert list(curve.losses) == [1.5, 1.2, 1.1]


def test_a_resumed_run_in_a_new_file_goes_on_where_the_old_one_ended(path: Path) -> None:
    log = Log(str(path), Tag())
    path.write_text("step,loss\n1,5\n2,4\n3,3\n")
    log.poll(0)
    path.write_text("step,loss\n3,2.9\n4,2.5\n")
    curve = log.poll(1)
    assert list(curve.losses) == [5, 4, 2.9, 2.5]
    assert curve.count == 4


def test_a_better_column_that_comes_late_replaces_the_curve(path: Path) -> None:
    log = Log(str(path), Tag())
    rows(path, {"step": 0, "val_loss": 9})
    assert list(log.poll(0).losses) == [9]
    rows(path, {"step": 1, "loss": 2}, {"step": 1, "val_loss": 8}, {"step": 2, "loss": 1})
    assert list(log.poll(1).losses) == [2, 1]


def test_a_log_without_a_clock_has_the_time_of_the_poll_for_new_points_alone(path: Path) -> None:
    log = Log(str(path), Tag())
    rows(path, {"step": 1, "loss": 3})
    assert math.isnan(log.poll(100.0).seconds[0])
    rows(path, {"step": 2, "loss": 2}, {"step": 3, "loss": 1})
    assert list(log.poll(110.0).seconds[1:]) == [110.0, 110.0]


def test_points_of_a_log_that_was_not_there_at_first_have_the_time_of_the_poll(path: Path) -> None:
    log = Log(str(path), Tag())
    log.poll(100.0)
    rows(path, {"step": 1, "loss": 3})
    assert list(log.poll(110.0).seconds) == [110.0]


def test_a_column_called_time_that_is_no_clock_is_found_out(path: Path) -> None:
    rows(path, *({"step": s, "loss": 1, "time": t} for s, t in enumerate((0.014, 0.006, 0.007, 0.005))))
    log = Log(str(path), Tag())
    assert all(math.isnan(second) for second in log.poll(100.0).seconds)
    assert log.describe() == "jsonl: loss 'loss', step 'step', no clock"
    rows(path, {"step": 9, "loss": 1, "time": 0.004})
    assert log.poll(110.0).seconds[-1] == 110.0


def test_a_stopwatch_goes_on_over_a_restart(path: Path) -> None:
    curve = read(path, "step,loss,elapsed\n1,5,10\n2,4,20\n3,3,30\n2,4,10\n3,3,20\n")
    assert list(curve.seconds) == [10, 40, 50]


def test_iterations_that_start_again_in_each_epoch_are_no_restart(path: Path) -> None:
    curve = read(path, "epoch,iter,loss\n1,50,5\n1,100,4\n2,50,3\n2,100,2\n")
    assert list(curve.steps) == [50, 100, 150, 200]


def test_a_curve_given_out_stays_as_it_is_and_the_same_one_comes_back(path: Path) -> None:
    log = Log(str(path), Tag())
    rows(path, {"step": 1, "loss": 3})
    first = log.poll(0)
    assert log.poll(1) is first
    rows(path, {"step": 2, "loss": 2})
    assert log.poll(2) is not first
    assert list(first.steps) == [1]


def test_a_short_absence_keeps_the_curve_and_a_long_one_is_told(path: Path) -> None:
    log = Log(str(path), Tag())
    rows(path, {"step": 1, "loss": 3})
    log.poll(0)
    path.rename(path.with_suffix(".old"))
    assert [log.poll(t).health for t in (1, 2, 3)] == [Health.OK, Health.OK, Health.MISSING]
    assert list(log.poll(4).losses) == [3]
    path.with_suffix(".old").rename(path)
    assert log.poll(5).health is Health.OK


def test_a_glob_follows_the_newest_file_and_keeps_the_curve(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "version_*" / "metrics.csv"), Tag())
    curve = log.poll(0)
    assert (curve.health, "no file matches yet" in curve.note) == (Health.MISSING, True)
    for number, text in enumerate(("step,loss\n1,5\n2,4\n", "step,loss\n2,3\n3,2\n")):
        folder = tmp_path / f"version_{number}"
        folder.mkdir()
        (folder / "metrics.csv").write_text(text)
        os.utime(folder / "metrics.csv", (number + 1, number + 1))
        curve = log.poll(1)
        assert curve.path == str(folder / "metrics.csv")
    assert list(curve.losses) == [5, 3, 2]


def test_a_file_once_left_is_not_taken_up_again(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "*.csv"), Tag())
    for name, when in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.csv").write_text("step,loss\n1,5\n")
        os.utime(tmp_path / f"{name}.csv", (when, when))
        log.poll(0)
    os.utime(tmp_path / "a.csv", (3, 3))
    assert log.poll(0).path == str(tmp_path / "b.csv")


def test_a_glob_does_not_walk_a_tree(tmp_path: Path) -> None:
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "deep" / "deeper" / "train.jsonl").write_text('{"loss": 1}\n')
    assert Log(str(tmp_path / "**" / "*.jsonl"), Tag()).poll(0.0).health is Health.MISSING


def test_what_a_glob_matches_beside_files_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "b.csv").mkdir()
    (tmp_path / "a.csv").write_text("step,loss\n1,5\n")
    assert read_log(str(tmp_path / "*.csv")).path == str(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["run[1].jsonl", "a*.jsonl", "what?.jsonl"])
def test_a_file_that_is_there_is_read_whatever_its_name_looks_like(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"loss": 1}\n')
    (tmp_path / "a1.jsonl").write_text('{"loss": 2}\n')
    curve = read_log(str(tmp_path / name))
    assert (curve.health, curve.path, list(curve.losses)) == (Health.OK, str(tmp_path / name), [1.0])


def test_skipped_lines_and_holes_are_told(path: Path) -> None:
    head = b"step,loss\n1,5\n"
    curve = read(path, head + b"x" * 70_000 + b"\n2,\x00\x00\n3,4\n")
    assert list(curve.steps) == [1, 3]
    assert "1 overlong lines skipped; 1 lines lost in holes of NUL bytes" in curve.note


def test_a_long_log_is_read_to_its_end_over_several_polls(path: Path) -> None:
    with path.open("w") as file:
        file.write("step,loss\n")
        file.writelines(f"{step},{1 / (step + 1):.17f}\n" for step in range(100_000))
    curve = read_log(str(path))
    assert curve.count == 100_000
    assert (curve.steps[0], curve.steps[-1], curve.first) == (0, 99_999, 1)


def test_reading_once_ends_when_the_file_goes_away_in_the_middle(path: Path) -> None:
    class Vanishing(DirectReader):
        left = 6

        def read(self, path: str, offset: int, limit: int) -> bytes:
            self.left -= 1
            if self.left < 0:
                message = "gone"
                raise SourceMissing(message)
            return super().read(path, offset, limit)

    path.write_text("step,loss\n" + f"1,{5:.200f}\n" * 40_000)
    assert read_log(str(path), None, Vanishing()).health is Health.MISSING


def test_a_bom_and_crlf_leave_no_trace(path: Path) -> None:
    log = Log(str(path), Tag())
    path.write_bytes(b"\xef\xbb\xbfstep;loss\r\n1;0,5\r\n")
    assert list(log.poll(0).losses) == [0.5]
    assert log.describe() == "csv: loss 'loss', step 'step', no clock"


def test_a_log_not_recognised_yet_is_described_so(path: Path) -> None:
    assert Log(str(path), Tag()).describe() == "not recognised yet"


def test_steps_that_fit_no_float_leave_the_log_empty(path: Path) -> None:
    curve = read(path, "step,loss\n1e300,1\n")
    assert curve.health is Health.EMPTY
    assert f"{path}: no usable point of 'loss' yet" in curve.note


def test_a_log_cut_off_for_a_new_start_keeps_its_curve(path: Path) -> None:
    log = Log(str(path), Tag())
    path.write_text("step,loss\n1,5\n2,4\n")
    log.poll(0)
    path.write_text("")
    assert log.poll(1).health is Health.OK
    path.write_text("step,loss\n")
    curve = log.poll(2)
    assert (curve.health, list(curve.losses)) == (Health.OK, [5, 4])
    assert "only a header so far" in curve.note


def test_a_stopwatch_goes_on_in_the_file_of_a_new_start(path: Path) -> None:
    log = Log(str(path), Tag())
    path.write_text("step,loss,elapsed\n1,5,10\n2,4,20\n")
    log.poll(0)
    path.write_text("step,loss,elapsed\n3,3,10\n")
    assert list(log.poll(1).seconds) == [10, 20, 30]


def test_a_followed_file_that_goes_away_is_looked_for_further(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "*.csv"), Tag())
    (tmp_path / "a.csv").write_text("step,loss\n1,5\n")
    log.poll(0)
    (tmp_path / "a.csv").unlink()
    assert [log.poll(t).health for t in (1, 2, 3)][-1] is Health.MISSING


def test_a_log_longer_than_a_poll_tells_how_far_it_is(path: Path) -> None:
    path.write_text("step,loss\n" + f"1,{5:.200f}\n" * 10_000)
    log = Log(str(path), Tag())
    assert f"of {path.stat().st_size} bytes read so far" in log.poll(0).note
    while log.behind:
        log.poll(0)
    assert log.poll(0).note == ""


def test_a_comment_between_header_and_rows_does_no_harm(path: Path) -> None:
    assert losses(path, "step,loss\n# warm-up\n1,5\n") == [5]
