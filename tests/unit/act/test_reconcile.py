"""Plan against snapshot: which actions, in which order."""

from __future__ import annotations

import msgspec
import pytest
from modelled import ATOMIC, SLOW, job, key, plan, snapshot

from slaqd.act import reconcile
from slaqd.adapter import Capabilities, LeverSpec
from slaqd.types import Admit, Adopt, Job, Lever, Restore, SetUnits, State, Tag


def told(*args: object) -> list[tuple[str, str, int]]:
    return [(type(a).__name__, a.key.id, a.units) for a in reconcile(*args, "c")]  # type: ignore[arg-type, union-attr]


def test_what_is_as_planned_gets_no_action() -> None:
    assert told(plan({1: 3, 2: 4}), snapshot(job(1, held=3), job(2, held=4)), ATOMIC) == []


def test_shrinks_come_first_then_unheld_jobs_then_growths_then_new_jobs() -> None:
    jobs = (job(1, state=State.WAITING), job(2, held=1), job(3), job(4, held=8))
    actions = told(plan({1: 1, 2: 5, 3: 2, 4: 2}), snapshot(*jobs), ATOMIC)
    assert actions == [("SetUnits", "4", 2), ("Adopt", "3", 2), ("SetUnits", "2", 5), ("Admit", "1", 1)]


def test_targets_are_absolute_and_carry_the_reason() -> None:
    (action,) = reconcile(plan({1: 5}), snapshot(job(1, held=2)), ATOMIC, "9.4")
    assert action == SetUnits(id="9.4-1", key=key(1), incarnation="one", units=5, why="because")


def test_actions_of_one_cycle_have_names_of_their_own() -> None:
    actions = reconcile(plan(dict.fromkeys(range(5), 2)), snapshot(*(job(n) for n in range(5))), ATOMIC, "7")
    assert len({action.id for action in actions}) == 5


def test_a_job_that_waits_stays_waiting_at_no_units() -> None:
    assert told(plan({1: 0}), snapshot(job(1, state=State.WAITING)), ATOMIC) == []


def test_a_running_job_is_never_set_to_nothing() -> None:
    assert told(plan({1: 0}), snapshot(job(1, held=2)), ATOMIC) == []


def test_a_job_that_is_held_to_nothing_is_adopted_even_at_the_same_units() -> None:
    free = msgspec.structs.replace(job(1, held=3), target=None)
    (action,) = reconcile(plan({1: 3}), snapshot(free), ATOMIC, "c")
    assert isinstance(action, Adopt)


def test_a_job_admitted_is_admitted_to_its_units() -> None:
    (action,) = reconcile(plan({1: 3}), snapshot(job(1, state=State.WAITING)), ATOMIC, "c")
    assert isinstance(action, Admit)
    assert action.units == 3


@pytest.mark.parametrize(
    ("made", "seen"),
    [
        (plan({1: 5}, taken_at=4.0), snapshot(job(1, held=2))),
        (plan({1: 5}, incarnation="two"), snapshot(job(1, held=2))),
        (plan({1: 5}), snapshot(job(1, held=2), gaps=("half an answer",))),
    ],
    ids=["another snapshot", "another life of the manager", "gaps"],
)
def test_nothing_is_done_on_a_plan_of_another_view(made: object, seen: object) -> None:
    assert told(made, seen, ATOMIC) == []


def test_a_row_with_a_gap_stays_as_it_is_and_the_others_go_on() -> None:
    jobs = (job(1, held=2, gap="not whole"), job(2, held=2))
    assert told(plan({1: 5, 2: 3}), snapshot(*jobs), ATOMIC) == [("SetUnits", "2", 3)]


def test_jobs_that_ended_or_are_unknown_get_no_action() -> None:
    ended = job(1, held=2, state=State.ENDED)
    assert told(plan({1: 5, 9: 5}), snapshot(ended), ATOMIC) == []


@pytest.mark.parametrize("lever", [Lever.NONE, Lever.ARRAY])
def test_a_job_without_a_lever_to_be_had_here_is_never_touched_not_even_to_be_held_as_it_is(
    lever: Lever,
) -> None:
    free = msgspec.structs.replace(job(1, held=3, lever=lever), target=None)
    assert told(plan({1: 3}), snapshot(free), ATOMIC) == []


def test_a_job_in_a_pool_that_isnt_shown_is_never_touched() -> None:
    free = msgspec.structs.replace(job(1, held=3, pool="hidden"), target=None)
    assert told(plan({1: 3}), snapshot(free), ATOMIC) == []


def test_without_an_atomic_swap_a_growth_waits_for_the_shrink_to_be_seen() -> None:
    made, before = plan({1: 2, 2: 8}), snapshot(job(1, held=8), job(2, held=2))
    assert told(made, before, SLOW) == [("SetUnits", "1", 2)]
    under_way = snapshot(job(1, held=8, target=2), job(2, held=2))
    assert told(made, under_way, SLOW) == []
    seen = snapshot(job(1, held=2), job(2, held=2))
    assert told(made, seen, SLOW) == [("SetUnits", "2", 8)]


def test_a_growth_under_way_counts_as_held() -> None:
    growing = snapshot(job(1, held=2, target=8), job(2, held=2))
    assert told(plan({1: 8, 2: 3}), growing, SLOW) == []


def test_an_admission_needs_room_for_the_overhead_too() -> None:
    waiting = job(1, state=State.WAITING, overhead={"cpu_milli": 200})
    assert told(plan({1: 3}), snapshot(waiting, units=4), SLOW) == []
    assert told(plan({1: 3}), snapshot(waiting, units=5), SLOW) == [("Admit", "1", 3)]


def test_an_atomic_growth_doesnt_take_room_that_a_slow_shrink_has_still_to_free() -> None:
    both = Capabilities(
        levers={Lever.CPUS: LeverSpec(), Lever.POOL: LeverSpec(swap_atomic=False)},
        min_epoch_s=1.0,
        actions_per_s=1.0,
    )
    made = plan({1: 2, 2: 8})
    before = snapshot(job(1, held=8, lever=Lever.POOL), job(2, held=2))
    assert told(made, before, both) == [("SetUnits", "1", 2)]
    under_way = snapshot(job(1, held=8, target=2, lever=Lever.POOL), job(2, held=2))
    assert told(made, under_way, both) == []
    seen = snapshot(job(1, held=2, lever=Lever.POOL), job(2, held=2))
    assert told(made, seen, both) == [("SetUnits", "2", 8)]


def test_one_pool_doesnt_pay_for_another() -> None:
    jobs = (job(1, held=8), job(2, held=2, pool="other"))
    seen = msgspec.structs.replace(
        snapshot(*jobs), pools={"pool": {"cpu_milli": 800}, "other": {"cpu_milli": 200}}
    )
    assert told(plan({1: 2, 2: 8}), seen, SLOW) == [("SetUnits", "1", 2)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Lever.NONE, "its lever is none now: what held it before is given back"),
        (Lever.FILE, "its lever is file now: what held it before is given back"),
        (None, "its lever is none now: what held it before is given back"),
    ],
)
def test_a_job_that_outlived_the_lever_that_holds_it_is_given_back_and_told_why(
    said: Lever | None, why: str
) -> None:
    held = msgspec.structs.replace(job(1, held=4, lever=Lever.NONE), tag=Tag(lever=said))
    (action,) = reconcile(plan({1: 4}), snapshot(held), ATOMIC, "9.4")
    assert action == Restore(id="9.4-1", key=key(1), incarnation="one", why=why)


def test_what_is_given_back_comes_first_under_a_name_of_its_own() -> None:
    jobs = (job(1, held=4), job(2, held=3, lever=Lever.NONE))
    actions = reconcile(plan({1: 5, 2: 3}), snapshot(*jobs), ATOMIC, "c")
    assert [(type(each).__name__, each.key.id, each.id) for each in actions] == [
        ("Restore", "2", "c-1"),
        ("SetUnits", "1", "c-2"),
    ]


@pytest.mark.parametrize(
    "left",
    [
        job(1, held=4, lever=Lever.NONE, gap="paused by request"),
        job(1, held=4, lever=Lever.NONE, state=State.WAITING),
        job(1, held=4, lever=Lever.NONE, state=State.ENDED),
    ],
    ids=["paused", "waiting", "ended"],
)
def test_who_outlived_a_lever_stays_as_it_is_while_it_may_not_be_touched(left: Job) -> None:
    assert reconcile(plan({1: 4}), snapshot(left), ATOMIC, "c") == ()
