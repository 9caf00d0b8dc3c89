"""Seconds per step as a function of units: Amdahl's law, t(n) = serial + parallel / n.

Fitted by non-negative least squares of relative errors, in closed form, from sums
that forget: a job changes phase, a neighbour comes or goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slaqd.predict.series import Floats

FORGET = 0.97
"""Weight of a job's past when the next measurement comes."""

PRIOR = 0.02
"""How strongly the serial part is drawn to zero, against one observation.

With one size seen, or sizes too close to tell, this makes t = parallel / n (SLAQ's
assumption); with two sizes well apart it hardly matters.
"""

LONGEST = 1e9
"""Seconds per step outside 1/LONGEST..LONGEST are no measurement."""


class Pace:
    """What has been measured of one job's speed.

    ``sums`` holds, over observations weighted by w / t^2 with u = 1 / n: w/t^2,
    w u/t^2, w u^2/t^2, w/t, w u/t. Relative errors are what noise in a step's time
    looks like, hence the 1 / t^2.
    """

    __slots__ = ("sums",)

    def __init__(self) -> None:
        self.sums: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)

    @property
    def known(self) -> bool:
        """Tell whether anything was measured."""
        return self.sums[0] > 0.0

    def add(self, units: float, seconds_per_step: float, weight: float = 1.0) -> None:
        """Take in one measurement at a number of units; nonsense is ignored.

        Parameters
        ----------
        units
            What the job held meanwhile (a mean, where that changed).
        seconds_per_step
            Mean time of one step.
        weight
            How much it counts against others: the steps it is a mean of, say.

        """
        if not (units > 0.0 and weight > 0.0 and 1.0 / LONGEST <= seconds_per_step <= LONGEST):
            return
        weight = min(weight, LONGEST)
        speed, share = 1.0 / seconds_per_step, 1.0 / units
        new = (speed * speed, share * speed * speed, (share * speed) ** 2, speed, share * speed)
        a, b, c, d, e = (FORGET * old + weight * fresh for old, fresh in zip(self.sums, new, strict=True))
        self.sums = (a, b, c, d, e)


def thetas(paces: Sequence[Pace]) -> Floats:
    """Fit all jobs at once.

    Returns
    -------
    theta : (J, 2)
        Serial and parallel seconds of a step; both 0 where nothing is known.

    """
    s = np.array([pace.sums for pace in paces], dtype=float).reshape(len(paces), 5)
    s0, s1, s2, v0, v1 = s.T
    tiny = np.finfo(float).tiny
    ridged = s0 * (1.0 + PRIOR)
    det = np.maximum(ridged * s2 - s1**2, tiny)
    serial = (v0 * s2 - v1 * s1) / det
    parallel = (v1 * ridged - v0 * s1) / det
    alone = v1 / np.maximum(s2, tiny)
    steady = v0 / np.maximum(s0, tiny)
    theta0 = np.where(serial < 0.0, 0.0, np.where(parallel < 0.0, steady, serial))
    theta1 = np.where(serial < 0.0, alone, np.maximum(parallel, 0.0))
    return np.stack([theta0, theta1], axis=1) * (s0 > 0.0)[:, None]
