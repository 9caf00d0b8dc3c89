"""Who beside its owner may use a file: slaqd's start and ``slaqctl doctor`` judge alike."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path

WRITE = stat.S_IWGRP | stat.S_IWOTH
ANY = stat.S_IRWXG | stat.S_IRWXO

_ACCESS_LIST = "system.posix_acl_access"
_NO_LIST = frozenset({errno.ENODATA, errno.ENOTSUP})


def others_may(rights: int, seen: os.stat_result, where: int | Path) -> bool:
    """Tell whether anybody but its owner has one of these rights to a file or directory.

    A group that is its owner's alone lets nobody in: Debian gives each user one, and
    with umask 002 what she makes is open to it.

    Parameters
    ----------
    rights
        Bits of its mode: `WRITE` or `ANY`.
    seen
        What stat(2) says of it.
    where
        It, as a path that is not followed, or as a handle.

    """
    asked = seen.st_mode & rights
    if asked & stat.S_IRWXO or not asked:
        return bool(asked)
    # With an access list the group's bits are what all that are named in it have at most (acl(5)).
    return _has_access_list(where) or not _is_private(seen.st_gid, seen.st_uid)


def _has_access_list(where: int | Path) -> bool:
    try:
        os.getxattr(where, _ACCESS_LIST, follow_symlinks=not isinstance(where, Path))
    except OSError as error:
        return error.errno not in _NO_LIST
    return True


def _is_private(gid: int, uid: int) -> bool:
    try:
        owner, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    # All users and groups of a site may be many, and far away: they are asked for last.
    return is_private(gid, owner, (), [group]) and is_private(
        gid, owner, pwd.getpwall(), [group, *grp.getgrall()]
    )


def is_private(
    gid: int,
    owner: pwd.struct_passwd,
    users: Iterable[pwd.struct_passwd],
    groups: Iterable[grp.struct_group],
) -> bool:
    """Tell whether a group has ``owner``, whose own group it is, as its only member.

    It bears her name too: a name service may not list all ``users``, and of a shared
    group nothing else is sure to show that it is one.
    """
    named = [group for group in groups if group.gr_gid == gid]
    members = {member for group in named for member in group.gr_mem}
    members |= {user.pw_name for user in users if user.pw_gid == gid and user.pw_uid != owner.pw_uid}
    return (
        owner.pw_gid == gid
        and {group.gr_name for group in named} == {owner.pw_name}
        and members <= {owner.pw_name}
    )
