"""Weighted fits of both families to all jobs at once.

Each family is linear in its amplitude and asymptote once its shape is known. So the
exponential is fitted by a grid of rates, the sublinear by a grid of asymptotes, for
each of which 1 / (y - d) is a polynomial in x; weights (y - d)^4 undo what the
transform does to errors (delta 1/z = -delta z / z^2). For every candidate shape the
amplitude and asymptote are then solved for exactly in y, and the grid is refined
around the best. Shapes are kept to what falls over the whole window and after it,
stays finite, and never falls faster than before for x >= 0: that is beta >= 0 and
0 <= gamma <= beta / 2 and beta^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slaqd.predict.families import Family
from slaqd.predict.series import Bools, Floats, Ints, Series

CHUNK = 128
"""Jobs fitted together: as many as keep the work within a core's cache."""

RATES = np.geomspace(0.05, 50.0, 14)
"""Coarse grid of exponential rates, per span of the window."""

DEPTHS = np.geomspace(1e-3, 100.0, 8)
"""Coarse grid of asymptotes: depths beneath the lowest loss, per height of the window."""

REFINE = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) / 3.0
"""Refined grid around the best point, in steps of the grid before."""

RATE_ROUNDS = 4
"""Times that the grid of rates is refined, each to a third of the step before."""

DEPTH_ROUNDS = 2
"""The same of asymptotes, which need not be as exact: they are solved for again."""

DEEPEST = 200.0
"""How far beneath the window an asymptote may lie, per height of the window."""

POLE = 1e-4
"""A polynomial that comes this near to zero within the window has a pole there."""

LEAST = 1e-9
"""An amplitude below this, per height of the window, is rounding: the curve does not fall."""

ROUNDING = 1e-12
"""A form whose variance is below this, relative to its square, is constant."""

TINY = 1e-300


@dataclass(frozen=True)
class Fits:
    """The better of both fits of each of J jobs, in the normalised units of `Series`.

    ``error`` is the root of the weighted mean squared residual; ``residual`` is the
    newest point less the curve there; ``drift`` is the weighted correlation of
    residuals with the ones before, 0 to 1: near 1 the curve is smooth and the model
    is what errs, near 0 the points are noisy.
    """

    family: Ints
    amplitude: Floats
    asymptote: Floats
    first: Floats
    second: Floats
    error: Floats
    residual: Floats
    drift: Floats


@dataclass(frozen=True)
class _Candidate:
    """The best shape of one family so far, one element a job."""

    first: Floats
    second: Floats
    amplitude: Floats
    asymptote: Floats
    error: Floats


@dataclass(frozen=True)
class _Rows:
    """A chunk of jobs; ``powers`` (C, W, 5) are those of x, ``bound`` the lowest asymptote allowed."""

    x: Floats
    powers: Floats
    y: Floats
    weights: Floats
    bound: Floats


def fit(series: Series) -> Fits:
    """Fit both families to every row and keep the one with the smaller weighted residual."""
    bound = _bound(series)
    parts = [slice(start, start + CHUNK) for start in range(0, len(series.x), CHUNK)]
    chunks = [
        _fit_rows(_rows(series, bound, part), series.flat[part] | ~series.sound[part]) for part in parts
    ]
    if not chunks:
        return _no_fits()
    joined = {name: np.concatenate([vars(chunk)[name] for chunk in chunks]) for name in vars(chunks[0])}
    return Fits(**joined)


def _rows(series: Series, bound: Floats, part: slice) -> _Rows:
    x = series.x[part]
    powers = np.stack([np.ones_like(x), x, x * x, x * x * x, (x * x) ** 2], axis=2)
    return _Rows(x, powers, series.y[part], series.weights[part], bound[part])


def _no_fits() -> Fits:
    none = np.zeros(0)
    return Fits(np.zeros(0, dtype=np.int64), none, none, none, none, none, none, none)


def _bound(series: Series) -> Floats:
    """Give the lowest asymptote: a loss that was never negative stays so."""
    height = np.where(series.flat, 1.0, series.height)
    zero = -series.offset / height
    return np.where(series.offset >= 0.0, np.maximum(zero, -DEEPEST), -DEEPEST)


def _fit_rows(rows: _Rows, flat: Bools) -> Fits:
    exponential = _fit_exponential(rows)
    sublinear = _fit_sublinear(rows)
    first_wins = sublinear.error <= exponential.error
    best = _pick(first_wins, sublinear, exponential)
    family = np.where(first_wins, Family.SUBLINEAR, Family.EXPONENTIAL)
    still = flat | ~(best.amplitude > LEAST) | ~np.isfinite(best.error)
    family = np.where(still, Family.FLAT, family).astype(np.int64)
    mean = (rows.weights * rows.y).sum(axis=1)
    amplitude = np.where(still, 0.0, best.amplitude)
    asymptote = np.where(still, mean, best.asymptote)
    shown = asymptote[:, None] + amplitude[:, None] * _form(rows.x, family, best)
    off = np.where(rows.weights > 0.0, rows.y - shown, 0.0)
    error = np.sqrt((rows.weights * off**2).sum(axis=1))
    return Fits(
        family, amplitude, asymptote, best.first, best.second, error, off[:, -1], _drift(off, rows.weights)
    )


def _form(x: Floats, family: Ints, best: _Candidate) -> Floats:
    """Give the chosen form over the window, 1 at the newest point."""
    poly = 1.0 + x * (best.first[:, None] + best.second[:, None] * x)
    sub = 1.0 / np.where(family[:, None] == Family.SUBLINEAR, poly, 1.0)
    rate = np.where(family == Family.EXPONENTIAL, best.first, 0.0)
    return np.where(family[:, None] == Family.SUBLINEAR, sub, np.exp(-rate[:, None] * x))


def _drift(off: Floats, weights: Floats) -> Floats:
    """Give the correlation of successive residuals, within 0 and 1."""
    pair = np.minimum(weights[:, 1:], weights[:, :-1])
    both = (pair * off[:, 1:] * off[:, :-1]).sum(axis=1)
    power = 0.5 * (pair * (off[:, 1:] ** 2 + off[:, :-1] ** 2)).sum(axis=1)
    drift: Floats = np.clip(both / np.maximum(power, TINY), 0.0, 1.0)
    return drift


def _pick(use: Bools, one: _Candidate, other: _Candidate) -> _Candidate:
    return _Candidate(**{name: np.where(use, vars(one)[name], vars(other)[name]) for name in vars(one)})


def _fit_exponential(rows: _Rows) -> _Candidate:
    """Refine a grid of rates, the same for all jobs at first."""
    centre = np.log(RATES)[None, :].repeat(len(rows.x), axis=0)
    width = float(np.log(RATES[1] / RATES[0]))
    best = _best_rate(rows, np.exp(centre))
    for _ in range(RATE_ROUNDS):
        finer = np.log(best.first)[:, None] + width * REFINE
        width /= 3.0
        again = _best_rate(rows, np.exp(finer))
        best = _pick(again.error < best.error, again, best)
    return best


def _best_rate(rows: _Rows, rates: Floats) -> _Candidate:
    # Measured from the oldest point, so that no power is above 1.
    now = np.exp(-rates)
    grown = now[:, :, None] * np.expm1(-rates[:, :, None] * rows.x[:, None, :])
    amplitude, asymptote, error = _solve(rows, grown, now)
    return _best(error, rates, np.zeros_like(rates), amplitude * now, asymptote)


def _fit_sublinear(rows: _Rows) -> _Candidate:
    """Refine a grid of asymptotes beneath the lowest loss."""
    depth = np.minimum(DEPTHS[None, :], np.maximum(-rows.bound, DEPTHS[0])[:, None])
    width = float(np.log(DEPTHS[1] / DEPTHS[0]))
    best, at = _best_depth(rows, depth)
    for _ in range(DEPTH_ROUNDS):
        finer = np.minimum(
            np.exp(np.log(at)[:, None] + width * REFINE), np.maximum(-rows.bound, 1e-6)[:, None]
        )
        width /= 3.0
        again, near = _best_depth(rows, finer)
        better = again.error < best.error
        best, at = _pick(better, again, best), np.where(better, near, at)
    return best


def _best_depth(rows: _Rows, depth: Floats) -> tuple[_Candidate, Floats]:
    """Try each asymptote with and without the square term."""
    beta, gamma = _shapes(rows, depth)
    change = rows.x[:, None, :] * (beta[:, :, None] + gamma[:, :, None] * rows.x[:, None, :])
    poly = np.maximum(1.0 + change, POLE)
    amplitude, asymptote, error = _solve(rows, -change / poly, np.ones_like(beta))
    error = np.where(poly.min(axis=2) <= POLE, np.inf, error)
    best = _best(error, beta, gamma, amplitude, asymptote)
    twice = np.concatenate([depth, depth], axis=1)
    return best, np.take_along_axis(twice, error.argmin(axis=1)[:, None], axis=1)[:, 0]


def _shapes(rows: _Rows, depth: Floats) -> tuple[Floats, Floats]:
    """Solve the transformed least squares for each asymptote: line, then parabola.

    Returns
    -------
    beta, gamma : (J, 2 G)
        Zero where the solution is not allowed.

    """
    above = rows.y[:, None, :] + depth[:, :, None]
    cubed = rows.weights[:, None, :] * above**3
    m = np.matmul(cubed * above, rows.powers)
    v = np.matmul(cubed, rows.powers[:, :, :3])
    line = _line(m, v)
    beta, gamma = _parabola(m, v)
    return np.concatenate([line, beta], axis=1), np.concatenate([np.zeros_like(line), gamma], axis=1)


def _line(m: Floats, v: Floats) -> Floats:
    det = m[..., 0] * m[..., 2] - m[..., 1] ** 2
    level = (v[..., 0] * m[..., 2] - v[..., 1] * m[..., 1]) / np.maximum(det, TINY)
    slope = (v[..., 1] * m[..., 0] - v[..., 0] * m[..., 1]) / np.maximum(det, TINY)
    good = (level > TINY) & (slope > 0.0)
    return np.where(good, slope / np.where(good, level, 1.0), 0.0)


def _parabola(m: Floats, v: Floats) -> tuple[Floats, Floats]:
    m0, m1, m2, m3, m4 = (m[..., p] for p in range(5))
    v0, v1, v2 = (v[..., p] for p in range(3))
    c00, c01, c02 = m2 * m4 - m3**2, m2 * m3 - m1 * m4, m1 * m3 - m2**2
    c11, c12, c22 = m0 * m4 - m2**2, m1 * m2 - m0 * m3, m0 * m2 - m1**2
    det = m0 * c00 + m1 * c01 + m2 * c02
    level = c00 * v0 + c01 * v1 + c02 * v2
    slope = c01 * v0 + c11 * v1 + c12 * v2
    square = c02 * v0 + c12 * v1 + c22 * v2
    good = (det > TINY) & (level > TINY) & (slope > 0.0) & (square > 0.0)
    safe = np.where(good, level, 1.0)
    beta = np.where(good, slope / safe, 0.0)
    return beta, np.where(good, np.minimum(square / safe, np.minimum(beta**2, beta / 2.0)), 0.0)


def _solve(rows: _Rows, grown: Floats, now: Floats) -> tuple[Floats, Floats, Floats]:
    """Solve y = asymptote + amplitude * form by weighted least squares, within bounds.

    Parameters
    ----------
    grown : (J, G, W)
        The form less its value at the newest point: near zero where the weights are,
        so that little is lost in differences.
    now : (J, G)
        The form at the newest point.

    Returns
    -------
    amplitude, asymptote, error : (J, G)
        ``error`` is the weighted mean squared residual.

    """
    weighted = rows.weights[:, None, :] * grown
    s1 = weighted.sum(axis=2)
    s2 = (weighted * grown).sum(axis=2)
    sy = np.matmul(weighted, rows.y[:, :, None])[:, :, 0]
    mean = (rows.weights * rows.y).sum(axis=1)[:, None]
    power = (rows.weights * rows.y**2).sum(axis=1)[:, None]
    bound = rows.bound[:, None]
    spread = s2 - s1**2
    varies = spread > ROUNDING * s2
    amplitude = np.where(varies, np.maximum(sy - s1 * mean, 0.0) / np.where(varies, spread, 1.0), 0.0)
    asymptote = mean - amplitude * (s1 + now)
    low = asymptote < bound
    held = (sy + now * mean - bound * (s1 + now)) / np.maximum(s2 + 2.0 * now * s1 + now**2, TINY)
    amplitude = np.where(low, np.maximum(held, 0.0), amplitude)
    level = np.where(low, bound, asymptote) + amplitude * now
    error = power - 2.0 * level * mean + level**2 + amplitude**2 * s2 - 2.0 * amplitude * (sy - level * s1)
    return amplitude, np.where(low, bound, asymptote), np.maximum(error, 0.0)


def _best(error: Floats, first: Floats, second: Floats, amplitude: Floats, asymptote: Floats) -> _Candidate:
    at = error.argmin(axis=1)[:, None]
    picked = [
        np.take_along_axis(part, at, axis=1)[:, 0] for part in (first, second, amplitude, asymptote, error)
    ]
    return _Candidate(*picked)
