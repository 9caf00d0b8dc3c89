"""How much of the machine is slaqd's to give, and what jobs want of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slaqd_local import capacity, demand
from slaqd_local.capacity import Others, parse_busy
from slaqd_local.demand import Demand
from slaqd_local.means import Seen
from slaqd_local.processes import TICKS_PER_S

STAT = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 20 30 999 50 1 2 3 77 0\ncpu1 10 0 0 999 0 0 0 0 0 0\nintr 5\n"


def test_idle_waiting_and_guest_time_is_not_busy_and_stolen_time_is() -> None:
    assert parse_busy(STAT, {0}) == (100 + 20 + 30 + 1 + 2 + 3) / TICKS_PER_S
    assert parse_busy(STAT, {0, 1}) == (156 + 10) / TICKS_PER_S


def test_without_history_others_use_nothing() -> None:
    others = Others()
    assert others.look(0.0, 500.0, 0.0) == 0.0
    assert others.look(0.5, 501.0, 0.0) == 0.0


def test_what_others_use_is_what_jobs_do_not() -> None:
    others = Others()
    others.look(0.0, 100.0, 50.0)
    assert others.look(2.0, 103.0, 52.0) == pytest.approx(0.5)


def test_a_burst_is_spread_over_ten_seconds_and_forgotten_after() -> None:
    others = Others()
    others.look(0.0, 0.0, 0.0)
    seen = [others.look(float(at), 4.0, 0.0) for at in range(1, 25)]
    assert seen[9] == pytest.approx(0.4)
    assert seen[-1] == 0.0


def test_others_never_use_less_than_nothing() -> None:
    others = Others()
    others.look(0.0, 0.0, 0.0)
    assert others.look(5.0, 1.0, 2.0) == 0.0


def test_the_reserve_is_kept_and_the_rest_is_cut_into_whole_units() -> None:
    assert capacity.units(2, [], 0.0, 0.2, 0.1) == 18
    assert capacity.units(2, [], 0.0, 0.2, 0.02) == 90
    assert capacity.units(2, [], 0.35, 0.2, 0.1) == 14
    assert capacity.units(4, [1.0], 0.5, 0.2, 0.1) == 8
    assert capacity.units(2, [], 1.9, 0.2, 0.1) == 0


@given(
    st.integers(1, 256),
    st.lists(st.floats(0.1, 300), max_size=2),
    st.floats(0, 300),
    st.integers(0, 1000),
    st.integers(10, 4000),
)
def test_units_never_exceed_what_is_there(
    cores: int, limits: list[float], others: float, reserve: int, milli: int
) -> None:
    count = capacity.units(cores, limits, others, reserve / 1000, milli / 1000)
    assert count >= 0
    assert count == 0 or count * milli / 1000 <= min([cores - others, *limits]) - reserve / 1000 + 1e-6


def looks(*uses: float, milli: int = 500, throttled: int = 0, crowded: bool = False) -> float | None:
    job, used, answer = Demand(), 0.0, None
    for second, use in enumerate([0.0, *uses]):
        used += use
        seen = Seen(milli, periods=10 * second, throttled=throttled * second)
        answer = job.look(float(second), used, seen, crowded=crowded)
    return answer


def test_a_job_that_uses_its_share_wants_no_less() -> None:
    assert looks(0.5, 0.5, 0.5) is None


def test_a_job_that_leaves_much_unused_twice_says_what_it_uses() -> None:
    assert looks(0.1) is None
    assert looks(0.1, 0.2) == pytest.approx(0.2)


def test_a_job_that_is_cut_short_wants_no_less() -> None:
    assert looks(0.1, 0.1, throttled=5) is None


def test_little_use_on_a_crowded_machine_says_nothing_but_none_does() -> None:
    assert looks(0.2, 0.2, crowded=True) is None
    assert looks(0.01, 0.01, crowded=True) == pytest.approx(0.01)


def test_a_job_that_runs_free_is_not_judged() -> None:
    job = Demand()
    assert all(job.look(float(at), 0.0, Seen(None)) is None for at in range(5))


def test_wants_leave_room_to_grow_and_stay_in_bounds() -> None:
    assert demand.units(0.0, 100, 1, 8) == 1
    assert demand.units(0.25, 100, 1, 8) == 4
    assert demand.units(0.25, 100, 6, 8) == 6
    assert demand.units(5.0, 100, 1, 8) == 8
