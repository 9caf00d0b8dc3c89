"""Curves of either family are found again."""

from __future__ import annotations

import numpy as np
import pytest

from slaqd.predict.families import Family, exponential, sublinear
from slaqd.predict.fit import fit
from slaqd.predict.series import from_curves
from slaqd.types import Curve, Health

K = np.arange(1.0, 41.0)


def fitted(losses: np.ndarray, steps: np.ndarray = K) -> tuple[object, object]:
    series = from_curves([Curve(steps=steps.tolist(), losses=losses.tolist(), health=Health.OK)])
    return series, fit(series)


@pytest.mark.parametrize(
    ("a", "b", "c", "d"), [(0.0, 0.5, 1.0, 2.0), (0.01, 0.4, 0.5, 0.0), (0.0, 3.0, 0.2, 10.0)]
)
def test_a_sublinear_curve_is_found_again(a: float, b: float, c: float, d: float) -> None:
    series, fits = fitted(sublinear(K, a, b, c, d))
    assert fits.family[0] == Family.SUBLINEAR
    assert fits.error[0] < 2e-3
    asymptote = series.scale * (series.offset + series.height * fits.asymptote)
    drop = sublinear(K[:1], a, b, c, d) - d
    assert asymptote[0] == pytest.approx(d, abs=0.02 * drop[0])


@pytest.mark.parametrize(("mu", "c"), [(0.8, 1.0), (0.95, 0.0), (0.7, 3.0)])
def test_an_exponential_curve_is_found_again(mu: float, c: float) -> None:
    series, fits = fitted(exponential(K, mu, 0.0, c))
    assert fits.family[0] == Family.EXPONENTIAL
    assert float(np.exp(-fits.first[0] / series.span[0])) == pytest.approx(mu, abs=0.01)
    asymptote = series.scale * (series.offset + series.height * fits.asymptote)
    assert asymptote[0] == pytest.approx(c, abs=0.02)


def test_irregular_steps_are_fitted_as_well() -> None:
    steps = np.cumsum(np.tile([1.0, 10.0, 3.0, 7.0], 8))
    _, fits = fitted(exponential(steps, 0.98, 0.0, 1.0), steps)
    assert fits.family[0] == Family.EXPONENTIAL
    assert fits.error[0] < 1e-3


def test_noise_shows_as_error_without_drift_and_a_wrong_form_as_drift() -> None:
    rng = np.random.default_rng(0)
    _, noisy = fitted(2.0 / K + rng.normal(0.0, 0.05, len(K)))
    _, smooth = fitted(1.0 / K + 0.5 / K**0.3)
    assert noisy.error[0] > 10 * smooth.error[0]
    assert noisy.drift[0] < 0.5 < smooth.drift[0]


@pytest.mark.parametrize("losses", [np.full(40, 3.0), K, np.sin(K) + K])
def test_a_curve_that_does_not_fall_is_flat(losses: np.ndarray) -> None:
    _, fits = fitted(losses)
    assert fits.family[0] == Family.FLAT
    assert fits.amplitude[0] == 0.0


def test_a_loss_that_was_never_negative_has_no_negative_asymptote() -> None:
    series, fits = fitted(np.linspace(1.0, 0.1, 40))
    lowest = series.offset + series.height * fits.asymptote
    assert lowest[0] >= -1e-9


def test_a_loss_below_zero_may_go_further_down() -> None:
    series, fits = fitted(exponential(K, 0.95, 0.0, -5.0))
    assert (series.scale * (series.offset + series.height * fits.asymptote))[0] == pytest.approx(
        -5.0, abs=0.02
    )


def test_no_rows_give_no_fits() -> None:
    assert fit(from_curves([])).family.shape == (0,)
