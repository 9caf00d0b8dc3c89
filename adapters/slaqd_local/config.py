"""The section ``[adapter.local]`` of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from slaqd.types import Struct

MANAGER = "local"
"""The manager's name in job keys."""

POOL = "local"
"""The one pool: this machine."""


class Config(Struct, frozen=True):
    """How this machine is shared out.

    ``unit_milli`` is the size of a unit in thousandths of a core, ``reserve_milli``
    what is left to the machine, ``cores`` the most that all jobs may hold together
    (None: all). ``means`` says how jobs are held: by cgroup v2 or v1, by keeper
    processes, or by the best that works here. ``cgroup`` names slaqd's own group.
    """

    unit_milli: Annotated[int, msgspec.Meta(ge=10, le=100_000)] = 100
    reserve_milli: Annotated[int, msgspec.Meta(ge=0)] = 200
    cores: Annotated[float, msgspec.Meta(gt=0)] | None = None
    means: Literal["auto", "cgroup2", "cgroup1", "keeper"] = "auto"
    cgroup: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}\Z")] = "slaqd"
