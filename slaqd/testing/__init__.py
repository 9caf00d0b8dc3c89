"""What tests of adapters and of the core need: a clock, a store and a manager of memory, and the contract.

To test an adapter of your own, give its tests a `World` and inherit the checks::

    class TestMyAdapter(AdapterContract):
        @pytest.fixture
        def world(self):
            ...

Nothing here imports pytest: the checks are plain asserts.
"""

from __future__ import annotations

from slaqd.agent.oneself import Oneself
from slaqd.testing.contract import PATIENCE_S, AdapterContract, World
from slaqd.testing.fakes import FakeAdapter, FakeConfig, FakeManager, ManualClock, MemoryStore

__all__ = [
    "PATIENCE_S",
    "AdapterContract",
    "FakeAdapter",
    "FakeConfig",
    "FakeManager",
    "ManualClock",
    "MemoryStore",
    "Oneself",
    "World",
]
