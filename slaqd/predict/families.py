"""SLAQ's two families of loss curves, as pure functions.

Zhang, Stafman, Or, Freedman: SLAQ, SoCC 2017, section 3.2. Both are written here
relative to the newest point: ``x`` counts steps after it in units of the window's
span, and a curve is ``asymptote + amplitude * (1 - lost(x))``, where ``lost(0) = 0``
and ``lost`` rises towards 1. A forecast needs ``lost`` alone, and needs it exact
for small x, which the difference of two values of f would not be.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from slaqd.predict.series import Floats, Ints

FAR = 1e9
"""Spans ahead after which a curve is taken to be at its asymptote."""


class Family(IntEnum):
    """Which form describes a curve; FLAT means that it is not falling."""

    NONE = 0
    FLAT = 1
    SUBLINEAR = 2
    EXPONENTIAL = 3


def sublinear(k: Floats, a: float, b: float, c: float, d: float) -> Floats:
    """Give f(k) = 1 / (a k^2 + b k + c) + d: first-order methods, O(1/k)."""
    return 1.0 / (a * k**2 + b * k + c) + d


def exponential(k: Floats, mu: float, b: float, c: float) -> Floats:
    """Give f(k) = mu^(k - b) + c, 0 < mu < 1: L-BFGS and its kin, O(mu^k)."""
    shown: Floats = np.exp(np.log(mu) * (k - b)) + c
    return shown


def sublinear_lost(x: Floats, beta: Floats, gamma: Floats) -> Floats:
    """Give the share of the amplitude lost after x, for 1 / (1 + beta x + gamma x^2)."""
    ahead = np.clip(x, 0.0, FAR)
    grown = ahead * (beta + gamma * ahead)
    return grown / (1.0 + grown)


def exponential_lost(x: Floats, rate: Floats) -> Floats:
    """Give the share of the amplitude lost after x, for exp(-rate x)."""
    return -np.expm1(-rate * np.clip(x, 0.0, FAR))


def lost(x: Floats, family: Ints, first: Floats, second: Floats) -> Floats:
    """Give the share of the amplitude lost after x, each element in its own family."""
    shown = np.where(family == Family.SUBLINEAR, sublinear_lost(x, first, second), exponential_lost(x, first))
    return np.where(family >= Family.SUBLINEAR, shown, 0.0)
