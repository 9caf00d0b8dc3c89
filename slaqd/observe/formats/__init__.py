"""The formats of logs that are understood, one module each."""

from __future__ import annotations

from collections.abc import Mapping

from slaqd.observe.formats import jsonl, table
from slaqd.observe.formats.base import LONGEST_NAME, BadLine, Claim, Format, Row
from slaqd.observe.formats.number import number

FORMATS: Mapping[str, Claim] = {"jsonl": jsonl.claim, "csv": table.claim}
"""Recognisers by the name that ``format=`` takes, the surest sign first."""

ALIASES: Mapping[str, str] = {"json": "jsonl", "ndjson": "jsonl", "tsv": "csv"}


def recognise(previous: str | None, line: str, *, key: str | None, name: str | None) -> Format | None:
    """Find the format that two successive lines speak of.

    ``name`` is the tag's ``format=``; without one, each format is asked in turn.
    """
    if name is not None:
        return FORMATS[ALIASES.get(name, name)](previous, line, key, forced=True)
    for claim in FORMATS.values():
        found = claim(previous, line, key, forced=False)
        if found is not None:
            return found
    return None


def is_known(name: str) -> bool:
    """Tell whether ``format=NAME`` names a format."""
    return ALIASES.get(name, name) in FORMATS


__all__ = [
    "ALIASES",
    "FORMATS",
    "LONGEST_NAME",
    "BadLine",
    "Claim",
    "Format",
    "Row",
    "is_known",
    "number",
    "recognise",
]
