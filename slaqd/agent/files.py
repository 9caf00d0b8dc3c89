"""Users' files, reached without being led elsewhere.

Whoever calls this is the user already, so the kernel refuses what that user may not
read. What is left to be refused here: being led to another file of the user's, or to
one of somebody else's that happens to be readable; being made to wait by a pipe; and
reading what is no file at all. Nothing is checked by its path: a file is opened once,
and then only the descriptor is looked at.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath

from slaqd.errors import SourceRefused
from slaqd.observe.reader import DirectReader, SourceMissing
from slaqd.text import show

MOST = 64 * 1024
"""Bytes of the largest small file."""

_OPENAT2 = 437  # on every machine alike
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_HOW = os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 8

_OTHER_WORDS = {
    errno.ELOOP: "symbolic links are not followed: name the file itself",
    errno.EXDEV: "leads out of the job's directory: name it by its absolute path, without ..",
}

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    """What openat2(2) takes."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class OwnersReader(DirectReader):
    """Reads one user's files, as `slaqd.observe.Reader`: regular ones that are the user's own.

    Parameters
    ----------
    uid
        Who must own the files.
    root
        Where the job's tree begins. A path below it is resolved below it; any other
        path is taken apart at its last slash.

    """

    words: Mapping[int, str] = {**DirectReader.words, **_OTHER_WORDS}

    def __init__(self, uid: int, root: str) -> None:
        self._uid = uid
        self._root = root

    def glob(self, pattern: str) -> Sequence[str]:
        """See `slaqd.observe.Reader.glob`. What it finds is opened like any other path."""
        try:
            return super().glob(pattern)
        except (ValueError, RecursionError) as error:  # the latter: of a thousand directories
            message = f"{show(pattern)}: not a possible file name"
            raise SourceRefused(message) from error

    def open(self, path: str) -> int:
        """See `DirectReader.open`; see `open_below`."""
        return open_below(self._root, path, os.O_RDONLY)

    def judge(self, status: os.stat_result) -> str | None:
        """See `DirectReader.judge`: a name in the job's tree may be one of somebody else's file."""
        if status.st_uid != self._uid:
            return f"belongs to uid {status.st_uid}, not to the job's owner"
        if status.st_nlink > 1:
            return "has several names (hard links): copy it, or name a file that has one"
        return None


def get(uid: int, root: str, path: str) -> bytes | None:
    """Read a small file of a user's; None where there is none. OSError in words where it is refused."""
    try:
        return OwnersReader(uid, root).read(path, 0, MOST)
    except SourceMissing:
        return None
    except SourceRefused as error:
        raise PermissionError(errno.EACCES, str(error)) from error


def put(uid: int, root: str, path: str, text: bytes) -> None:
    """Replace a small file as a whole: whoever reads it finds the old one or the new one (rename(2)).

    Its directory must be the user's own, lest somebody else swaps what lies in it.
    """
    if len(text) > MOST:
        raise OSError(errno.EFBIG, f"{show(path)}: {len(text)} bytes, more than {MOST}")
    where = PurePosixPath(path)
    with _in_words(path):
        directory = open_below(root, str(where.parent), os.O_RDONLY | os.O_DIRECTORY)
        try:
            owner = os.fstat(directory).st_uid
            if owner != uid:
                raise PermissionError(errno.EPERM, f"its directory belongs to uid {owner}, not to uid {uid}")
            _replace(directory, where.name, text)
        finally:
            os.close(directory)


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise OSError(errno.EINVAL, f"{show(path)}: not a possible file name") from error
    except OSError as error:
        number = error.errno or 0
        said = error.strerror if error.strerror != os.strerror(number) else None
        raise OSError(
            number, f"{show(path)}: {said or OwnersReader.words.get(number) or os.strerror(number)}"
        ) from error


def open_below(root: str, path: str, flags: int) -> int:
    """Open ``path`` without a step out of ``root``, where it lies below it, and without symbolic links.

    The directory to start from is opened as the user would: what leads to it is the
    site's own, such as a link from /home to where homes are.
    """
    top, rest = _parted(root, path)
    start = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _openat2(start, rest, flags | _HOW)
    finally:
        os.close(start)


def _parted(root: str, path: str) -> tuple[str, str]:
    if not path.startswith("/") or ".." in path.split("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    top = root.rstrip("/") + "/"
    if root.startswith("/") and path.startswith(top) and path != top:
        return top, path[len(top) :].lstrip("/") or "."
    if path.rstrip("/") == root.rstrip("/") and root.startswith("/"):
        return top, "."
    folder, _, name = path.rpartition("/")
    return folder + "/", name or "."


def _openat2(start: int, rest: str, flags: int) -> int:
    how = _OpenHow(flags, 0, _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH)
    name = os.fsencode(rest)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    for _ in range(_TRIES):
        opened = _libc.syscall(_OPENAT2, start, name, ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return int(opened)
        number = ctypes.get_errno()
        if number == errno.ENOSYS:
            return _walk(start, rest, flags)
        if number not in {errno.EAGAIN, errno.EINTR}:  # the former: something was moved meanwhile
            break
    raise OSError(number, os.strerror(number))


def _walk(start: int, rest: str, flags: int) -> int:
    """Do the same step by step, for kernels before 5.6."""
    *folders, name = PurePosixPath(rest).parts or (".",)
    if rest.endswith("/"):
        flags |= os.O_DIRECTORY
    here = os.dup(start)
    for folder in folders:
        before, here = here, _step(here, folder)
        os.close(before)
    try:
        return os.open(name, flags, dir_fd=here)
    finally:
        os.close(here)


def _step(here: int, folder: str) -> int:
    try:
        return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    except NotADirectoryError:
        link = stat.S_ISLNK(os.stat(folder, dir_fd=here, follow_symlinks=False).st_mode)
        number = errno.ELOOP if link else errno.ENOTDIR
        os.close(here)
        raise OSError(number, os.strerror(number)) from None
    except OSError:
        os.close(here)
        raise


def _replace(directory: int, name: str, text: bytes) -> None:
    new = f".{name}.slaqd"
    with suppress(FileNotFoundError):  # of one that was killed while it wrote
        os.unlink(new, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o644, dir_fd=directory)
    try:
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
        os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(new, dir_fd=directory)
        raise
    finally:
        os.close(descriptor)
    os.fsync(directory)
