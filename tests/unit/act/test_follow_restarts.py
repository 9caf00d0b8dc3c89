"""A new slaqd takes up what was told and answered, from its notes or from the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from following import WAITS, Following, brief

from slaqd.act import Journal
from slaqd.errors import StateError
from slaqd.types import Accepted, Refused


@pytest.fixture
def world(tmp_path: Path) -> Following:
    return Following(tmp_path)


def test_a_new_slaqd_goes_on_with_the_next_number_and_what_was_held(world: Following) -> None:
    world.start()
    world.settle(4)
    world.set(2)
    world.again()
    assert brief(world.job()) == (4, 2, WAITS.format(2, 2))
    assert world.set(3) == Refused(WAITS.format(2, 2), retry=True)
    world.answer()
    assert brief(world.job()) == (2, 2, None)
    world.set(3)
    assert world.seq() == 3


def test_a_new_slaqd_waits_anew_and_remembers_what_was_missed(world: Following) -> None:
    world.start()
    world.settle(4)
    world.set(2)
    world.job()
    world.clock.sleep(119.0)
    world.again()
    world.job()
    world.clock.sleep(119.0)
    assert world.job().gap == WAITS.format(2, 2)
    world.clock.sleep(2.0)
    world.job()
    for units in (3, 1):
        world.again()
        world.adopt(units)
        world.job()
        world.clock.sleep(121.0)
        world.job()
    world.again()
    assert "none of its last 3 targets" in (world.job().cannot_shrink or "")


def test_an_act_is_the_first_thing_that_a_new_slaqd_may_do(world: Following) -> None:
    world.start()
    world.settle(4)
    world.again()
    assert world.set(2) == Accepted()
    assert world.seq() == 2


@pytest.mark.parametrize("answered", [True, False])
def test_with_the_journal_lost_the_files_tell_what_is_held_and_the_next_number(
    world: Following, *, answered: bool
) -> None:
    key = world.start()
    for units in (4, 2, 7):
        world.settle(units)
    world.set(3)
    if answered:
        world.answer()
    world.store.forget(key)
    world.again()
    assert brief(world.job()) == ((3, 3, None) if answered else (3, 3, WAITS.format(4, 3)))
    world.clock.sleep(121.0)
    world.job()
    world.adopt(5)
    assert world.seq() == 5


def test_an_older_journal_that_came_back_is_overruled_by_the_file(world: Following) -> None:
    key = world.start()
    world.settle(4)
    old = dict(world.store.notes(key))
    world.settle(2)
    world.set(6)
    for name, value in old.items():
        world.store.note(key, name, value)
    world.again()
    assert brief(world.job()) == (6, 6, WAITS.format(3, 6))
    world.answer()
    assert brief(world.job()) == (6, 6, None)


def test_a_note_that_cant_be_read_is_as_none(world: Following) -> None:
    key = world.start()
    world.settle(4)
    world.store.note(key, "follow", '{"phase":"of a later slaqd"}')
    world.again()
    assert brief(world.job()) == (4, 4, None)


def test_numbers_go_on_above_what_an_earlier_job_left(world: Following) -> None:
    world.start()
    world.place().joinpath("target.json").write_text(
        '{"v":1,"job":"0","seq":31,"units":4,"min":1,"max":8,"issued":1.0,"deadline":2.0,"reason":""}'
    )
    world.says(b'{"v":1,"seq":32,"state":"applied","units":4}')
    assert brief(world.job()) == (0, None, None)
    world.adopt(2)
    assert (world.seq(), world.target()["job"]) == (33, "1")


def test_what_is_told_is_noted_before(world: Following) -> None:
    key = world.start()
    noted: list[str] = []
    world.user.after_put = lambda _path: noted.append(world.store.notes(key)["follow"])
    world.adopt(3)
    assert json.loads(noted[0])["seq"] == world.seq() == 1


def test_nothing_is_told_that_cant_be_noted(world: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    world.job()

    def full(*_args: object) -> None:
        raise StateError("the disk is full")

    monkeypatch.setattr(world.store, "note", full)
    with pytest.raises(StateError):
        world.adopt(3)
    assert world.user.puts == []


def test_an_answer_counts_also_while_it_cant_be_noted(
    world: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    world.settle(4)
    world.set(2)
    world.answer()

    def full(*_args: object) -> None:
        raise StateError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "note", full)
        assert brief(world.job()) == (2, 2, None)
        world.again()
        assert brief(world.job()) == (2, 2, None)
    world.job()
    world.place().joinpath("ack.json").unlink()
    world.again()
    assert brief(world.job()) == (2, 2, None)


def test_with_a_real_journal_it_survives_as_well(tmp_path: Path) -> None:
    world = Following(tmp_path)
    key = world.start()
    journal = Journal(tmp_path / "journal.sqlite")
    for registration in world.store.registrations():
        journal.register(registration)
    world.store = world.inner._store = journal
    world.again()
    world.adopt(3)
    journal.close()
    world.store = world.inner._store = Journal(tmp_path / "journal.sqlite")
    world.again()
    assert brief(world.job()) == (3, 3, WAITS.format(1, 3))
    assert json.loads(world.store.notes(key)["follow"])["seq"] == 1
    world.store.close()
