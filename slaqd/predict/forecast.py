"""Curves and paces to one forecast: what each number of units would bring each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from slaqd.predict.families import FAR, Family, lost
from slaqd.predict.fit import Fits, fit
from slaqd.predict.series import Bools, Floats, Ints, Series, from_curves
from slaqd.predict.speed import Pace, thetas
from slaqd.types import Curve, Health

FEWEST = 3
"""Iterations that a job must have logged before anything is said of it."""

SPREAD = 2.0
"""What comes strays from the curve this much more than what was fitted.

With DOUBT measured on 782 trainings, ten points ahead: of the 80 % intervals 83 %
hold (mean of the sets; from 57 % where the learning rate is warmed down to 97 % on
convex jobs), of the 50 % intervals 59 %.
"""

DOUBT = 0.3
"""Standard error of a predicted fall, as a share of the fall."""

Normaliser = Literal["change", "range"]
"""What a fall is divided by: the largest change between successive losses seen so
far (SLAQ, section 3.1), or the first loss less the lowest."""


@dataclass(frozen=True)
class Forecast:
    """What is predicted of J jobs, as arrays over jobs.

    ``known[j]`` tells whether anything is; if not, ``reason[j]`` says why, in words
    for the user. ``theta`` (J, 2) are the serial and the parallel seconds of a step.
    ``level`` is the loss that the fit takes the job to be at now, ``unit`` what one
    height of the fit's window is in the user's own loss, and ``worth`` the same in
    normalised loss.
    """

    known: Bools
    reason: tuple[str, ...]
    epoch_s: float
    theta: Floats
    span: Floats
    fits: Fits
    level: Floats
    unit: Floats
    worth: Floats

    def iterations(self, jobs: ArrayLike, units: ArrayLike) -> Floats:
        """Predict how many steps a job makes in the coming epoch; a real number, 0 at no units."""
        rows, held = np.asarray(jobs), np.asarray(units, dtype=float)
        serial, parallel = self.theta[rows, 0], self.theta[rows, 1]
        busy = held * serial + parallel
        return np.where(busy > 0.0, self.epoch_s * held / np.where(busy > 0.0, busy, 1.0), 0.0)

    def fall(self, jobs: ArrayLike, units: ArrayLike) -> Floats:
        """Predict the fall of the normalised loss over the coming epoch.

        Parameters
        ----------
        jobs, units
            Row numbers and units, of shapes that broadcast together.

        Returns
        -------
        array
            Zero at no units and where nothing is known, never negative, never
            less for more units.

        """
        rows = np.asarray(jobs)
        part = self._lost(rows, self.iterations(rows, units))
        return np.where(self.known[rows], self.fits.amplitude[rows] * self.worth[rows] * part, 0.0)

    def interval(self, jobs: ArrayLike, units: ArrayLike, coverage: float = 0.8) -> tuple[Floats, Floats]:
        """Give the low and the high end of the fall, so that ``coverage`` of falls lie within."""
        rows = np.asarray(jobs)
        middle = self.fall(rows, units)
        wide = self._wide(rows, self.iterations(rows, units), coverage) * self.worth[rows]
        wide = np.where(self.known[rows], wide, 0.0)
        return np.maximum(middle - wide, 0.0), middle + wide

    def value_at(self, jobs: ArrayLike, steps_ahead: ArrayLike) -> Floats:
        """Predict the loss, in the user's own terms, so many steps after the newest logged one."""
        rows = np.asarray(jobs)
        part = self._lost(rows, np.asarray(steps_ahead, dtype=float))
        value: Floats = self.level[rows] - self.fits.amplitude[rows] * part * self.unit[rows]
        return value

    def value_interval(
        self, jobs: ArrayLike, steps_ahead: ArrayLike, coverage: float = 0.8
    ) -> tuple[Floats, Floats]:
        """Give the low and the high end of `value_at`."""
        rows = np.asarray(jobs)
        middle = self.value_at(rows, steps_ahead)
        wide = self._wide(rows, np.asarray(steps_ahead, dtype=float), coverage) * self.unit[rows]
        return middle - wide, middle + wide

    def _lost(self, rows: Ints, steps: Floats) -> Floats:
        x = _spans(steps, self.span[rows])
        return lost(x, self.fits.family[rows], self.fits.first[rows], self.fits.second[rows])

    def _wide(self, rows: Ints, steps: Floats, coverage: float) -> Floats:
        z = NormalDist().inv_cdf(0.5 + 0.5 * min(max(coverage, 0.0), 0.999999))
        moved = self.fits.amplitude[rows] * self._lost(rows, steps)
        far = np.sqrt(1.0 + np.minimum(_spans(steps, self.span[rows]), FAR))
        return z * np.hypot(SPREAD * self.fits.error[rows] * far, DOUBT * moved)


def forecast(
    curves: Sequence[Curve], paces: Sequence[Pace], epoch_s: float, normaliser: Normaliser = "change"
) -> Forecast:
    """Predict all jobs at once; row j of the answer speaks of ``curves[j]``.

    Parameters
    ----------
    curves, paces
        One of each for every job, in one order.
    epoch_s
        Length of the coming epoch in seconds.
    normaliser
        What falls are divided by.

    """
    return _cast(_shapes(curves, normaliser), curves, paces, epoch_s)


class Forecaster:
    """Forecasts cycle after cycle: `forecast`, with only those curves fitted that are new.

    A curve that is the same object as at the call before is the same curve.
    """

    def __init__(self, normaliser: Normaliser = "change") -> None:
        self._normaliser = normaliser
        self._curves: tuple[Curve, ...] = ()
        self._shapes = _shapes((), normaliser)

    def forecast(self, curves: Sequence[Curve], paces: Sequence[Pace], epoch_s: float) -> Forecast:
        """See `forecast`."""
        rows = {id(curve): row for row, curve in enumerate(self._curves)}
        new = [curve for curve in curves if id(curve) not in rows]
        shapes = self._shapes.and_those(_shapes(new, self._normaliser)) if new else self._shapes
        rows |= {id(curve): len(self._curves) + at for at, curve in enumerate(new)}
        self._shapes = shapes.of([rows[id(curve)] for curve in curves])
        self._curves = tuple(curves)
        return _cast(self._shapes, curves, paces, epoch_s)


@dataclass(frozen=True)
class _Shapes:
    """What curves alone tell, one row a job: see `Forecast`; ``sound`` as in `Series`."""

    sound: Bools
    span: Floats
    fits: Fits
    level: Floats
    unit: Floats
    worth: Floats

    def of(self, rows: list[int]) -> _Shapes:
        """Give these rows, in this order."""
        if rows == list(range(len(self.span))):
            return self
        at = np.array(rows, dtype=np.int64)
        fits = Fits(**{name: values[at] for name, values in vars(self.fits).items()})
        own = {name: values[at] for name, values in vars(self).items() if name != "fits"}
        return _Shapes(fits=fits, **own)

    def and_those(self, more: _Shapes) -> _Shapes:
        """Give these rows and then those."""
        both = {name: np.concatenate([old, vars(more.fits)[name]]) for name, old in vars(self.fits).items()}
        own = {
            name: np.concatenate([old, vars(more)[name]])
            for name, old in vars(self).items()
            if name != "fits"
        }
        return _Shapes(fits=Fits(**both), **own)


def _shapes(curves: Sequence[Curve], normaliser: Normaliser) -> _Shapes:
    """Fit curves."""
    series = from_curves(curves)
    fits = fit(series)
    height = np.where(series.flat, 0.0, series.height)
    # Smooth curves go on from where they are, noisy ones from where the fit is.
    shown = series.y[:, -1] - fits.residual * (1.0 - fits.drift)
    return _Shapes(
        sound=series.sound,
        span=series.span,
        fits=fits,
        level=series.scale * (series.offset + height * shown),
        unit=series.scale * height,
        worth=_worth(series, curves, normaliser),
    )


def _cast(shapes: _Shapes, curves: Sequence[Curve], paces: Sequence[Pace], epoch_s: float) -> Forecast:
    """Add to what the curves tell how fast the jobs go."""
    reason = tuple(
        _reason(curve, sound=sound, paced=pace.known)
        for curve, sound, pace in zip(curves, shapes.sound.tolist(), paces, strict=True)
    )
    return Forecast(
        known=np.array([not words for words in reason], dtype=bool),
        reason=reason,
        epoch_s=epoch_s,
        theta=thetas(paces),
        span=shapes.span,
        fits=shapes.fits,
        level=shapes.level,
        unit=shapes.unit,
        worth=shapes.worth,
    )


def _reason(curve: Curve, *, sound: bool, paced: bool) -> str:
    """Say why nothing can be predicted, or nothing."""
    points = min(len(curve.steps), len(curve.losses))
    if curve.health is not Health.OK:
        return (
            f"its log is {curve.health.value}"
            if curve.health is not Health.DIVERGED
            else "its loss has diverged"
        )
    if points < FEWEST:
        return f"only {points} iteration{'' if points == 1 else 's'} logged"
    if not sound:
        return "its log holds points that no curve fits: not finite, or out of order"
    return "" if paced else "no step has been timed yet"


def _worth(series: Series, curves: Sequence[Curve], normaliser: Normaliser) -> Floats:
    """Give the normalised loss of one height of the window."""
    if normaliser == "change":
        whole = np.array([curve.largest_change for curve in curves], dtype=float)
        seen = np.abs(np.diff(series.y, axis=1)).max(axis=1)
    else:
        # Halved: the difference of two floats may be none.
        whole = np.array([(0.5 * curve.first - 0.5 * curve.lowest) for curve in curves], dtype=float) * 2.0
        seen = np.ones(len(curves))
    height = np.where(series.flat, 1.0, series.height)
    whole = np.where(np.isfinite(whole), whole, 0.0) / series.scale / height
    return np.where(series.flat, 0.0, 1.0 / np.maximum(np.maximum(whole, seen), 1e-12))


def _spans(steps: Floats, span: Floats) -> Floats:
    with np.errstate(over="ignore"):
        ahead: Floats = steps / np.where(span > 0.0, span, np.inf)
    return ahead


@dataclass(frozen=True)
class Prediction:
    """What one curve alone foretells, for people.

    ``parameters`` are those of the family as SLAQ writes it, in the log's own steps
    and losses; ``low`` and ``high`` hold 80 % of what comes. ``reason`` says why
    nothing is known.
    """

    known: bool
    reason: str
    family: str
    parameters: dict[str, float]
    asymptote: float | None
    ahead: tuple[float, ...]
    losses: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def predict_curve(curve: Curve, ahead: Sequence[float], coverage: float = 0.8) -> Prediction:
    """Predict the loss so many steps after the newest logged one."""
    timed = Pace()
    timed.add(1, 1.0)
    cast = forecast([curve], [timed], 1.0)
    if not cast.known[0]:
        return Prediction(
            known=False,
            reason=cast.reason[0],
            family="none",
            parameters={},
            asymptote=None,
            ahead=(),
            losses=(),
            low=(),
            high=(),
        )
    rows = np.zeros(len(ahead), dtype=np.int64)
    low, high = cast.value_interval(rows, ahead, coverage)
    family = Family(int(cast.fits.family[0]))
    parameters, asymptote = _parameters(cast, family, float(curve.steps[-1]))
    return Prediction(
        known=True,
        reason="",
        family=family.name.lower(),
        parameters=parameters,
        asymptote=asymptote,
        ahead=tuple(float(steps) for steps in ahead),
        losses=tuple(cast.value_at(rows, ahead).tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
    )


def _parameters(cast: Forecast, family: Family, last: float) -> tuple[dict[str, float], float]:
    """Write the fit in SLAQ's own letters, and give its asymptote in the user's loss."""
    top = float(cast.fits.amplitude[0] * cast.unit[0])
    floor = float(cast.level[0]) - top
    span = float(cast.span[0])
    first, second = float(cast.fits.first[0]) / span, float(cast.fits.second[0]) / span / span
    if family is Family.SUBLINEAR:
        a, b, c = (
            second / top,
            (first - 2.0 * second * last) / top,
            (1.0 - first * last + second * last * last) / top,
        )
        return {"a": a, "b": b, "c": c, "d": floor}, floor
    if family is Family.EXPONENTIAL:
        return {"mu": float(np.exp(-first)), "b": last + float(np.log(top)) / first, "c": floor}, floor
    return {"level": floor}, floor
