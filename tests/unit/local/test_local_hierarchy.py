"""Finding cgroup hierarchies, and a place of ours in them."""

from __future__ import annotations

from pathlib import Path

from slaqd_local.hierarchy import UNIFIED, Hierarchy, Mount, parse_memberships, parse_mounts

APART = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime shared:9 master:1 - cgroup cgroup rw,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
TOGETHER = "33 31 0:30 /docker/x /sys/fs/cgroup/cpu\\040acct rw - cgroup cgroup rw,cpu,cpuacct\n"


def test_hierarchies_that_are_mounted_apart_are_found_apart() -> None:
    assert parse_mounts(APART) == [
        Mount(Path("/sys/fs/cgroup/cpu"), "/", frozenset({"rw", "cpu"})),
        Mount(Path("/sys/fs/cgroup/cpuacct"), "/", frozenset({"rw", "cpuacct"})),
        Mount(Path("/sys/fs/cgroup/unified"), "/", frozenset({UNIFIED})),
    ]


def test_a_joint_mount_below_a_root_of_its_own_is_understood() -> None:
    (mount,) = parse_mounts(TOGETHER)
    assert (mount.point, mount.root) == (Path("/sys/fs/cgroup/cpu acct"), "/docker/x")
    assert {"cpu", "cpuacct"} <= mount.controllers


def test_rubbish_is_no_mount() -> None:
    assert parse_mounts("\n - \n1 2 - cgroup\nx - cgroup cgroup rw,cpu\n") == []


def test_memberships_are_read_for_both_versions() -> None:
    text = "9:name=systemd:/init\n3:cpu,cpuacct:/a:b\n0::/user.slice/x\n"
    assert parse_memberships(text) == {
        "name=systemd": "/init",
        "cpu": "/a:b",
        "cpuacct": "/a:b",
        UNIFIED: "/user.slice/x",
    }


def test_a_group_is_found_below_the_root_of_its_mount(tmp_path: Path) -> None:
    tree = Hierarchy(Mount(tmp_path, "/docker/x", frozenset({"cpu"})), "cpu", "/docker/x/a/b")
    assert tree.directory("/docker/x/a/b") == tmp_path / "a/b"
    assert tree.chain("/docker/x/a/b") == [tmp_path, tmp_path / "a", tmp_path / "a/b"]


def test_no_group_leads_out_of_the_hierarchy(tmp_path: Path) -> None:
    tree = Hierarchy(Mount(tmp_path, "/", frozenset({"cpu"})), "cpu", "/")
    for group in ("/../../etc", "/a/../../etc", "elsewhere", ""):
        assert tree.directory(group) == tmp_path


def test_our_place_is_the_topmost_that_can_be_written(tmp_path: Path) -> None:
    tree = Hierarchy(Mount(tmp_path, "/", frozenset({"cpu"})), "cpu", "/user/mine/deep")
    (tmp_path / "user/mine/deep").mkdir(parents=True)
    assert tree.writable() is None
    for each in ("user/mine", "user/mine/deep"):
        (tmp_path / each / "cgroup.procs").touch()
    assert tree.writable() == tmp_path / "user/mine"
