"""slaqd_local passes the contract by each means that works on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_world import LocalWorld, usable_means
from slaqd_local import LocalAdapter

from slaqd.adapter import load
from slaqd.testing import AdapterContract

pytestmark = pytest.mark.service


@pytest.mark.parametrize("means", usable_means())
class TestLocalAdapter(AdapterContract):
    @pytest.fixture
    def world(self, means: str) -> Iterator[LocalWorld]:
        world = LocalWorld(means)
        yield world
        world.close()


def test_the_entry_point_leads_to_it() -> None:
    assert load("local") is LocalAdapter
