"""One agent for each module, or for a test that would else pay for those before it; trees of three users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agent_world import AgentProcess, Trees, running


@pytest.fixture(scope="module")
def shared() -> Iterator[AgentProcess]:
    with running() as made:
        yield made


@pytest.fixture
def agent(shared: AgentProcess) -> AgentProcess:
    return shared


@pytest.fixture
def fresh() -> Iterator[AgentProcess]:
    """Start one for this test alone: who hung or was slow in the test before would have to rest in this."""
    with running() as made:
        yield made


@pytest.fixture
def trees(agent: AgentProcess) -> Trees:
    return agent.trees()
