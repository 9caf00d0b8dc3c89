"""A daemon that runs for long is no larger than one that has run for a while."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from faults.ageing import LIMITS

AGEING = Path(__file__).with_name("ageing.py")
MOST_BYTES = 12 * 1024 * 1024
"""Of a journal with these limits, its log included."""


def aged(folder: Path, cycles: int) -> tuple[dict[str, int], dict[str, int]]:
    """Give the sizes after a tenth of so many cycles, and after all."""
    words = [sys.executable, str(AGEING), str(folder), str(cycles)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    warm, old = json.loads(done.stdout)
    return warm, old


def steady(warm: dict[str, int], old: dict[str, int], cycles: int) -> None:
    assert old["cycles"] >= cycles
    assert old["faults"] == 0
    assert old["descriptors"] == warm["descriptors"]
    assert old["acted"] > LIMITS.actions, "too few acts to need pruning"
    assert old["actions"] <= LIMITS.actions
    assert old["journal_bytes"] <= MOST_BYTES
    assert old["objects"] <= warm["objects"] * 1.05
    assert old["resident_kib"] <= warm["resident_kib"] * 1.05


@pytest.mark.fault
def test_two_thousand_cycles_leave_no_descriptor_and_no_object_behind(tmp_path: Path) -> None:
    steady(*aged(tmp_path, 2000), 2000)


@pytest.mark.fault
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_cycles_leave_no_descriptor_and_no_memory_behind(tmp_path: Path) -> None:
    steady(*aged(tmp_path, 100_000), 100_000)
