"""What the hands check of processes and groups before they touch them.

Nothing that slaqd says is believed: whose a process is, and where it came from, is
asked of the kernel. What has to outlive the agent is kept there too, as extended
attributes of the job's group, which only root can write.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from slaqd_local import groups, processes
from slaqd_local.groups import Move
from slaqd_local.hierarchy import PROC, Hierarchy
from slaqd_local.means import Origins

_OWNER = "user.slaqd.owner"
_CAME_FROM = "user.slaqd.from"
_MOST_ORIGINS = 16
_GONE = (FileNotFoundError, ProcessLookupError)


def refusal(why: str) -> PermissionError:
    """Say no as the system does: with a number for programs, and words for people."""
    return PermissionError(errno.EPERM, why)


class Guard:
    """Stands for one user: moves that user's processes and none other.

    Parameters
    ----------
    uid
        Whose processes may be moved, by their real uid.
    least_uid
        Users below it are the system's own and have no jobs.

    """

    def __init__(self, uid: int, least_uid: int) -> None:
        if uid < least_uid:
            msg = f"uid {uid} is one of the system's own (below {least_uid}): its processes are not touched"
            raise refusal(msg)
        self._uid = uid
        self._least_uid = least_uid
        self._looked_at: set[int] = set()

    def vouch(self, pids: Collection[int]) -> None:
        """Look at all processes before the first is moved.

        Raises
        ------
        PermissionError
            One of them is another user's.

        """
        for pid in pids:
            uid = processes.real_uid(pid)
            if uid not in {None, self._uid}:
                msg = f"process {pid} belongs to uid {uid}, not to {self._uid}"
                raise refusal(msg)

    def own(self, directory: Path) -> None:
        """Look whose a job's group is.

        The mark on the group decides: what stands in it as another user was born there (by
        sudo, a set-uid program, or with a subordinate uid), and makes it nobody else's.
        Only on a kernel that keeps no marks do the members tell.

        Raises
        ------
        PermissionError
            The group, or the one that all jobs' groups are in, is not this process's
            user's own, or it is another user's job's.

        """
        be_ours(directory)
        owner = _mark(directory, _OWNER)
        if owner:
            self._same(int(owner), directory)
            return
        for pid in set(groups.members(directory)) - self._looked_at:
            uid = processes.real_uid(pid)
            if uid is not None and uid != self._uid and uid >= self._least_uid:
                msg = f"{directory} holds process {pid} of uid {uid}, not of {self._uid}"
                raise refusal(msg)
            self._looked_at.add(pid)

    def _same(self, owner: int, directory: Path) -> None:
        if owner != self._uid:
            msg = f"{directory} is the group of a job of uid {owner}, not of {self._uid}"
            raise refusal(msg)

    def take(self, pids: Iterable[int], directory: Path, hierarchy: Hierarchy) -> None:
        """Move processes into their job's group, and keep there where they came from."""
        _set_mark(directory, _OWNER, str(self._uid))
        came_from = _came_from(directory) or []
        for pid in pids:
            with suppress(*_GONE):
                came_from.append(groups.plain(hierarchy.group_of(pid)))
        _set_mark(directory, _CAME_FROM, "\n".join(list(dict.fromkeys(came_from))[:_MOST_ORIGINS]))
        self.move(pids, directory, hierarchy)

    def move(self, pids: Iterable[int], directory: Path, hierarchy: Hierarchy) -> None:
        """Move the user's processes among these; another's are passed over."""
        for pid in pids:
            try:
                handle = os.open(PROC / str(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except _GONE:
                continue
            try:
                self._move(pid, handle, directory, hierarchy)
            finally:
                os.close(handle)

    def _move(self, pid: int, handle: int, directory: Path, hierarchy: Hierarchy) -> None:
        # The handle stays with the process that it was opened for, and reads nothing once
        # that is gone. cgroup.procs takes a number only: a process that ends between the
        # look and the move may hand its number on, which shows in the second look.
        if _uid(handle) != self._uid:
            return
        groups.move([pid], directory)
        if _uid(handle) is None:
            self.undo(pid, directory, hierarchy)

    def undo(self, pid: int, directory: Path, hierarchy: Hierarchy) -> None:
        """Send a process that was moved in another's place to where it was born: its parent's group."""
        stranger = processes.read(pid)
        if stranger is None or processes.real_uid(pid) == self._uid or pid not in groups.members(directory):
            return
        with suppress(*_GONE):
            groups.send_back(pid, hierarchy, hierarchy.group_of(stranger.parent))

    def checked(self, origins: Origins, places: Iterable[tuple[Hierarchy, Path]]) -> Origins:
        """Turn slaqd's word on where processes came from into groups that they may be sent to.

        A group that is gone stands for the nearest above it. One that no process of
        this job ever came from, as far as that was kept, stands for the job's usual one.

        Raises
        ------
        PermissionError
            A path leads out of the hierarchy, or into the group of another user's job.

        """
        found = {}
        for hierarchy, directory in places:
            given = origins.get(hierarchy.controller, {})
            kept = _came_from(directory)
            found[hierarchy.controller] = {
                pid: self._origin(group, kept, hierarchy, directory.parent) for pid, group in given.items()
            }
            usual = found[hierarchy.controller].setdefault("", kept[0] if kept else hierarchy.own)
            self._into(usual, hierarchy, directory.parent)
        return found

    def _origin(self, group: str, kept: list[str] | None, hierarchy: Hierarchy, home: Path) -> str:
        if not group.startswith("/") or {"..", "."} & set(group.split("/")) or "\0" in group:
            msg = f"{group!r} is no group of a hierarchy"
            raise refusal(msg)
        if kept and group not in kept:
            group = kept[0]
        self._into(group, hierarchy, home)
        return group

    def _into(self, group: str, hierarchy: Hierarchy, home: Path) -> None:
        # A job that was started by a job came from that one's group.
        inside = [each for each in hierarchy.chain(group) if each.parent == home and each.is_dir()]
        for each in inside:
            self.own(each)


def _uid(handle: int) -> int | None:
    """Tell the real user of the process that a handle on ``/proc/PID`` is of; None if it is gone."""
    try:
        status = os.open("status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=handle)
        with open(status, "rb") as file:  # noqa: PTH123 - a handle, not a path
            return processes.parse_uid(file.read())
    except _GONE:
        return None


def be_ours(directory: Path) -> None:
    """See that a job's group, and the one that all jobs' groups are in, is this process's user's own.

    Raises
    ------
    PermissionError
        Another user made one of them, or may write to it.

    """
    for each in (directory.parent, directory):
        _be_ours(each)


def _be_ours(directory: Path) -> None:
    try:
        found = directory.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        msg = f"{directory} is not the agent's own: another user made it, or may write to it"
        raise refusal(msg)


def _came_from(directory: Path) -> list[str] | None:
    mark = _mark(directory, _CAME_FROM)
    return mark.split("\n") if mark else None


def _mark(directory: Path, name: str) -> str | None:
    # Kernels before 5.7 keep no marks on groups. Then a group's members tell whose it is,
    # and any group of the hierarchy may be said to be an origin.
    try:
        return os.getxattr(directory, name).decode()
    except OSError:
        return None


def _set_mark(directory: Path, name: str, value: str) -> None:
    if _mark(directory, name) != value:
        with suppress(OSError):
            os.setxattr(directory, name, value.encode())


def guarded(guard: Guard, places: Collection[Path]) -> Move:
    """Make the function by which a means moves: into the job's own groups with a note of the origin."""

    def move(pids: Iterable[int], directory: Path, hierarchy: Hierarchy) -> None:
        pids = list(pids)
        (guard.take if directory in places else guard.move)(pids, directory, hierarchy)

    return move
