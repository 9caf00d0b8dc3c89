"""Curve -> Forecast: what each number of units would bring each job.

    Curve ─▶ series ─▶ fit (families) ─┐
                                       ├─▶ Forecast
    Pace ──────────▶ speed ────────────┘

Pure: arrays in, arrays out. The method is SLAQ's (Zhang, Stafman, Or, Freedman,
SoCC 2017); the cost does not grow with a job's history.
"""

from __future__ import annotations

from slaqd.predict.forecast import Forecast, Forecaster, Normaliser, Prediction, forecast, predict_curve
from slaqd.predict.speed import Pace

__all__ = ["Forecast", "Forecaster", "Normaliser", "Pace", "Prediction", "forecast", "predict_curve"]
