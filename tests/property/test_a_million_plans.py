"""Plans by the million: no bound is broken, no room is passed, at no moment of the change."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from bounds import CAPABILITIES, a_world, check_plan, check_steps

from slaqd.act import reconcile
from slaqd.allocate import POLICIES, make_plan

FEW, MANY = 10_000, 1_000_000


def plan_often(times: int, seed: int) -> Counter[str]:
    """Make and check so many plans; count what they were made of."""
    dice, seen = Random(seed), Counter[str]()  # noqa: S311 - worlds, no secret
    policies = sorted(POLICIES)
    for number in range(times):
        snapshot, table = a_world(dice)
        plan = make_plan(snapshot, table, CAPABILITIES, policies[number % len(policies)])
        actions = reconcile(plan, snapshot, CAPABILITIES, str(number))
        try:
            check_plan(snapshot, plan)
            check_steps(snapshot, plan, actions)
        except AssertionError as error:
            message = f"plan {number} of seed {seed}: {snapshot}: {plan}: {actions}"
            raise AssertionError(message) from error
        seen.update(type(action).__name__ for action in actions)
        seen["plans"] += 1
    return seen


def check_often(times: int) -> None:
    seen = plan_often(times, seed=2)
    assert seen.pop("plans") == times
    assert sorted(seen) == ["Admit", "Adopt", "Restore", "SetUnits"]
    assert min(seen.values()) > times / 10, "the worlds are too dull to show anything"


def test_ten_thousand_plans_keep_every_bound_and_the_room_at_every_step() -> None:
    check_often(FEW)


@pytest.mark.soak
def test_a_million_plans_keep_every_bound_and_the_room_at_every_step() -> None:
    check_often(MANY)
