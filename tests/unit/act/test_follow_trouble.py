"""Bad answers, directories that can't be used, an agent that doesn't answer: the others go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from following import WAITS, Following, brief, why

from slaqd.types import Accepted, JobKey, Refused, Unknown


@pytest.fixture
def world(tmp_path: Path) -> Following:
    return Following(tmp_path)


# answers that are none


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "ack.json can't be understood"),
        (b'{"v":1,"seq":2,"state":"appl', "ack.json can't be understood"),
        (b"\0" * 1_000_000, "ack.json is longer than 4096 bytes"),
        (b'{"v":1,"seq":"2","state":"applied","units":2}', "ack.json can't be understood: Expected `int`"),
        (b'{"v":1,"seq":3,"state":"applied","units":2}', "ack.json answers target 3, and 2 is the last"),
        (b'{"v":1,"seq":2,"state":"applied","units":9}', "outside the job's bounds, 1 to 8"),
        (b'{"v":1,"seq":2,"state":"applied","units":5}', "more than the 4 that the job can have had"),
    ],
)
def test_a_bad_answer_frees_nothing_and_the_job_is_told_why(
    world: Following, said: bytes, reason: str
) -> None:
    world.start()
    world.settle(4)
    world.set(2)
    world.says(said)
    job = world.job()
    assert (job.held, job.target) == (4, 2)
    assert reason in (job.gap or "")
    world.answer()
    assert brief(world.job()) == (2, 2, None)


@pytest.mark.parametrize(
    "said", [b"", b"{}", b"\xff" * 100_000, b'{"v":1,"seq":9,"state":"applied","units":1}']
)
def test_once_it_has_answered_garbage_changes_nothing(world: Following, said: bytes) -> None:
    world.start()
    world.settle(4)
    world.says(said)
    assert brief(world.job()) == (4, 4, None)
    world.place().joinpath("ack.json").unlink()
    assert brief(world.job()) == (4, 4, None)


def test_an_answer_ahead_of_slaqd_ends_nothing_and_the_next_target_passes_it(world: Following) -> None:
    world.start()
    world.adopt(2)
    world.says(b'{"v":1,"seq":50,"state":"applied","units":2}')
    world.job()
    world.clock.sleep(121.0)
    world.job()
    world.adopt(2)
    assert world.seq() == 51
    world.answer()
    assert brief(world.job()) == (2, 2, None)


def test_a_job_that_took_fewer_is_asked_for_more_only_after_a_while(world: Following) -> None:
    world.start()
    world.settle(2)
    world.set(6)
    world.answer(4)
    assert (*brief(world.job()), world.job().wants) == (4, 4, None, 4)
    world.clock.sleep(121.0)
    assert world.job().wants is None
    assert world.set(6) == Accepted()
    assert world.seq() == 3


# what is in the way


def test_a_directory_that_isnt_there_is_told_and_tried_again_more_and_more_seldom(world: Following) -> None:
    world.start(made=False)
    assert world.job().gap is None
    outcome = world.adopt(3)
    assert isinstance(outcome, Refused)
    assert outcome.retry
    assert "ctl-1" in outcome.why
    assert world.job().gap == outcome.why
    assert world.job().held == 0
    pauses = []
    for _ in range(8):
        waited = 0
        while world.job().gap is not None:
            world.clock.sleep(1.0)
            waited += 1
        pauses.append(waited)
        world.adopt(3)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    world.place().mkdir()
    world.clock.sleep(60.0)
    assert world.adopt(3) == Accepted()
    world.answer()
    assert brief(world.job()) == (3, 3, None)


def test_a_write_that_failed_may_have_come_through(world: Following) -> None:
    world.start()
    world.settle(4)

    def fails(_path: str) -> None:
        world.user.broken = PermissionError(13, "permission denied")
        raise world.user.broken

    world.user.after_put = fails
    assert isinstance(world.set(6), Refused)
    world.user.broken = None
    world.user.after_put = lambda _path: None
    assert (world.job().held, world.job().target) == (6, 6)
    world.answer()
    world.clock.sleep(60.0)
    assert brief(world.job()) == (6, 6, None)


def test_what_cant_be_read_of_one_job_leaves_the_others_alone(world: Following) -> None:
    world.start(1)
    world.start(2, lever=None, dir=None)
    world.settle(4)
    world.user.broken = PermissionError(13, "permission denied")
    assert brief(world.job(1)) == (4, 4, "[Errno 13] permission denied")
    assert world.job(2).gap is None
    world.user.broken = None
    assert brief(world.job(1)) == (4, 4, None)


def test_without_the_agent_nothing_is_missed_freed_or_told(world: Following) -> None:
    world.start(1)
    world.start(2)
    world.settle(4)
    world.set(2)
    world.job()
    world.again().snapshot(world.clock.monotonic() + 1)
    world.user.silent = True
    world.clock.sleep(1000.0)
    asked = len(world.user.gets)
    assert brief(world.job()) == (4, 2, WAITS.format(2, 2))
    assert brief(world.job(2)) == (0, None, "slaqd-agent does not answer")
    assert len(world.user.gets) == asked
    assert world.adopt(3, 2) == Unknown("slaqd-agent does not answer")
    world.user.silent = False
    world.answer()
    assert brief(world.job()) == (2, 2, None)


def test_where_nobody_can_tell_what_a_job_was_told_nothing_is_planned(world: Following) -> None:
    key = world.start()
    world.settle(4)
    world.set(8)
    world.store.forget(key)
    world.again()
    world.user.silent = True
    assert world.snapshot().gaps == ("what job 1 was told can't be read: slaqd-agent does not answer",)
    world.user.silent = False
    assert world.snapshot().gaps == ()
    assert world.job().held == 8


def test_a_new_slaqd_without_the_agent_counts_what_was_noted(world: Following) -> None:
    world.start()
    world.settle(4)
    world.user.silent = True
    world.again()
    assert brief(world.job()) == (4, 4, "slaqd-agent does not answer")


def test_two_jobs_dont_share_a_directory(world: Following) -> None:
    world.start(1)
    world.start(2, dir="ctl-1")
    assert world.job(1).gap is None
    assert world.job(2).gap == "job 1 has the same dir=ctl-1: name another, such as ctl-{jobid}"
    assert why(world.adopt(2, 2)) == world.job(2).gap
    world.manager.ended.add(JobKey("fake", "1", 7))
    assert world.job(2).gap is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"dir": None}, "lever=file needs the directory of its target: say dir= in the tag"),
        ({"dir": "{what}"}, "tag: dir={what}: {what} is not known"),
        ({"cwd": ""}, "tag: dir=ctl-1 is relative"),
    ],
)
def test_a_job_that_cant_be_told_anything_is_left_as_it_is(
    world: Following, said: dict[str, str | None], words: str
) -> None:
    world.start(**said)  # type: ignore[arg-type]
    assert (world.job().gap or "").startswith(words)
    assert why(world.adopt(2)).startswith(words)
    assert world.user.puts == []


def test_a_job_registered_anew_with_another_directory_is_told_there(world: Following) -> None:
    world.start()
    world.settle(4)
    world.start(dir="elsewhere")
    (world.folder / "elsewhere").mkdir()
    assert brief(world.job()) == (4, None, None)
    world.adopt(2)
    assert json.loads((world.folder / "elsewhere" / "target.json").read_text())["seq"] == 2
    assert world.job().held == 4
