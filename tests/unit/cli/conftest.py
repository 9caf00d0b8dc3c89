"""A process group that certainly has its leader: the test run's own may have lost it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def leader() -> Iterator[str]:
    """Give the number of a living group; ``{leader}`` stands for it where words are listed."""
    with subprocess.Popen(["sleep", "3600"], process_group=0) as process:
        yield str(process.pid)
        process.kill()
