"""What a hostile file is, and the words that it is refused with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent_world import Trees, source

from slaqd.agent.protocol import Source
from slaqd.types import Health

Make = Callable[[Trees], "Path | str"]

NO_LINKS = "symbolic links are not followed"
NOT_HERS = "not to the job's owner"
NO_FILE = "is not a regular file"
NAMES = "has several names"
OUT = "leads out of the job's directory"
DENIED = "permission denied"
NO_NAME = "not a possible file name"
NONE_YET = "no file matches yet"


class Case(NamedTuple):
    """A hostile file. ``words`` stand in the note; a log that can be read has ``points``."""

    name: str
    make: Make
    health: Health = Health.UNREADABLE
    words: str = ""
    points: int = 0


CASES: list[Case] = []


def case(
    name: str, words: str = "", health: Health = Health.UNREADABLE, points: int = 0
) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        CASES.append(Case(name, make, Health.OK if points and not words else health, words, points))
        return make

    return keep


def sources(trees: Trees, only: Callable[[Case], bool] = lambda _: True) -> dict[str, Source]:
    """Make the file of each case in a directory of its own."""
    found = {}
    for number, each in enumerate(filter(only, CASES)):
        inner = Trees(trees.top / f"{number:03}")
        found[each.name] = source(each.make(inner), root=inner.alice, job=each.name)
    return found


def holds(name: str, text: str | bytes, words: str = "", health: Health = Health.OK, points: int = 0) -> None:
    """Add a case that is an ordinary file with odd contents."""
    CASES.append(Case(name, lambda trees: trees.file(trees.alice / "log", text), health, words, points))
