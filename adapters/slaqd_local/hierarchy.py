"""Where the cgroup hierarchies are, and which place in them is ours to use.

Follows cgroups(7): ``/proc/self/mountinfo`` for the mounts, ``/proc/PID/cgroup``
for memberships. Controllers of version 1 may be mounted together or apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from slaqd import mounts

UNIFIED = ""
"""The controller's name under which version 2 stands in ``/proc/PID/cgroup``."""

PROC = Path("/proc")


class CgroupMount(NamedTuple):
    """One mounted hierarchy: where, from which of its groups on, and with which controllers."""

    point: Path
    root: str
    controllers: frozenset[str]


def of_cgroups(mounted: Iterable[mounts.Mount]) -> list[CgroupMount]:
    """Pick the mounted cgroup hierarchies; version 2 has the controller `UNIFIED` alone."""
    found = []
    for each in mounted:
        if each.kind in ("cgroup", "cgroup2"):
            controllers = [UNIFIED] if each.kind == "cgroup2" else each.options.split(",")
            found.append(CgroupMount(Path(each.point), each.root, frozenset(controllers)))
    return found


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


def _memberships(pid: int | str) -> Mapping[str, str]:
    # Not as text: that would turn a carriage return in a group's name into a newline.
    return parse_memberships(os.fsdecode((PROC / str(pid) / "cgroup").read_bytes()))


class Hierarchy:
    """One hierarchy, seen from here."""

    def __init__(self, mount: CgroupMount, controller: str, own: str, top: Path | None = None) -> None:
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
    mounted = of_cgroups(mounts.read(PROC / "self/mountinfo"))
    mount = next((each for each in mounted if controller in each.controllers), None)
    own = _memberships("self").get(controller)
    if mount is None or own is None:
        return None
    return (
        Hierarchy(mount, controller, mount.root, mount.point) if shared else Hierarchy(mount, controller, own)
    )
