"""Makes a resource manager of this machine: processes, held to their units by CPU quota.

The entry points are `LocalAdapter` and, for an agent, `hands.LocalHands`. What is
exported here is loaded on first use: the keeper processes belong to this package too,
and stay small only if importing it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slaqd_local.adapter import LocalAdapter
    from slaqd_local.config import Config

__all__ = ["Config", "LocalAdapter"]


def __getattr__(name: str) -> object:
    """Load what is exported when it is asked for."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from slaqd_local import adapter, config  # noqa: PLC0415 - late on purpose, see above

    return adapter.LocalAdapter if name == "LocalAdapter" else config.Config
