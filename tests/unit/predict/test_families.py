"""The two forms and the share of their amplitude that is lost."""

from __future__ import annotations

import numpy as np
import pytest

from slaqd.predict.families import Family, exponential, lost, sublinear

X = np.array([0.0, 0.1, 1.0, 50.0])


def test_the_share_lost_agrees_with_slaqs_sublinear_form() -> None:
    value = sublinear(X, 0.5, 2.0, 1.0, 0.0)
    beta, gamma = np.full(4, 2.0), np.full(4, 0.5)
    shown = lost(X, np.full(4, Family.SUBLINEAR), beta, gamma)
    np.testing.assert_allclose(1.0 - shown, value / value[0])


def test_the_share_lost_agrees_with_slaqs_exponential_form() -> None:
    value = exponential(X, 0.5, 3.0, 0.0)
    shown = lost(X, np.full(4, Family.EXPONENTIAL), np.full(4, np.log(2.0)), np.zeros(4))
    np.testing.assert_allclose(1.0 - shown, value / value[0], rtol=1e-12)


@pytest.mark.parametrize("family", [Family.NONE, Family.FLAT])
def test_what_is_not_falling_loses_nothing(family: Family) -> None:
    assert not lost(X, np.full(4, family), np.ones(4), np.ones(4)).any()


@pytest.mark.parametrize("family", [Family.SUBLINEAR, Family.EXPONENTIAL])
def test_tiny_steps_ahead_lose_tiny_shares_exactly(family: Family) -> None:
    x = np.array([1e-14])
    shown = lost(x, np.array([family]), np.array([2.0]), np.array([0.0]))
    np.testing.assert_allclose(shown, 2e-14, rtol=1e-9)


@pytest.mark.parametrize("family", [Family.SUBLINEAR, Family.EXPONENTIAL])
def test_infinitely_far_ahead_all_is_lost(family: Family) -> None:
    shown = lost(np.array([np.inf]), np.array([family]), np.array([2.0]), np.array([0.1]))
    np.testing.assert_allclose(shown, 1.0, rtol=1e-6)
