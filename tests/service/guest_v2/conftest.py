"""The guest, booted once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from service.guest_v2.guest import Guest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def printed() -> dict[str, list[str]]:
    """Give what each script printed in the guest, by the script's name."""
    names = ["probe.py", "scenario.py", "several.py"]
    return dict(zip(names, Guest().run_all([HERE / name for name in names], timeout=900), strict=True))
