"""The state directory: on a disk of this machine, and held by one slaqd at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slaqd import mounts
from slaqd.daemon import others
from slaqd.errors import AlreadyRunning, StateError, StateRefused
from slaqd.mounts import Mount

_OR_ANOTHER = "; or name another directory as state_dir in [slaqd]"
_LASTING = frozenset(
    {
        errno.EACCES, errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG,
        errno.ENOTDIR, errno.ENXIO, errno.EPERM, errno.EROFS,
    }
)  # fmt: skip
"""What the system says of rights, names and what lies in the way: waiting changes none of it."""
_NOT_HERE = frozenset({errno.EACCES, errno.EROFS})
"""What the system says where a directory can't be made in the place that a disk is mounted on later."""
_NO_FILE = frozenset({errno.EISDIR, errno.ELOOP, errno.ENXIO})
"""What the system says of a directory, a link, and a socket, where a file is to be opened."""

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


def network_file_system(path: str, mounted: Iterable[Mount]) -> str | None:
    """Name the type of the network file system that a path lies on; None where it is local.

    The path is absolute and without symbolic links.
    """
    mount = mounts.over(path, mounted)
    kind = mount.kind if mount else ""
    return kind if kind in _NETWORK or _NETWORK_FUSE.fullmatch(kind) else None


def network_below(directory: Path) -> str | None:
    """Name the type of the network file system that a directory lies on, or would lie on if it were made.

    None where it is local; also where it can't be resolved: it can't be used then either, and the use
    says why.
    """
    try:
        return network_file_system(str(directory.resolve()), mounts.read())
    except (OSError, RuntimeError, ValueError):
        return None


def refuse_network(directory: Path) -> None:
    """Raise `StateRefused` where a directory lies, or would lie, on a network file system.

    Locks and shared memory, on which SQLite's log stands, don't hold between machines,
    and a server that hangs would hang slaqd.
    """
    kind = network_below(directory)
    if kind is not None:
        msg = (
            f"{directory}: the state can't lie on a network file system ({kind});"
            " name a directory on a disk of this machine as state_dir in [slaqd]"
        )
        raise StateRefused(msg)


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
    StateRefused
        It lies on a network file system, others can change what is in it, or what is in
        the way stays there until somebody changes it.
    StateError
        It can't be made or written for a reason that may go away by itself, such as a full disk.

    """
    refuse_network(directory)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(directory, left=left)
    except (OSError, ValueError) as error:
        raise _unusable(directory, error) from error
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
        _refuse_others(directory, inside, left=left)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open("lock", flags, 0o600, dir_fd=inside)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise _no_file(directory) from error
        raise
    finally:
        os.close(inside)
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise _no_file(directory)
    return lock


def _no_file(directory: Path) -> StateRefused:
    return StateRefused(f"{directory / 'lock'}: no file; move it away")


def _unusable(directory: Path, error: OSError | ValueError) -> StateError:
    """Tell apart what a later try may not meet any more from what waits for somebody."""
    why = error.strerror if isinstance(error, OSError) else error
    msg = f"{directory}: the state directory can't be used: {why}"
    if isinstance(error, OSError) and (error.errno not in _LASTING or _may_come(directory, error)):
        return StateError(msg)
    return StateRefused(f"{msg}; mend that{_OR_ANOTHER}")


def _may_come(directory: Path, failed: OSError) -> bool:
    """Tell whether it isn't there, and may be on a disk that is mounted later."""
    try:
        directory.stat()
    except OSError as error:
        return error.errno == errno.ENOENT and (directory.is_symlink() or failed.errno in _NOT_HERE)
    return False


def _refuse_others(directory: Path, inside: int, *, left: bool) -> None:
    """Whoever can write there can make slaqd write wherever a link of his points, and forge its journal."""
    mine, seen = os.geteuid(), os.fstat(inside)
    if seen.st_uid != mine and not left:
        msg = (
            f"{directory}: the state belongs to uid {seen.st_uid}, and this slaqd runs as uid {mine};"
            f" run it as that user{_OR_ANOTHER}"
        )
        raise StateRefused(msg)
    if others.others_may(others.WRITE, seen, inside):
        mode = f"{stat.S_IMODE(seen.st_mode):04o}"
        msg = f"{directory}: others can change the state (mode {mode}); chmod go-w {directory}{_OR_ANOTHER}"
        raise StateRefused(msg)


def _sign(directory: Path, lock: int) -> None:
    try:
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        msg = f"{directory}: the state directory can't be written: {error.strerror}"
        raise StateError(msg) from error


def _text(lock: int) -> str:
    return os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
