"""The tag: what a user says of a job, in one line, wherever it stands.

    slaq:v1 log=runs/{jobid}/metrics.csv key=val_loss better=lower min=1 max=8 lever=array

The same words stand in a manager's comment, in the variable ``SLAQ_TAG`` and behind
``#SLAQ`` in a script; ``{"slaq": {"log": …}}`` inside a longer JSON comment says the
same. Values are quoted as in a shell. Everything here is pure.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from glob import escape
from typing import Any

import msgspec

from slaqd.errors import TagError
from slaqd.types import Better, JobKey, Lever, Tag

VERSION = "v1"
MOST_UNITS = 1_000_000
LONGEST = 1024
"""Characters of the longest value; Slurm's whole comment is no longer."""
LONGEST_PATH = 4096
"""Characters of the longest path that a tag may stand for; Linux takes no longer one."""
LEAST_WEIGHT, MOST_WEIGHT = 0.1, 10.0
"""A weight is its user's own word: it may prefer a job, and not push all others aside."""
MOST_BRACES = 256
"""Places in a text at which a JSON object is looked for."""

_MARK = re.compile(r"(?<![^\s;,])slaq:(v[0-9]+)(?![^\s;,])")
_WORD = re.compile(r"""[ \t]*([^\s='"]+)=((?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*)(?=(.?))""", re.DOTALL)
_SPACED = re.compile(r"[ \t]*([a-z]+)[ \t]+=")
_JSON = re.compile(r'"slaq"\s*:')
_SCRIPT_LINE = re.compile(r"^#SLAQ[ \t]+(.*)$", re.MULTILINE)
_SIGNAL = re.compile(r"(?:SIG)?[A-Z]+[0-9]*(?:[+-][0-9]{1,2})?|[0-9]{1,2}")
_TEMPLATE = re.compile(r"\{([A-Za-z_]+)\}|%([0-9]?)([jAaxu%])")
_SHOWN = 200
_PERCENT = {"j": "jobid", "A": "arrayid", "a": "taskid", "u": "user", "x": "name"}


def parse(text: str) -> Tag | None:
    """Find the tag in a text; None if there is none.

    A tag ends with its line, or with the first word that is not ``key=value``. Where
    a text has several, later ones win: what a hook appends comes last.

    Raises
    ------
    TagError
        There is one, but a key is not known, a value is no good, a quote stays open.
    """
    found = list(_marked(text)) or list(_in_json(text))
    return merge(*reversed(found)) if found else None


def parse_words(text: str) -> Tag:
    """Read a text that is a tag and nothing else; ``slaq:v1`` in front may be left out.

    Raises
    ------
    TagError
        As for `parse`; also for a word that is not ``key=value``.
    """
    mark = _MARK.match(text.lstrip())
    if mark is not None:
        text = text.lstrip()[mark.end() :]
        _check_version(mark[1])
    said, end = _words(text, 0)
    if text[end:].strip():
        message = f"tag: {text[end:].split()[0]!r} is not key=value"
        raise TagError(message)
    return from_mapping(said)


def parse_script(text: str) -> Tag | None:
    """Read the ``#SLAQ`` lines of a job script; None if it has none. Later lines win."""
    lines = [parse_words(line) for line in _SCRIPT_LINE.findall(text)]
    return merge(*reversed(lines)) if lines else None


def from_mapping(said: Mapping[str, object]) -> Tag:
    """Make a tag of keys and values, text or numbers, as JSON or a command line gives them.

    Raises
    ------
    TagError
        Naming the key that is not known or whose value is no good.
    """
    values: dict[str, Any] = {}
    for key, value in said.items():
        if key not in _KEYS:
            message = f"tag: unknown key {key!r}; known are {', '.join(_KEYS)}"
            raise TagError(message)
        try:
            values[key] = _KEYS[key](_text(value))
        except ValueError as error:
            message = f"tag: {key}={_cut(str(value))} {error}"
            raise TagError(message) from error
    return _bounded(Tag(**values))


def check(tag: Tag) -> None:
    """Judge a tag that was not read from words, such as one from the wire, by the rules of those that were.

    Raises
    ------
    TagError
        Naming the key whose value is no good.
    """
    from_mapping({key: value for key, value in msgspec.structs.asdict(tag).items() if value is not None})


def render(tag: Tag) -> str:
    """Write a tag in one line, in its normal form: `parse` reads the same tag from it."""
    words = [f"slaq:{VERSION}"]
    for key in _KEYS:
        value = getattr(tag, key)
        if value is not None:
            words.append(f"{key}={shlex.quote(_number(value) if isinstance(value, float) else str(value))}")
    return " ".join(words)


def merge(*tags: Tag) -> Tag:
    """Make one tag of several, the nearest to the submit first: what it says wins, key by key.

    Raises
    ------
    TagError
        Together they ask for a ``min`` above the ``max``.
    """
    values: dict[str, Any] = {}
    for tag in tags:
        for key, value in msgspec.structs.asdict(tag).items():
            if values.get(key) is None:
                values[key] = value
    return _bounded(Tag(**values))


def expand(log: str, *, key: JobKey, user: str, name: str, cwd: str, task: str | None = None) -> str:
    """Turn a tag's ``log`` into an absolute path or glob for one job.

    ``{jobid} {arrayid} {taskid} {user} {name}`` and ``%j %A %a %u %x`` (``%4a`` pads, ``%%``
    is a per cent sign) are filled in. An id such as ``12_3`` is task 3 of array 12;
    ``task`` says it where the id does not. What is filled in, and ``cwd``, never acts
    as a glob.

    Raises
    ------
    TagError
        A name in braces is not known, the job is no array, a name can't stand in a
        path, the path is relative and ``cwd`` is not known, or it gets too long.
    """
    array, _, number = key.id.partition("_")
    values = {"jobid": key.id, "arrayid": array, "taskid": task or number, "user": user, "name": name}

    filled = 0

    def fill(found: re.Match[str]) -> str:
        nonlocal filled
        if found[3] == "%":
            return "%"
        what = found[1] or _PERCENT[found[3]]
        text = escape(_component(log, what, values).zfill(int(found[2] or 0)))
        filled += len(text)
        _check_length(log, filled)  # now: a long name that stands in it often would fill the memory
        return text

    path = _TEMPLATE.sub(fill, log)
    if not path.startswith("/"):
        if not cwd.startswith("/"):
            message = f"tag: log={_cut(log)} is relative, and the job's working directory is not known"
            raise TagError(message)
        path = f"{escape(cwd.rstrip('/'))}/{path}"
    _check_length(log, len(path))
    return path


def _check_length(log: str, length: int) -> None:
    if length > LONGEST_PATH:
        message = f"tag: log={_cut(log)} stands for a path of more than {LONGEST_PATH} characters"
        raise TagError(message)


def _cut(text: str) -> str:
    """Shorten what a message quotes: older journals hold tags and names of any length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _component(log: str, what: str, values: Mapping[str, str]) -> str:
    """Look a name of the template up; what it stands for must be one part of a path."""
    if what not in values:
        message = f"tag: log={_cut(log)}: {{{_cut(what)}}} is not known; known are {', '.join(values)}"
        raise TagError(message)
    value = values[what]
    if not value and what == "taskid":
        message = f"tag: log={_cut(log)}: the job is no array task"
        raise TagError(message)
    if value in {"", ".", ".."} or "/" in value or not value.isprintable():
        message = f"tag: log={_cut(log)}: the job's {what} {_cut(value)!r} can't stand in a path"
        raise TagError(message)
    return value


def _marked(text: str) -> Iterator[Tag]:
    """Find each ``slaq:v1`` that is no part of an earlier one's values."""
    end = 0
    while (mark := _MARK.search(text, end)) is not None:
        _check_version(mark[1])
        said, end = _words(text, mark.end())
        yield from_mapping(said)


def _check_version(version: str) -> None:
    """Refuse a tag of another grammar."""
    if version != VERSION:
        message = f"tag: slaq:{version} is not known; this slaqd knows slaq:{VERSION}"
        raise TagError(message)


def _words(text: str, start: int) -> tuple[dict[str, str], int]:
    """Read ``key=value`` words from ``start`` on; also tell where they end."""
    said: dict[str, str] = {}
    while (word := _WORD.match(text, start)) is not None:
        key, raw, after = word[1], word[2], word[3]
        if after and not after.isspace():
            message = f"tag: the quote in {key}= is not closed"
            raise TagError(message)
        said[key] = "".join(shlex.split(raw))
        start = word.end()
    spaced = _SPACED.match(text, start)
    if spaced is not None and spaced[1] in _KEYS:
        message = f"tag: write {spaced[1]}=VALUE without spaces round the ="
        raise TagError(message)
    return said, start


def _in_json(text: str) -> Iterator[Tag]:
    """Find the key ``slaq`` in a JSON object inside a longer text."""
    if _JSON.search(text) is None:
        return
    decoder, start = json.JSONDecoder(), -1
    for _ in range(MOST_BRACES):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            value, _end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("slaq"), dict):
            yield from_mapping(value["slaq"])
            return
    message = 'tag: "slaq" must be the key of a JSON object, with an object of keys and values'
    raise TagError(message)


def _text(value: object) -> str:
    """Bring a value to text, as it would stand in a line."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        why = "must be text or a number"
        raise ValueError(why)  # noqa: TRY004 - one kind of error for all that from_mapping names
    return _number(value)


def _number(value: float) -> str:
    """Write a number without loss, whole ones without a point."""
    if isinstance(value, int):  # of any size: not all of them are floats too
        return str(value)
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def _bounded(tag: Tag) -> Tag:
    """Check what two keys say together."""
    if tag.min is not None and tag.max is not None and tag.min > tag.max:
        message = f"tag: min={tag.min} is above max={tag.max}"
        raise TagError(message)
    return tag


def _string(text: str) -> str:
    """Take any text of one line."""
    if not text or len(text) > LONGEST or not text.isprintable():
        why = f"must be 1 to {LONGEST} printable characters"
        raise ValueError(why)
    return text


def _units(text: str) -> int:
    """Take a number of units."""
    if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) or not 1 <= int(text) <= MOST_UNITS:
        why = f"must be a whole number from 1 to {MOST_UNITS}"
        raise ValueError(why)
    return int(text)


def _finite(text: str) -> float:
    """Take a finite number."""
    if not re.fullmatch(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?", text, re.ASCII):
        why = "must be a number"
        raise ValueError(why)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        why = "must be a finite number"
        raise ValueError(why)
    return value


def _positive(text: str) -> float:
    """Take a number above 0."""
    value = _finite(text)
    if value <= 0:
        why = "must be above 0"
        raise ValueError(why)
    return value


def _weight(text: str) -> float:
    """Take a weight."""
    value = _positive(text)
    if not LEAST_WEIGHT <= value <= MOST_WEIGHT:
        why = f"must be from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
        raise ValueError(why)
    return value


def _duration(text: str) -> float:
    """Take seconds, 0 or more."""
    value = _finite(text)
    if value < 0:
        why = "must not be below 0"
        raise ValueError(why)
    return value


def _signal(text: str) -> str:
    """Take a signal's name or number."""
    if not _SIGNAL.fullmatch(text):
        why = "must be a signal such as USR1, RTMIN+3 or 10"
        raise ValueError(why)
    return text


def _one_of(kind: type[Better | Lever]) -> Callable[[str], Better | Lever]:
    """Take one of a few words."""

    def take(text: str) -> Better | Lever:
        try:
            return kind(text)
        except ValueError:
            why = f"must be one of {', '.join(kind)}"
            raise ValueError(why) from None

    return take


_KEYS: Mapping[str, Callable[[str], object]] = {
    "log": _string,
    "key": _string,
    "format": _string,
    "better": _one_of(Better),
    "min": _units,
    "max": _units,
    "weight": _weight,
    "target": _finite,
    "lever": _one_of(Lever),
    "dir": _string,
    "worker": _string,
    "grace": _duration,
    "signal": _signal,
    "done": _string,
}
