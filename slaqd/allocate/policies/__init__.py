"""Ways to split a pool: one class each, one pure call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from slaqd.allocate.ask import Ask
from slaqd.allocate.gain import Falls
from slaqd.allocate.policies.fair import Fair
from slaqd.allocate.policies.slaq import Slaq
from slaqd.types import Resources


class Policy(Protocol):
    """A way to split a pool's room among its jobs."""

    @property
    def name(self) -> str:
        """The word in the configuration."""
        ...

    def split(self, asks: Sequence[Ask], forecast: Falls, room: Resources) -> list[int]:
        """Give each job its units.

        Parameters
        ----------
        asks
            The jobs that hold or get units, in order of the snapshot.
        forecast
            What is predicted; ``Ask.index`` is a job's row.
        room
            What the jobs may hold together, overheads already taken out; each
            job's minimum is within it.

        Returns
        -------
        list of int
            One size for each ask, from its minimum to its maximum, together
            within the room.

        """
        ...


POLICIES: Mapping[str, Policy] = MappingProxyType({"slaq": Slaq(), "fair": Fair()})

__all__ = ["POLICIES", "Fair", "Policy", "Slaq"]
