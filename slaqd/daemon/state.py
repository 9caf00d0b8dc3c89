"""The state directory: on a disk of this machine, and held by one slaqd at a time."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slaqd.errors import AlreadyRunning, StateError

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "ceph", "cephfs", "cifs", "coda", "davfs", "gfs", "gfs2",
        "glusterfs", "gpfs", "lustre", "mmfs", "ncpfs", "ncp", "nfs", "nfs4", "ocfs2", "orangefs", "panfs",
        "pvfs2", "smb2", "smb3", "smbfs", "virtiofs", "vboxsf", "wekafs",
    }
)  # fmt: skip
_NETWORK_FUSE = re.compile(
    r"fuse\.(sshfs|nfs.*|gluster.*|ceph.*|s3.*|goofys|rclone|gcsfuse|davfs2?|juicefs|moosefs|mfs.*|lizardfs"
    r"|curlftpfs|gvfs.*|smb.*|seaweedfs|weed|cvmfs2?|objectivefs|hdfs.*|fuse_dfs|beegfs|dfuse)"
)


def network_file_system(mounts: str, path: str) -> str | None:
    """Name the type of the network file system that a path lies on; None where it is local.

    Parameters
    ----------
    mounts
        The text of ``/proc/self/mountinfo`` (proc(5)).
    path
        Absolute and without symbolic links.

    """
    best, kind = -1, ""
    for line in mounts.splitlines():
        left, dash, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if not dash or len(before) < 5:  # noqa: PLR2004 - the mount point is the fifth field
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before[4])
        # Of several mounts on one point the last one covers the others.
        if _is_below(path, point) and len(point) >= best:
            best, kind = len(point), after[0]
    return kind if kind in _NETWORK or _NETWORK_FUSE.fullmatch(kind) else None


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def refuse_network(directory: Path) -> None:
    """Raise `StateError` where a directory lies, or would lie, on a network file system.

    Locks and shared memory, on which SQLite's log stands, don't hold between machines,
    and a server that hangs would hang slaqd.
    """
    try:
        real = str(directory.resolve())
        kind = network_file_system(_MOUNTS.read_text(errors="surrogateescape"), real)
    except (OSError, RuntimeError, ValueError):
        return  # what can't be resolved can't be used either, and the use says why
    if kind is not None:
        msg = (
            f"{directory}: the state can't lie on a network file system ({kind});"
            " name a directory on a disk of this machine as state_dir in [slaqd]"
        )
        raise StateError(msg)


@contextmanager
def state(directory: Path, *, left: bool = False) -> Iterator[Path]:
    """Hold the state directory for as long as the daemon lives (flock(2)).

    Parameters
    ----------
    directory
        Is made where it is not there.
    left
        Whether it may be another user's: root mends what the service's daemon left.

    Raises
    ------
    AlreadyRunning
        Another slaqd holds it.
    StateError
        It can't be made or written, lies on a network file system, or others can change what is in it.

    """
    refuse_network(directory)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(directory, left=left)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"{directory}: the state directory can't be used: {why}"
        raise StateError(msg) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            msg = f"{directory}: held by another slaqd (pid {_text(lock)}); stop that one first"
            raise AlreadyRunning(msg) from error
        _sign(directory, lock)
        yield directory
    finally:
        os.close(lock)


def is_taken(directory: Path) -> bool:
    """Tell whether a slaqd holds the state directory; also where that can't be told."""
    try:
        lock = os.open(directory / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _lock(directory: Path, *, left: bool) -> int:
    inside = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _refuse_others(directory, os.fstat(inside), left=left)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open("lock", flags, 0o600, dir_fd=inside)
    finally:
        os.close(inside)
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        msg = f"{directory / 'lock'}: no file; move it away"
        raise StateError(msg)
    return lock


def _refuse_others(directory: Path, seen: os.stat_result, *, left: bool) -> None:
    """Whoever can write there can make slaqd write wherever a link of his points, and forge its journal."""
    mine, do = os.geteuid(), "; or name another directory as state_dir in [slaqd]"
    if seen.st_uid != mine and not left:
        msg = (
            f"{directory}: the state belongs to uid {seen.st_uid}, and this slaqd runs as uid {mine};"
            f" run it as that user{do}"
        )
        raise StateError(msg)
    if seen.st_mode & OTHERS_WRITE:
        mode = f"{stat.S_IMODE(seen.st_mode):04o}"
        msg = f"{directory}: others can change the state (mode {mode}); chmod go-w {directory}{do}"
        raise StateError(msg)


def _sign(directory: Path, lock: int) -> None:
    try:
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        msg = f"{directory}: the state directory can't be written: {error.strerror}"
        raise StateError(msg) from error


def _text(lock: int) -> str:
    return os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
