"""A workload is the same for the same seed, and balanced."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from slaqd.demo.trainings import TRAININGS
from slaqd.demo.workload import COST, LARGEST, SMALLEST, make_workload, speed_ratio


def test_the_same_seed_gives_the_same_workload_and_another_gives_another() -> None:
    assert make_workload(24, 7) == make_workload(24, 7)
    assert make_workload(24, 7) != make_workload(24, 8)


def test_every_kind_has_a_measured_cost_and_every_cost_a_kind() -> None:
    assert list(COST) == list(TRAININGS)


def test_kinds_are_dealt_in_turn_and_names_are_unique() -> None:
    specs = make_workload(24, 1).specs
    counts = Counter(spec.kind for spec in specs)
    assert set(counts) == set(TRAININGS)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len({spec.name for spec in specs}) == len(specs)
    assert len({spec.seed for spec in specs}) == len(specs)


@pytest.mark.parametrize("seed", range(5))
def test_arrivals_rise_from_zero_and_sizes_stay_in_their_bounds(seed: int) -> None:
    specs = make_workload(24, seed).specs
    assert specs[0].arrives == 0.0
    assert all(0 <= before.arrives < after.arrives < 1 for before, after in pairwise(specs))
    assert all(SMALLEST <= spec.size <= LARGEST for spec in specs)


def test_a_larger_training_is_expected_to_take_longer() -> None:
    specs = sorted(make_workload(60, 2).specs, key=lambda spec: (spec.kind, spec.size))
    for before, after in pairwise(specs):
        if before.kind == after.kind and before.size < after.size:
            assert before.estimate < after.estimate


def test_the_estimate_of_a_workload_is_the_sum_of_its_trainings() -> None:
    workload = make_workload(5, 3)
    assert workload.estimate == pytest.approx(sum(spec.estimate for spec in workload.specs))


def test_the_speed_of_this_machine_is_a_positive_number() -> None:
    assert speed_ratio() > 0
