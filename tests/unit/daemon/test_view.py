"""What the socket shows of a job."""

from __future__ import annotations

import msgspec
import pytest
from modelled import job, key, plan, registration, snapshot

from slaqd.act.journal import EndedRow
from slaqd.daemon.view import View, ended_view, live_views, registered_view
from slaqd.types import Allocation, Curve, Health, State, Tag
from slaqd.wire import JobView

CURVE = Curve(steps=(1.0, 2.0), losses=(3.0, 2.5), seconds=(0.0, 1.0), count=2, health=Health.OK, path="/l")


def seen(
    *, acting: bool = True, state: State = State.RUNNING, curve: Curve = CURVE, gap: str | None = None
) -> JobView:
    look = snapshot(job(1, held=0 if state is State.WAITING else 3, state=state, gap=gap))
    views = live_views(look, [curve], plan({1: 5}), frozenset({key(1)}), acting=acting)
    return views[key(1)]


def test_a_running_job_shows_what_it_holds_and_what_is_planned() -> None:
    view = seen()
    assert (view.units, view.plan, view.loss, view.step, view.points) == (3, 5, 2.5, 2.0, 2)
    assert (view.state, view.health, view.reason, view.paused) == ("running", "ok", "because", True)


def test_a_job_without_points_shows_no_loss() -> None:
    view = seen(curve=Curve(health=Health.MISSING, note="not there yet"))
    assert (view.loss, view.step, view.points, view.note) == (None, None, 0, "not there yet")


@pytest.mark.parametrize(("acting", "state", "waits"), [
    (True, State.WAITING, True), (False, State.WAITING, False), (True, State.RUNNING, False),
])  # fmt: skip
def test_a_command_waits_only_while_slaqd_acts(*, acting: bool, state: State, waits: bool) -> None:
    assert seen(acting=acting, state=state).wait is waits


def test_a_gap_of_the_row_comes_before_the_plans_reason() -> None:
    assert seen(gap="not whole").reason == "not whole"


def test_a_job_that_the_plan_doesnt_name_is_shown_all_the_same() -> None:
    views = live_views(snapshot(job(1, held=3)), [CURVE], None, frozenset(), acting=True)
    assert views[key(1)].plan is None


def test_an_ended_job_shows_how_it_ended_and_its_last_loss() -> None:
    last = msgspec.json.encode(seen()).decode()
    view = ended_view(EndedRow(registration(1, submitted=100.0), 160.0, 143, last))
    assert (view.state, view.units, view.plan, view.wait) == ("ended", None, None, False)
    assert (view.loss, view.exit_status, view.ended) == (2.5, 143, 160.0)
    assert view.reason == "ended with exit status 143 after 60 s, 2 points logged"


@pytest.mark.parametrize("last", [None, "{}", '{"job": "1"', '{"job": 1}'])
def test_an_ended_job_that_was_never_looked_at_or_by_another_version_is_shown_too(last: str | None) -> None:
    view = ended_view(EndedRow(registration(1, submitted=100.0), 90.0, None, last))
    assert view.reason == "ended after 0 s, no loss was logged"
    assert (view.job, view.name, view.user) == ("1", "job-1", "ada")


@pytest.mark.parametrize(
    ("tag", "bounds"), [(Tag(), (1, 1)), (Tag(min=4), (4, 4)), (Tag(min=2, max=8), (2, 8))]
)
def test_a_job_that_was_only_registered_shows_bounds_that_hold_it(tag: Tag, bounds: tuple[int, int]) -> None:
    registered = msgspec.structs.replace(registration(1), tag=tag)
    for view in (registered_view(registered), ended_view(EndedRow(registered, 90.0, None, None))):
        assert (view.min, view.max) == bounds


def test_before_the_first_cycle_the_view_says_so() -> None:
    assert View().sentence == "no cycle yet"
    assert View().plan is None


def test_numbers_that_json_doesnt_know_become_null() -> None:
    allocation = Allocation(key(1), 3, "r", float("nan"))
    made = msgspec.structs.replace(plan({1: 3}), allocations=(allocation,))
    view = live_views(snapshot(job(1, held=3)), [CURVE], made, frozenset(), acting=True)[key(1)]
    assert msgspec.json.decode(msgspec.json.encode(view), type=JobView).fall is None
