"""Which sources of a look travel: names are UTF-8, and no user's crowd out another's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slaqd.agent.protocol import MOST, Source

MOST_SAID = MOST // 4
"""Bytes of all sources of one look. A usual source has about 275, so 15,000 of them fit."""

UNSAID = "the log's name is not UTF-8: give it another one"
CROWDED = (
    "the names of your jobs' logs are too long for all of them to be read:"
    " register fewer jobs, or such with shorter paths and tags"
)


def unsaid(sources: Sequence[Source], most: int = MOST_SAID) -> Mapping[str, str]:
    """Say by job why a source can't travel with this look; those that aren't named can.

    Users share ``most`` bytes evenly; what one doesn't need goes to the others. Of a user's
    own sources the first ones fit.
    """
    sizes = [_size(source) for source in sources]
    wants: dict[int, int] = {}
    for source, size in zip(sources, sizes, strict=True):
        wants[source.uid] = wants.get(source.uid, 0) + (size or 0)
    level = _level(wants.values(), most)
    left = dict.fromkeys(wants, level)
    refused = {}
    for source, size in zip(sources, sizes, strict=True):
        if size is None:
            refused[source.job] = UNSAID
        elif size > left[source.uid]:
            refused[source.job] = CROWDED
        else:
            left[source.uid] -= size
    return refused


def _size(source: Source) -> int | None:
    """Count a source's bytes; None where it has no bytes, for names of files need not be UTF-8."""
    try:
        return len(msgspec.msgpack.encode(source))
    except UnicodeEncodeError:
        return None


def _level(wants: Iterable[int], most: int) -> int:
    """Give the most that one may have, so that all together have no more than ``most``."""
    rising = sorted(wants)
    for at, want in enumerate(rising):
        share = most // (len(rising) - at)
        if want > share:
            return share
        most -= want
    return rising[-1] if rising else 0
