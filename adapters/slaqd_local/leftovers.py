"""Finds the groups that ended jobs left: nobody else knows of them once their registrations are closed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from slaqd.types import JobKey
from slaqd_local import groups, processes
from slaqd_local.config import MANAGER
from slaqd_local.means import Cgroups, job_directory

NOBODY = JobKey(MANAGER, "0", 0)
"""A job that can't be. Its place is beside all others'."""

_OURS = re.compile(r"job-([0-9]{1,20})-([0-9]{1,20})")
_CACHED = 65_536


def left_behind(means: Cgroups, is_known: Callable[[JobKey], bool]) -> list[JobKey]:
    """Name jobs that have groups here although they are neither known nor alive, and nothing is in them.

    One listing of each directory that jobs' groups stand in; only of what is unknown
    there more is read. OSError where the means can't be looked at.
    """
    found = {key for _, place in means.places(NOBODY) for key in _named(place.parent)}
    return sorted(key for key in found if not is_known(key) and _is_left(means, key))


def _named(home: Path) -> list[JobKey]:
    try:
        names = os.listdir(home)  # noqa: PTH208 - of thousands of names the text is enough
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [key for name in names if (key := _key(name)) is not None]


@lru_cache(maxsize=_CACHED)
def _key(name: str) -> JobKey | None:
    """Tell whose group is called so; None where we make none of that name."""
    match = _OURS.fullmatch(name)
    if match is None:
        return None
    key = JobKey(MANAGER, str(int(match[1])), int(match[2]))
    return key if job_directory(key) == name else None


def _is_left(means: Cgroups, key: JobKey) -> bool:
    # Between its making and the first move a group is empty too: of a live job it is left alone,
    # for another slaqd may be about to hold it.
    leader = processes.read(int(key.id))
    if leader is not None and leader.alive and leader.start == key.start:
        return False
    return not any(groups.members(place) for _, place in means.places(key))
