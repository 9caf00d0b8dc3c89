"""Loops with their verbs over a manager of memory, closed when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from put_together import Daemon, Make


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Daemon] = []

    def one(**said: Any) -> Daemon:
        made.append(Daemon(tmp_path, **said))
        return made[-1]

    yield one
    for daemon in made:
        daemon.journal.close()
