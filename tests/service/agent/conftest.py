"""One agent for each module, and for each test the trees of three users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agent_world import AgentProcess, Trees


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentProcess]:
    made = AgentProcess()
    try:
        yield made.start()
    finally:
        made.clean()


@pytest.fixture
def trees(agent: AgentProcess) -> Trees:
    return agent.trees()
