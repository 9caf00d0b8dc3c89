"""The points that are kept, and what is said of all of them."""

from __future__ import annotations

import math

from slaqd.observe import MAX_POINTS, History
from slaqd.observe.curve import Counter
from slaqd.types import Curve, Health


def of(*points: tuple[float, float]) -> History:
    history = History()
    for step, loss in points:
        history.add(step, loss, math.nan)
    return history


def curve(history: History) -> Curve:
    return history.curve(Health.OK, "log", "")


def test_a_step_that_falls_drops_the_points_from_there_on() -> None:
    found = curve(of((1, 5), (2, 4), (3, 3), (4, 9), (2, 3.5), (3, 2.5)))
    assert list(found.steps) == [1, 2, 3]
    assert list(found.losses) == [5, 3.5, 2.5]
    assert (found.count, found.lowest, found.largest_change) == (3, 2.5, 1.5)


def test_of_equal_steps_the_last_one_counts() -> None:
    found = curve(of((1, 5), (2, 9), (2, 4)))
    assert list(found.losses) == [5, 4]
    assert found.count == 2


def test_a_start_from_scratch_forgets_the_attempt_before() -> None:
    """A first attempt that went astray must not set the scale of the second."""
    found = curve(of((0, 1), (1, 1e25), (0, 1), (1, 0.5)))
    assert (found.first, found.largest_change) == (1, 0.5)


def test_a_curve_given_out_does_not_change() -> None:
    history = of((1, 5))
    found = curve(history)
    history.add(2, 4, 0)
    history.roll_back(0)
    assert list(found.steps) == [1]


def test_an_empty_history_is_an_empty_curve() -> None:
    assert curve(History()) == Curve(health=Health.OK, path="log")


def test_thinning_keeps_the_ends_and_what_is_said_of_the_whole() -> None:
    history = History()
    total = 3 * MAX_POINTS
    for step in range(total):
        history.add(step, 1000.0 if step == 1 else -7.0 if step == 3 else 1 / (step + 1), step)
    found = curve(history)
    assert len(found.steps) <= MAX_POINTS
    assert (found.steps[0], found.steps[-1]) == (0, total - 1)
    assert (found.count, found.first, found.lowest) == (total, 1.0, -7.0)
    assert found.largest_change > 999
    recent = MAX_POINTS // 2
    assert list(found.steps[-recent:]) == [float(step) for step in range(total - recent, total)]


def test_a_history_that_keeps_few_keeps_its_newest_half_whole() -> None:
    history = History(most=100)
    for step in range(1000):
        history.add(step, 1 / (step + 1), step)
        assert len(history) <= 100
    found = curve(history)
    assert list(found.steps[-50:]) == [float(step) for step in range(950, 1000)]
    assert (found.steps[0], found.count, found.first, found.lowest) == (0, 1000, 1.0, 1 / 1000)


def test_curves_given_out_share_their_points_until_there_are_new_ones() -> None:
    history = of((1, 5), (2, 4))
    first, second = curve(history), curve(history)
    assert first.steps is second.steps
    history.add(3, 3, 0)
    history.forget_seconds()
    history.clear()
    assert (list(first.steps), list(first.losses)) == ([1, 2], [5, 4])
    assert math.isnan(first.seconds[0])


def test_a_roll_back_into_the_thinned_part_keeps_count_within_the_thinning() -> None:
    history = History()
    for step in range(2 * MAX_POINTS):
        history.add(step, 1.0, step)
    history.add(1001, 1.0, 0)
    assert abs(curve(history).count - 1002) <= 8


def test_a_count_that_starts_again_in_each_epoch_goes_on() -> None:
    counter = Counter()
    raw = [(50, 1), (100, 1), (50, 2), (100, 2), (50, 3)]
    assert [counter.step(step, epoch) for step, epoch in raw] == [50, 100, 150, 200, 250]


def test_a_count_from_zero_in_each_epoch_goes_on_too() -> None:
    counter = Counter()
    assert [counter.step(s, e) for s, e in [(0, 0), (1, 0), (0, 1), (1, 1)]] == [0, 1, 2, 3]


def test_a_restart_in_an_earlier_epoch_falls_back_to_that_epochs_steps() -> None:
    counter = Counter()
    for raw, epoch in [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]:
        counter.step(raw, epoch)
    assert counter.step(1, 2) == 3
    assert counter.step(2, None) == 4
    assert counter.step(1, 1) == 1


def test_of_many_epochs_the_last_ones_are_remembered() -> None:
    counter = Counter(most=3)
    for epoch in range(1, 9):
        for raw in (1, 2):
            counter.step(raw, epoch)
    assert counter.step(2, 6) == 12
    assert counter.step(2, 1) == 2


def test_a_count_that_never_starts_again_is_left_alone() -> None:
    counter = Counter()
    assert [counter.step(s, e) for s, e in [(10, 0.1), (20, 0.2), (5, 0.05)]] == [10, 20, 5]
