"""Who beside its owner may use a file: a group that is the owner's alone is nobody else."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from slaqd.config import Config
from slaqd.daemon import checks
from slaqd.daemon.others import ANY, WRITE, is_private, others_may
from slaqd.daemon.state import state
from slaqd.errors import StateRefused
from slaqd.types import Severity

NOBODYS_GROUP = 20_001
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another group")


def user(name: str, uid: int, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


def group(name: str, gid: int, *members: str) -> grp.struct_group:
    return grp.struct_group((name, "x", gid, list(members)))


ADA = user("ada", 1000, 1000)
BOB = user("bob", 1001, 1001)


@pytest.mark.parametrize(
    ("gid", "users", "groups", "private"),
    [
        (1000, [ADA, BOB], [group("ada", 1000)], True),
        (1000, [ADA, BOB], [group("ada", 1000, "ada")], True),
        (1000, [ADA, BOB], [group("ada", 1000), group("bob", 1001, "bob")], True),
        (1000, [ADA, BOB], [group("ada", 1000, "bob")], False),
        (1000, [ADA, user("bob", 1001, 1000)], [group("ada", 1000)], False),
        (1000, [ADA], [group("users", 1000)], False),
        (1000, [ADA], [group("ada", 1000), group("project", 1000, "bob")], False),
        (1000, [ADA], [group("ada", 1000), group("project", 1000)], False),
        (1001, [ADA], [group("ada", 1001)], False),
        (1001, [ADA, BOB], [group("bob", 1001)], False),
    ],
    ids=[
        "nobody is named", "she is named", "others have theirs", "bob is named", "bob's own group too",
        "by its name a shared one", "two names, one with bob", "two names", "not her own group", "bob's",
    ],
)  # fmt: skip
def test_a_private_group_is_its_owners_own_has_her_name_and_no_other_member(
    gid: int, users: Sequence[pwd.struct_passwd], groups: Sequence[grp.struct_group], *, private: bool
) -> None:
    assert is_private(gid, ADA, users, groups) is private


def private_group() -> int | None:
    """Give the group of whoever runs this, if it is his alone."""
    me = pwd.getpwuid(os.geteuid())
    return me.pw_gid if is_private(me.pw_gid, me, pwd.getpwall(), grp.getgrall()) else None


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Give a directory of a group that is its owner's alone."""
    gid = private_group()
    if gid is None:
        pytest.skip("whoever runs this has no group alone")
    made = tmp_path / "mine"
    made.mkdir(mode=0o700)
    os.chown(made, -1, gid)
    return made


def severities(directory: Path) -> list[Severity]:
    return [each.severity for each in checks.of_state(directory) if "free on its disk" not in each.what]


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o750])
def test_a_state_that_only_a_private_group_can_change_is_used_and_good(mine: Path, mode: int) -> None:
    mine.chmod(mode)
    assert severities(mine) == [Severity.OK]
    with state(mine):
        assert (mine / "lock").exists()


@as_root
@pytest.mark.parametrize("mode", [0o770, 0o720])
def test_a_state_that_another_group_can_change_is_refused_and_an_error(mine: Path, mode: int) -> None:
    os.chown(mine, -1, NOBODYS_GROUP)
    mine.chmod(mode)
    assert severities(mine) == [Severity.ERROR]
    with pytest.raises(StateRefused, match=f"others can change the state .mode {mode:04o}.; chmod go-w"):
        state(mine).__enter__()


def test_a_configuration_below_a_home_of_umask_002_is_good(mine: Path) -> None:
    mine.chmod(0o775)
    file = mine / "c.toml"
    file.touch()
    os.chown(file, -1, mine.stat().st_gid)
    file.chmod(0o664)
    (found,) = checks.of_config(Config(path=str(file)))
    assert (found.severity, "only its owner can change it" in found.what) == (Severity.OK, True)
    file.chmod(0o666)
    assert [each.severity for each in checks.of_config(Config(path=str(file)))] == [Severity.ERROR]


def entry(tag: int, rights: int, who: int = 0xFFFFFFFF) -> bytes:
    return struct.pack("<HHI", tag, rights, who)


def test_an_access_list_may_name_others_whatever_the_group_is(mine: Path) -> None:
    mine.chmod(0o770)
    assert not others_may(WRITE, mine.stat(), mine)
    named = entry(1, 7) + entry(2, 7, 20_001) + entry(4, 0) + entry(0x10, 7) + entry(0x20, 0)
    try:
        os.setxattr(
            mine, "system.posix_acl_access", struct.pack("<I", 2) + named
        )  # acl(5), as the kernel has it
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip("no access lists on this file system")
    assert mine.stat().st_mode & 0o777 == 0o770
    assert others_may(WRITE, mine.stat(), mine)
    handle = os.open(mine, os.O_RDONLY)
    assert others_may(WRITE, os.fstat(handle), handle)
    os.close(handle)
    with pytest.raises(StateRefused, match="others can change the state"):
        state(mine).__enter__()


@pytest.mark.parametrize(
    ("mode", "write", "anything"),
    [(0o700, False, False), (0o701, False, True), (0o702, True, True), (0o707, True, True)],
)
def test_rights_of_everybody_need_no_look_at_groups(
    tmp_path: Path, mode: int, *, write: bool, anything: bool
) -> None:
    tmp_path.chmod(mode)
    seen = tmp_path.stat()
    assert (others_may(WRITE, seen, tmp_path), others_may(ANY, seen, tmp_path)) == (write, anything)


@as_root
def test_a_user_or_a_group_that_nobody_knows_is_not_taken_for_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    for uid, gid in ((20_001, 0), (0, NOBODYS_GROUP)):
        os.chown(tmp_path, uid, gid)
        assert others_may(WRITE, tmp_path.stat(), tmp_path)


def test_all_users_and_groups_of_a_site_are_asked_for_only_where_it_turns_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory service may have very many of them, and be slow."""
    monkeypatch.setattr(grp, "getgrall", lambda: pytest.fail("all groups were asked for"))
    monkeypatch.setattr(pwd, "getpwall", lambda: pytest.fail("all users were asked for"))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: group("shared", gid))
    tmp_path.chmod(0o770)
    assert others_may(WRITE, tmp_path.stat(), tmp_path)
