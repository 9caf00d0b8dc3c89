"""Where the cgroup hierarchies are, and which place in them is ours to use.

Follows cgroups(7): ``/proc/self/mountinfo`` for the mounts, ``/proc/PID/cgroup``
for memberships. Controllers of version 1 may be mounted together or apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

UNIFIED = ""
"""The controller's name under which version 2 stands in ``/proc/PID/cgroup``."""

PROC = Path("/proc")


class Mount(NamedTuple):
    """One mounted hierarchy: where, from which of its groups on, and with which controllers."""

    point: Path
    root: str
    controllers: frozenset[str]


def parse_mounts(text: str) -> list[Mount]:
    """Read the cgroup mounts out of a mountinfo file; version 2 has the controller `UNIFIED` alone."""
    mounts = []
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if not dash or len(before) < 5 or len(after) < 3:  # noqa: PLR2004 - the fields used below
            continue
        if after[0] == "cgroup2":
            controllers = frozenset({UNIFIED})
        elif after[0] == "cgroup":
            controllers = frozenset(after[2].split(","))
        else:
            continue
        mounts.append(Mount(Path(_unescape(before[4])), _unescape(before[3]), controllers))
    return mounts


def parse_memberships(text: str) -> dict[str, str]:
    """Read the group of each controller out of ``/proc/PID/cgroup``.

    Users name groups, and may use all characters but the newline.
    """
    groups = {}
    for line in filter(None, text.split("\n")):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in [UNIFIED] if number == "0" else controllers.split(","):
            groups[controller] = path
    return groups


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _memberships(pid: int | str) -> Mapping[str, str]:
    return parse_memberships(_read(PROC / str(pid) / "cgroup"))


def _read(path: Path) -> str:
    # Not as text: that would turn a carriage return in a group's name into a newline.
    return path.read_bytes().decode(errors="surrogateescape")


class Hierarchy:
    """One hierarchy, seen from here."""

    def __init__(self, mount: Mount, controller: str, own: str, top: Path | None = None) -> None:
        self.mount = mount
        self.controller = controller
        self.own = own
        self._top = top

    def directory(self, group: str) -> Path:
        """Find the directory of a group; groups above the mount's root end at the mount point."""
        try:
            inside = PurePosixPath(group).relative_to(self.mount.root)
        except ValueError:
            return self.mount.point
        return self.mount.point if ".." in inside.parts else self.mount.point / inside

    def group_of(self, pid: int) -> str:
        """Tell the group of a process. OSError if it is gone."""
        return _memberships(pid)[self.controller]

    def chain(self, group: str) -> list[Path]:
        """List the directories from the mount point down to a group."""
        directory = self.directory(group)
        inside = directory.relative_to(self.mount.point)
        return [*reversed([directory.parents[i] for i in range(len(inside.parts))]), directory]

    def writable(self) -> Path | None:
        """Find the topmost group of our own line in which we may make groups.

        As root that is the mount point; an ordinary user has one where a subtree
        was delegated (systemd's user manager, ``Delegate=``).
        """
        if self._top is None:
            self._top = next(filter(is_writable, self.chain(self.own)), None)
        return self._top


def is_writable(directory: Path) -> bool:
    """Tell whether this process may make groups in a group, and move processes into it."""
    return os.access(directory, os.W_OK | os.X_OK) and os.access(directory / "cgroup.procs", os.W_OK)


def may_divide(directory: Path) -> bool:
    """Tell whether this process could make groups here, be it by granting itself the right as the owner."""
    owned = directory.stat().st_uid == os.geteuid()
    return is_writable(directory) or (owned and os.access(directory / "cgroup.procs", os.W_OK))


def find(controller: str, *, shared: bool = False) -> Hierarchy | None:
    """Find the hierarchy of a controller; None where it isn't mounted.

    In a ``shared`` one our place is where it is mounted, whoever looks: slaqd reads
    there what its agent has written.
    """
    text = _read(PROC / "self/mountinfo")
    mounts: Sequence[Mount] = [mount for mount in parse_mounts(text) if controller in mount.controllers]
    own = _memberships("self").get(controller)
    if not mounts or own is None:
        return None
    mount = mounts[0]
    return (
        Hierarchy(mount, controller, mount.root, mount.point) if shared else Hierarchy(mount, controller, own)
    )
