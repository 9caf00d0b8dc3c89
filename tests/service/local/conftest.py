"""Real slaqds on this machine, ended with all their jobs when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from living import Make, Slaqd


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Slaqd] = []

    def one(**said: Any) -> Slaqd:
        made.append(Slaqd(tmp_path, **said))
        return made[-1]

    yield one
    for each in made:
        each.clean()
