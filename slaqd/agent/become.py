"""Becoming a user: for good in a process of its own, or for one thread's dealings with files alone.

A failed change of identity is never gone on from (CVE-2019-19728 was that in Slurm):
`become` and `wear` raise `NotThatUserError`, and whoever called them ends.
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
from pathlib import Path
from typing import NamedTuple

_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}
"""The system call by machine: glibc's own setgroups changes all threads at once (nptl(7))."""

_WHICH = 2**32 - 1
"""No uid and no gid: the call then only tells the present one (setfsuid(2))."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.setfsuid.restype = _libc.setfsgid.restype = ctypes.c_uint32
_libc.setfsuid.argtypes = _libc.setfsgid.argtypes = (ctypes.c_uint32,)


class NotThatUserError(OSError):
    """The identity is not what it was meant to become."""


class UnknownUserError(LookupError):
    """No user has this uid here."""


class User(NamedTuple):
    """Whom to become."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def find(uid: int) -> User:
    """Look a user up. May hang with the name service; `UnknownUserError` if there is no such user."""
    try:
        entry = pwd.getpwuid(uid)
        return User(uid, entry.pw_gid, tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid))))
    except (KeyError, OverflowError) as error:
        msg = f"no user has the uid {uid} on this machine"
        raise UnknownUserError(msg) from error


def become(user: User) -> None:
    """Make this process the user's for good; it must have one thread.

    Started as root, the change of all three uids clears every capability
    (capabilities(7), "Effect of user ID changes"); with ambient ones it would not,
    hence the look at what is left.
    """
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    left = {name: value for name, value in _capabilities().items() if int(value, 16)}
    same = os.getresuid() == (user.uid,) * 3 and os.getresgid() == (user.gid,) * 3
    if not same or left or user.uid == 0 or set(os.getgroups()) - {user.gid} != set(user.groups) - {user.gid}:
        raise NotThatUserError(f"uid {user.uid} was to be, but: {os.getresuid()} {os.getresgid()} {left}")


def wear(user: User) -> None:
    """Deal with files as the user would, in this thread alone and until it ends (credentials(7))."""
    number = _SETGROUPS.get(platform.machine())
    if number is None:
        raise NotThatUserError(f"the call for one thread's groups is not known on {platform.machine()}")
    groups = (ctypes.c_uint32 * len(user.groups))(*user.groups)
    if _libc.syscall(number, len(groups), groups):
        raise NotThatUserError(ctypes.get_errno(), "setgroups was refused")
    _libc.setfsgid(user.gid)
    _libc.setfsuid(user.uid)
    now = (_libc.setfsuid(_WHICH), _libc.setfsgid(_WHICH), set(os.getgroups()))
    if user.uid == 0 or now != (user.uid, user.gid, set(user.groups)):
        raise NotThatUserError(f"files were to be seen as uid {user.uid}, but: {now}")


def _capabilities() -> dict[str, str]:
    """Give those that can be used, or could be put to use (proc(5)); reading them imports nothing."""
    lines = Path("/proc/thread-self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = (line.split(":\t", 1) for line in lines)
    return {pair[0]: pair[1] for pair in pairs if pair[0] in {"CapPrm", "CapEff", "CapAmb"}}
