"""Many starts at once on one state: exactly one lives."""

from __future__ import annotations

import subprocess

import pytest
from living import SLAQD, Slaqd, wait_for

pytestmark = [pytest.mark.fault, pytest.mark.service]

AT_ONCE = 20


def rush(slaqd: Slaqd) -> None:
    """Start twenty at once; all but one end with 75, and that one answers and ends well."""
    words = [*SLAQD, "--config", str(slaqd.config)]
    with slaqd.log.open("ab") as log:
        started = [subprocess.Popen(words, stderr=log, env=slaqd.env) for _ in range(AT_ONCE)]
    try:
        wait_for(lambda: sum(each.poll() is None for each in started) == 1, slaqd.said)
        (lives,) = [each for each in started if each.poll() is None]
        assert sorted({each.returncode for each in started if each is not lives}) == [75]
        slaqd.process = lives
        wait_for(slaqd._answers, slaqd.said)
        assert slaqd.status().pid == lives.pid
        assert slaqd.stop() == 0
    finally:
        for each in started:
            if each.poll() is None:
                each.kill()
            each.wait()


def test_of_twenty_starts_one_lives_and_nineteen_end_with_75(slaqd: Slaqd) -> None:
    for _ in range(2):
        rush(slaqd)
    assert slaqd.said().count("held by another slaqd") == 2 * (AT_ONCE - 1)


@pytest.mark.soak
def test_of_twenty_starts_one_lives_a_hundred_times(slaqd: Slaqd) -> None:
    for _ in range(100):
        rush(slaqd)
    assert slaqd.said().count("held by another slaqd") == 100 * (AT_ONCE - 1)
