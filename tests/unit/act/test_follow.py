"""The lever ``file`` round an adapter: real files, a manager of memory, a clock by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from following import WAITS, Following, brief, why

from slaqd.adapter import LeverSpec
from slaqd.testing import ManualClock
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Adopt,
    JobKey,
    Lever,
    Outcome,
    Refused,
    SetUnits,
    State,
    Unknown,
)


@pytest.fixture
def world(tmp_path: Path) -> Following:
    return Following(tmp_path)


# telling and hearing


def test_a_job_is_told_and_counts_as_it_was_until_it_answers(world: Following) -> None:
    key = world.start()
    world.inner.seen[key] = 5
    assert brief(world.job()) == (5, None, None)
    assert world.adopt(3) == Accepted()
    assert world.target() == {
        "v": 1, "job": "1", "seq": 1, "units": 3, "min": 1, "max": 8,
        "issued": 1772424000.0, "deadline": 1772424120.0, "reason": "because",
    }  # fmt: skip
    assert brief(world.job()) == (5, 3, WAITS.format(1, 3))
    world.answer()
    assert brief(world.job()) == (3, 3, None)
    assert world.set(6) == Accepted()
    assert brief(world.job()) == (6, 6, WAITS.format(2, 6))
    world.answer()
    assert brief(world.job()) == (6, 6, None)


def test_the_adapter_hears_nothing_of_it(world: Following) -> None:
    world.start()
    world.settle(3)
    assert world.manager.acts == []
    assert all(path.endswith("/ctl-1/target.json") for path in world.user.puts)


def test_a_job_that_follows_nothing_is_the_adapters_alone(world: Following) -> None:
    key = world.start(lever=None, dir=None)
    assert world.adopt(3) == Accepted()
    assert world.manager.held == {key: 3}
    assert (world.job().lever, world.job().target) == (Lever.CPUS, 3)
    assert (world.user.puts, world.user.gets) == ([], [])


def test_in_one_batch_each_gets_its_own_and_the_outcomes_keep_their_order(world: Following) -> None:
    other, third = world.start(2, lever=None, dir=None), world.start(3, lever=None, dir=None)
    mine = world.start(1)
    world.manager.refuses[other] = "not now"
    outcomes = world.act(*[Adopt(key.id, key, "fake-1", 2) for key in (other, mine, third)])
    assert outcomes == [Refused("not now", retry=True), Accepted(), Accepted()]
    assert (world.seq(), world.manager.held) == (1, {third: 2})


def test_no_second_target_goes_out_before_the_answer(world: Following) -> None:
    world.start()
    world.settle(4)
    world.set(2)
    assert world.set(3) == Refused(WAITS.format(2, 2), retry=True)
    assert world.set(2) == Accepted()
    assert (world.seq(), world.target()["units"]) == (2, 2)
    world.answer()
    world.job()
    assert world.set(3) == Accepted()
    assert world.seq() == 3


def test_what_was_told_and_answered_is_not_told_again(world: Following) -> None:
    world.start()
    world.settle(4)
    assert [world.set(4) for _ in range(3)] == [Accepted()] * 3
    assert (world.seq(), len(world.user.puts)) == (1, 1)


def test_looking_writes_nothing_of_the_users(world: Following) -> None:
    world.start()
    for _ in range(3):
        world.job()
    assert world.user.puts == []
    assert list(world.place().iterdir()) == []


# deadlines


def test_after_the_deadline_the_job_is_told_anew_and_after_three_it_is_only_advised(world: Following) -> None:
    world.start()
    world.settle(4)
    for misses, units in enumerate((7, 2, 1), 1):
        assert world.set(units, kind=SetUnits if misses == 1 else Adopt) == Accepted()
        world.job()
        world.clock.sleep(120.0)
        assert world.job().gap == WAITS.format(misses + 1, units)
        world.clock.sleep(1.0)
        assert (world.job().held, world.job().gap is None) == (7, misses < 3)
    job = world.job()
    words = "it has answered none of its last 3 targets; it must read target.json"
    assert (job.held, job.target, job.gap) == (7, None, job.cannot_grow)
    assert (job.cannot_grow or "").startswith(words)
    assert (job.cannot_shrink or "").startswith(words)
    assert why(world.set(2)).startswith(words)
    assert world.seq() == 4


def test_a_job_that_answers_after_all_is_led_again(world: Following) -> None:
    world.start()
    world.settle(4)
    for units in (7, 2, 1):
        world.set(units, kind=Adopt)
        world.job()
        world.clock.sleep(121.0)
        world.job()
    world.answer()
    job = world.job()
    assert (*brief(job), job.cannot_grow) == (1, 1, None, None)
    assert world.set(5) == Accepted()


def test_misses_that_are_not_one_after_the_other_dont_add_up(world: Following) -> None:
    world.start()
    world.settle(4)
    for units in (7, 2, 1, 3, 5):
        world.set(units, kind=Adopt)
        world.job()
        world.clock.sleep(121.0)
        assert world.job().target is None
        world.answer()
        assert brief(world.job()) == (units, units, None)


def test_grace_in_the_tag_is_the_jobs_time_to_answer(world: Following) -> None:
    world.start(grace=600.0)
    world.adopt(2)
    world.job()
    assert world.target()["deadline"] - world.target()["issued"] == 600.0
    world.clock.sleep(599.0)
    assert world.job().gap == WAITS.format(1, 2)
    world.clock.sleep(2.0)
    assert world.job().gap is None


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_turned_wall_clock_neither_shortens_nor_lengthens_the_wait(tmp_path: Path, jump: float) -> None:
    clock = ManualClock()
    world = Following(tmp_path, clock=clock)
    world.start()
    world.adopt(2)
    world.job()
    clock.jump(jump)
    clock.advance(119.0)
    assert world.job().gap == WAITS.format(1, 2)
    clock.advance(2.0)
    assert world.job().gap is None
    world.adopt(3)
    assert world.seq() == 2
    world.answer()
    assert brief(world.job()) == (3, 3, None)


def test_an_answer_written_while_slaqd_hung_counts_before_the_deadline_does(world: Following) -> None:
    world.start()
    world.adopt(2)
    world.job()
    world.answer()
    world.clock.sleep(10_000.0)
    assert brief(world.job()) == (2, 2, None)


# admission


def test_a_job_finds_its_first_target_when_it_begins(world: Following) -> None:
    key = world.start(waits=True)
    assert (world.job().state, world.job().target) == (State.WAITING, None)
    found: list[bool] = []
    world.user.after_put = lambda _path: found.append(key in world.manager.admitted)
    assert world.act(Admit("a", key, "fake-1", 5, "share")) == [Accepted()]
    assert found == [False]
    assert key in world.manager.admitted
    assert (world.target()["units"], world.target()["reason"]) == (5, "share")
    assert brief(world.job()) == (5, 5, WAITS.format(1, 5))


def test_a_job_that_makes_its_directory_itself_is_let_in_and_its_units_are_counted(world: Following) -> None:
    key = world.start(waits=True, made=False)
    assert world.act(Admit("a", key, "fake-1", 5)) == [Accepted()]
    assert brief(world.job()) == (5, None, None)
    world.place().mkdir()
    assert world.adopt(4) == Accepted()
    assert brief(world.job()) == (5, 4, WAITS.format(2, 4))
    world.answer()
    assert brief(world.job()) == (4, 4, None)


def test_a_job_that_is_not_let_in_holds_nothing_and_may_be_told_otherwise(world: Following) -> None:
    key = world.start(waits=True)
    world.manager.refuses[key] = "not now"
    for units in (5, 5, 3):
        assert world.act(Admit("a", key, "fake-1", units)) == [Refused("not now", retry=True)]
    assert (world.job().held, world.job().target, world.job().gap) == (0, None, None)
    assert (world.seq(), world.target()["units"], len(world.user.puts)) == (2, 3, 2)
    del world.manager.refuses[key]
    world.act(Admit("a", key, "fake-1", 3))
    assert brief(world.job()) == (3, 3, WAITS.format(2, 3))


def test_without_the_agent_nobody_is_let_in_unled(world: Following) -> None:
    key = world.start(waits=True)
    world.user.silent = True
    assert world.act(Admit("a", key, "fake-1", 5)) == [Unknown("slaqd-agent does not answer")]
    assert world.manager.admitted == set()


# giving back


def test_a_job_that_said_what_it_began_with_gets_that_back(world: Following) -> None:
    world.start()
    world.answer(6)
    world.job()
    world.settle(2)
    assert world.restore() == Accepted()
    assert (world.target()["units"], world.target()["seq"]) == (6, 2)
    job = world.job()
    assert (job.target, world.manager.restored) == (None, {job.key})
    world.answer()
    assert world.job().gap is None
    assert world.restore() == Accepted()
    assert world.seq() == 2


def test_a_job_that_said_nothing_keeps_its_last_target_and_is_held_to_nothing(world: Following) -> None:
    world.start()
    world.settle(2)
    before = world.target()
    for _ in range(2):
        assert world.restore() == Accepted()
    assert world.target() == before
    assert brief(world.job()) == (0, None, None)
    assert why(world.set(3)) == "it was given back by request: adopt it first"


def test_a_job_given_back_can_be_taken_up_again_also_by_a_new_slaqd(world: Following) -> None:
    world.start()
    world.settle(2)
    world.restore()
    world.again()
    assert world.job().target is None
    assert world.adopt(3) == Accepted()
    assert [type(act).__name__ for act in world.manager.acts] == ["Restore"]
    world.answer()
    assert brief(world.job()) == (3, 3, None)
    assert world.set(4) == Accepted()


def test_a_job_that_holds_what_it_began_with_is_told_nothing_at_its_end(world: Following) -> None:
    key = world.start()
    world.answer(3)
    world.job()
    world.settle(3)
    assert world.restore() == Accepted()
    assert world.seq() == 1
    world.manager.ended.add(key)
    world.job()
    assert world.restore() == Refused("no such job: 1")


def test_what_a_job_began_with_cant_be_given_back_without_its_directory(world: Following) -> None:
    world.start()
    world.answer(6)
    world.job()
    world.settle(2)
    world.start(dir=None)
    world.job()
    assert why(world.restore()).startswith("lever=file needs the directory")


def test_giving_back_waits_for_the_answer_too(world: Following) -> None:
    world.start()
    world.answer(6)
    world.job()
    world.settle(2)
    world.set(3)
    outcome = world.restore()
    assert isinstance(outcome, Refused)
    assert (outcome.why, outcome.retry) == (WAITS.format(2, 3) + "; ask again then", True)
    assert world.manager.acts == []
    world.answer()
    world.job()
    assert world.restore() == Accepted()
    assert world.target()["units"] == 6


def test_a_stop_leaves_the_last_target_and_is_passed_on(world: Following) -> None:
    world.start()
    world.settle(2)
    world.adapter.close(restore=True)
    assert world.inner.closed is True
    assert len(world.user.puts) == 1
    world.again()
    assert brief(world.job()) == (2, 2, None)


# refusals


def test_what_cant_be_is_refused_and_nothing_is_written(world: Following) -> None:
    key = world.start()
    waiting = world.start(2, waits=True)
    world.job()
    nobody = JobKey("fake", "1", 8)
    late = world.clock.monotonic() - 1
    assert why(world.act(Adopt("a", key, "another", 2))[0]) == (
        "the manager has been started anew since this was planned"
    )
    assert why(world.adapter.apply([Adopt("a", key, "fake-1", 2)], late)[0]) == (
        "the deadline passed before its turn"
    )
    assert why(world.adopt(9)) == "9 units are outside its bounds, 1 to 8"
    assert why(world.set(2, 2)) == "it waits for its admission"
    assert why(world.act(Admit("a", waiting, "fake-1", 9))[0]) == "9 units are outside its bounds, 1 to 8"
    assert why(world.act(Adopt("a", nobody, "fake-1", 2))[0]) == "no such job: 1"
    world.manager.ended.add(key)
    world.job()
    assert why(world.adopt(2)) == "the job has ended"
    assert (world.user.puts, world.manager.acts) == ([], [])


def test_a_target_whose_turn_comes_too_late_is_not_told(world: Following) -> None:
    world.start(1)
    other = world.start(2, lever=None, dir=None)
    world.job()
    late = world.clock.monotonic() + 1
    apply = world.inner.apply

    def slow(actions: Sequence[Action], deadline: float) -> Sequence[Outcome]:
        world.clock.sleep(2.0)
        return apply(actions, deadline + 9)

    world.inner.apply = slow  # type: ignore[method-assign]
    mine = JobKey("fake", "1", 7)
    outcomes = world.adapter.apply([Adopt(key.id, key, "fake-1", 2) for key in (mine, other)], late)
    assert outcomes == [Refused("the deadline passed before its turn", retry=True), Accepted()]
    assert world.user.puts == []


def test_an_adapter_that_answers_too_little_leaves_the_rest_unknown(world: Following) -> None:
    keys = [world.start(number, lever=None, dir=None) for number in (1, 2)]
    world.inner.apply = lambda _actions, _deadline: [Accepted()]  # type: ignore[method-assign]
    outcomes = world.act(*[Adopt(key.id, key, "fake-1", 2) for key in keys])
    assert outcomes == [Accepted(), Unknown("the adapter gave no answer")]


def test_rows_that_are_missing_from_a_part_are_not_forgotten(world: Following) -> None:
    world.start()
    world.adopt(2)
    world.job()
    world.clock.sleep(119.0)
    world.manager.gaps = ("half of it",)
    assert world.snapshot().gaps == ("half of it",)
    world.manager.gaps = ()
    world.clock.sleep(2.0)
    assert world.job().gap is None


def test_the_lever_is_told_of_honestly(world: Following) -> None:
    levers = world.adapter.capabilities().levers
    assert set(levers) == {Lever.NONE, Lever.CPUS, Lever.FILE}
    spec = levers[Lever.FILE]
    assert not spec.swap_atomic
    assert not spec.loses_work
    assert spec.down_s == 120.0
    assert levers[Lever.CPUS] == LeverSpec()
