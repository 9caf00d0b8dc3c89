"""JSON lines: one object a line, as most home-made loggers, detectron2 and mmengine write."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from slaqd.observe.formats.base import LONGEST_NAME, BadLine, Row

DEEPEST = 8
"""Levels of nested objects that are looked into."""

_decode = msgspec.json.Decoder().decode


class JsonLines:
    """Reads JSON lines; names of nested values are joined with dots."""

    name = "jsonl"

    def row(self, line: str) -> Row | None:
        """See `Format.row`."""
        text = line.strip()
        if not text or text.startswith("#"):
            return None
        if not text.startswith("{"):
            why = "is not a JSON object"
            raise BadLine(why)
        return _flat(_load(text))


def claim(previous: str | None, line: str, key: str | None, *, forced: bool) -> JsonLines | None:
    """Recognise JSON lines by a line that is one object; see `Claim`."""
    del previous, key
    reader = JsonLines()
    try:
        return reader if reader.row(line) is not None or forced else None
    except BadLine:
        return reader if forced else None


def _load(text: str) -> dict[str, Any]:
    """Parse one object, with bare NaN and Infinity, which strict parsers refuse."""
    try:
        return _decode(text)  # type: ignore[no-any-return] # it starts with a brace: nothing else parses
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(text)  # type: ignore[no-any-return] # as above
    except (ValueError, RecursionError) as error:
        why = "is not valid JSON"
        raise BadLine(why) from error


def _flat(values: dict[str, Any]) -> dict[str, object]:
    """Join the names of nested values with dots; most rows have none and are returned as they are."""
    for value in values.values():
        if value.__class__ is dict:
            flat: dict[str, object] = {}
            _join(values, "", DEEPEST, flat)
            return flat
    return values


def _join(values: dict[str, Any], prefix: str, depth: int, into: dict[str, object]) -> None:
    """Put the leaves of ``values`` into ``into``.

    Long prefixes are left out: a line's worth of leaves below a line's worth of prefix would fill the memory.
    """
    for name, value in values.items():
        if value.__class__ is not dict:
            into[prefix + name] = value
        elif depth > 1 and len(prefix) + len(name) < LONGEST_NAME:
            _join(value, f"{prefix}{name}.", depth - 1, into)
