"""A real slaqd, ended with all its jobs when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from living import Slaqd


@pytest.fixture
def slaqd(tmp_path: Path) -> Iterator[Slaqd]:
    made = Slaqd(tmp_path, epoch_s=0.3)
    yield made
    made.clean()
