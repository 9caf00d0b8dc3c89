"""Forecast, Snapshot -> Plan: who holds how many units, and why.

    Snapshot ─▶ ask ─┐
                     ├─▶ policies (greedy | fair) ─▶ guard ─▶ Plan
    Forecast ────────┘

Pure: no clock, no files, no randomness.
"""

from __future__ import annotations

from slaqd.allocate.plan import make_plan
from slaqd.allocate.policies import POLICIES, Policy

__all__ = ["POLICIES", "Policy", "make_plan"]
