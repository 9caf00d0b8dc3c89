"""Adding up the CPU time of processes that come and go."""

from __future__ import annotations

import pytest
from slaqd_local.meter import Meter, Reading

PARENT, CHILD = (10, 100), (11, 105)


def test_the_first_look_is_the_zero() -> None:
    meter = Meter()
    assert meter.look({PARENT: Reading(5.0, 2.0)}) == 0.0
    assert meter.look({PARENT: Reading(5.5, 2.0)}) == 0.5
    assert meter.seconds == 0.5


def test_a_child_that_is_waited_for_counts_once() -> None:
    meter = Meter()
    meter.look({PARENT: Reading(1.0, 0.0)})
    assert meter.look({PARENT: Reading(1.0, 0.0), CHILD: Reading(2.0, 0.0)}) == 2.0
    assert meter.look({PARENT: Reading(1.0, 2.5)}) == pytest.approx(0.5)


def test_a_child_that_came_and_went_between_two_looks_counts() -> None:
    meter = Meter()
    meter.look({PARENT: Reading(1.0, 0.0)})
    assert meter.look({PARENT: Reading(1.0, 0.75)}) == 0.75


def test_a_child_that_nobody_waits_for_takes_nothing_away() -> None:
    meter = Meter()
    meter.look({PARENT: Reading(1.0, 0.0), CHILD: Reading(2.0, 0.0)})
    assert meter.look({PARENT: Reading(1.25, 0.0)}) == 0.25


def test_a_reused_number_is_a_new_process() -> None:
    meter = Meter()
    meter.look({PARENT: Reading(9.0, 0.0)})
    assert meter.look({(10, 900): Reading(0.5, 0.0)}) == 0.5
