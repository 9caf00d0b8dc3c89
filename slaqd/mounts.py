"""What is mounted where, as the kernel tells a process (proc(5), ``/proc/self/mountinfo``)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

OWN = Path("/proc/self/mountinfo")

_BEFORE, _AFTER = 5, 3
"""Fields that are used on each side of the dash. The number of optional ones before it varies."""


class Mount(NamedTuple):
    """One mount: where it is, from which directory of its file system on, and of which type.

    ``options`` are those of the file system, not those of the mount: for cgroup version 1
    they name its controllers.
    """

    point: str
    root: str
    kind: str
    options: str


def read(path: Path | None = None) -> list[Mount]:
    """Read what is mounted, in the order of the kernel; from `OWN` where no ``path`` is given.

    Raises
    ------
    OSError
        The file can't be read.

    """
    # Not as text: users name mount points, and a carriage return in one would end the line.
    return parse(os.fsdecode((path or OWN).read_bytes()))


def parse(text: str) -> list[Mount]:
    """Take a mountinfo file apart; lines that are none of it are passed over."""
    found = []
    for line in text.split("\n"):  # the kernel escapes no other sign that ends a line for Python
        left, _, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if len(before) >= _BEFORE and len(after) >= _AFTER:
            found.append(Mount(_plain(before[4]), _plain(before[3]), after[0], after[2]))
    return found


def over(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Pick the mount that an absolute path without symbolic links lies on; None where none covers it."""
    best = None
    for mount in mounts:
        # Of several mounts on one point the last one covers the others.
        if _is_below(path, mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def _plain(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)
