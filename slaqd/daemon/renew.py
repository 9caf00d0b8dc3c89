"""A new configuration for a daemon that runs: what may change, and what needs a restart."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from slaqd.adapter import load
from slaqd.config import Config, adapter_config, place
from slaqd.errors import ConfigError

_CHANGE = frozenset({("slaqd", "mode"), ("slaqd", "epoch_s"), ("slaqd", "admin_group")})
_CHANGE_WHOLE = frozenset({"policy", "enforce"})


def renewed(old: Config, new: Config) -> Config:
    """Give ``new`` back, if it can take the place of ``old`` while the daemon runs.

    Whatever isn't known to be changeable needs a restart: a section that a later
    version adds can't be taken over by halves.

    Raises
    ------
    ConfigError
        It changes what can't change at run time. The text names the file, the line
        and the key.

    """
    for keys in _differences(old, new):
        msg = f"{place(new, *keys)}: can't change while slaqd runs; restart it for that"
        raise ConfigError(msg)
    return new


def _differences(old: Config, new: Config) -> Iterator[tuple[str, ...]]:
    """Name the keys that differ and can't change."""
    for section in Config.__struct_fields__:
        before, after = getattr(old, section), getattr(new, section)
        if isinstance(before, msgspec.Struct) and section not in _CHANGE_WHOLE:
            for key in before.__struct_fields__:
                if (section, key) not in _CHANGE and getattr(before, key) != getattr(after, key):
                    yield section, key
    name = new.slaqd.adapter
    kind = load(name).Config
    before, after = adapter_config(old, name, kind), adapter_config(new, name, kind)
    for key in kind.__struct_fields__:
        if getattr(before, key) != getattr(after, key):
            yield "adapter", name, key
