"""What a training program imports: it follows what is newer, answers, and falls over no file."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from modelled import job

from slaqd import job as module
from slaqd.act import target as targets
from slaqd.act.target import Phase, Track
from slaqd.job import Follower

GOOD = {"v": 1, "job": "1", "seq": 7, "units": 4, "min": 1, "max": 8, "issued": 1.0, "deadline": 121.0}


def tell(folder: Path, **said: Any) -> None:
    (folder / "target.json").write_text(json.dumps({**GOOD, "reason": "gain", **said}), encoding="utf-8")


def said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "ack.json").read_text(encoding="utf-8"))
    return found


def test_a_target_is_given_once_and_then_only_a_newer_one(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert follower.poll() is None
    tell(tmp_path)
    assert follower.poll() == (4, 121.0, 7, "gain")
    assert follower.poll() is None
    for seq in (7, 6, 1):
        tell(tmp_path, seq=seq, units=2)
        assert follower.poll() is None
    tell(tmp_path, seq=8, units=2)
    target = follower.poll()
    assert target is not None
    assert target.units == 2


@pytest.mark.parametrize(("units", "given"), [(0, 1), (-5, 1), (9, 8), (10**30, 8), (3, 3)])
def test_units_are_brought_within_the_bounds(tmp_path: Path, units: int, given: int) -> None:
    tell(tmp_path, units=units)
    target = Follower(tmp_path).poll()
    assert target is not None
    assert target.units == given


@pytest.mark.parametrize(
    "wrong",
    [
        {"v": 2}, {"v": True}, {"v": None}, {"seq": "7"}, {"seq": 7.0}, {"seq": True}, {"units": "4"},
        {"units": 4.5}, {"units": None}, {"min": 0}, {"min": 9}, {"max": [8]}, {"deadline": "soon"},
        {"deadline": None},
    ],
)  # fmt: skip
def test_a_target_with_a_wrong_value_is_none(tmp_path: Path, wrong: dict[str, object]) -> None:
    follower = Follower(tmp_path)
    tell(tmp_path, **wrong)
    assert follower.poll() is None
    tell(tmp_path)
    assert follower.poll() is not None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"7", b"null", b"\xff\xfe", b"\0" * 5000, b"[" * 4000, b"9" * 4000, b'{"v":1}',
        json.dumps(GOOD).encode()[:-5], b" " * 10_000_000,
    ],
)  # fmt: skip
def test_whatever_stands_there_it_goes_on_with_what_it_has(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "target.json").write_bytes(data)
    assert Follower(tmp_path).poll() is None


def test_no_directory_and_a_directory_in_the_files_place_are_no_targets(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Follower(tmp_path / "file" / "below").poll() is None
    (tmp_path / "target.json").mkdir()
    assert Follower(tmp_path).poll() is None


def test_the_directory_is_made_where_it_isnt_there(tmp_path: Path) -> None:
    Follower(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_target_of_an_earlier_job_is_passed_over_if_one_says_who_one_is(tmp_path: Path) -> None:
    tell(tmp_path, job="0")
    assert Follower(tmp_path, job="1").poll() is None
    assert Follower(tmp_path).poll() is not None


def test_the_answer_is_that_of_the_contract(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    tell(tmp_path)
    follower.poll()
    assert follower.done(4, step=1290, checkpoint_age_s=42, note="x" * 10_000)
    answer = said(tmp_path)
    assert list(answer) == ["v", "seq", "state", "units", "step", "time", "checkpoint_age_s", "note"]
    assert answer["note"] == "x" * 200
    assert [path.name for path in tmp_path.iterdir() if "ack" in path.name] == ["ack.json"]


def test_slaqd_believes_it(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    tell(tmp_path)
    follower.poll()
    follower.done(4, step=3, checkpoint_age_s=1.5, note="\U0001f40c" * 300)
    ack = targets.read_ack((tmp_path / "ack.json").read_bytes())
    assert not isinstance(ack, str)
    assert (ack.seq, ack.units, ack.step) == (7, 4, 3)


def test_it_understands_what_slaqd_writes(tmp_path: Path) -> None:
    track = Track(phase=Phase.OPEN, seq=9, units=3)
    (tmp_path / "target.json").write_bytes(targets.file(track, job("12", held=2), 5.0, "gain 0.031/min"))
    assert Follower(tmp_path, job="12").poll() == (3, 125.0, 9, "gain 0.031/min")


def test_before_the_first_target_it_says_what_it_began_with(tmp_path: Path) -> None:
    assert Follower(tmp_path).done(6)
    assert (said(tmp_path)["seq"], said(tmp_path)["units"]) == (0, 6)


def test_an_answer_that_cant_be_written_is_written_at_a_later_poll(tmp_path: Path) -> None:
    folder = tmp_path / "ctl"
    follower = Follower(folder)
    tell(folder)
    follower.poll()
    (folder / "target.json").unlink()
    folder.rmdir()
    assert not follower.done(4)
    assert follower.poll() is None
    folder.mkdir()
    assert follower.poll() is None
    assert said(folder)["seq"] == 7


def test_a_program_that_starts_anew_is_given_the_last_target_again(tmp_path: Path) -> None:
    tell(tmp_path)
    first, second = Follower(tmp_path).poll(), Follower(tmp_path).poll()
    assert first == second == (4, 121.0, 7, "gain")


def test_it_is_small_and_needs_nothing() -> None:
    source = Path(module.__file__)
    text = source.read_text(encoding="utf-8")
    assert text.count("\n") < 100
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        name.name if isinstance(node, ast.Import) else node.module for node in imported for name in node.names
    }
    assert {str(name).split(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_copy_of_it_works_where_slaqd_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "follow.py").write_bytes(Path(module.__file__).read_bytes())
    tell(tmp_path)
    program = "import follow; f = follow.Follower('.'); print(f.poll().units, f.done(4))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, ''); {program}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "4 True\n"
