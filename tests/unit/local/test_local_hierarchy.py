"""Finding cgroup hierarchies, and a place of ours in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slaqd_local import groups, hierarchy
from slaqd_local.hierarchy import UNIFIED, CgroupMount, Hierarchy, of_cgroups, parse_memberships

from slaqd import mounts

APART = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime shared:9 master:1 - cgroup cgroup rw,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
TOGETHER = "33 31 0:30 /docker/x /sys/fs/cgroup/cpu\\040acct rw - cgroup cgroup rw,cpu,cpuacct\n"


def test_hierarchies_that_are_mounted_apart_are_found_apart() -> None:
    assert of_cgroups(mounts.parse(APART)) == [
        CgroupMount(Path("/sys/fs/cgroup/cpu"), "/", frozenset({"rw", "cpu"})),
        CgroupMount(Path("/sys/fs/cgroup/cpuacct"), "/", frozenset({"rw", "cpuacct"})),
        CgroupMount(Path("/sys/fs/cgroup/unified"), "/", frozenset({UNIFIED})),
    ]


def test_a_joint_mount_below_a_root_of_its_own_is_understood() -> None:
    (mount,) = of_cgroups(mounts.parse(TOGETHER))
    assert (mount.point, mount.root) == (Path("/sys/fs/cgroup/cpu acct"), "/docker/x")
    assert {"cpu", "cpuacct"} <= mount.controllers


def test_memberships_are_read_for_both_versions() -> None:
    text = "9:name=systemd:/init\n3:cpu,cpuacct:/a:b\n0::/user.slice/x\n"
    assert parse_memberships(text) == {
        "name=systemd": "/init",
        "cpu": "/a:b",
        "cpuacct": "/a:b",
        UNIFIED: "/user.slice/x",
    }


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_groups_name_cant_pass_for_another_membership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    group = f"/user/mine{end}3:cpu:/"
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_bytes(f"3:cpu:{group}\n".encode())
    monkeypatch.setattr(hierarchy, "PROC", tmp_path)
    tree = Hierarchy(CgroupMount(tmp_path, "/", frozenset({"cpu"})), "cpu", "/")
    assert tree.group_of(7) == group


def test_in_a_shared_hierarchy_our_place_is_the_top_for_everybody() -> None:
    mounted = [name for name in (UNIFIED, "cpu") if hierarchy.find(name) is not None]
    for name in mounted:
        tree = hierarchy.find(name, shared=True)
        assert tree is not None
        assert tree.writable() == tree.mount.point


def test_the_right_to_make_groups_is_taken_for_a_moment_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).stat().st_mode & 0o200 and mode)
    top, job = tmp_path / "top", tmp_path / "top/slaqd/job"
    top.mkdir(mode=0o555)
    groups.make(job.parent)
    groups.make(job)
    assert [each.stat().st_mode & 0o777 for each in (top, job.parent, job)] == [0o555, 0o755, 0o755]
    groups.remove(job)
    assert list(top.iterdir()) == []
    assert top.stat().st_mode & 0o777 == 0o555


def test_a_group_is_found_below_the_root_of_its_mount(tmp_path: Path) -> None:
    tree = Hierarchy(CgroupMount(tmp_path, "/docker/x", frozenset({"cpu"})), "cpu", "/docker/x/a/b")
    assert tree.directory("/docker/x/a/b") == tmp_path / "a/b"
    assert tree.chain("/docker/x/a/b") == [tmp_path, tmp_path / "a", tmp_path / "a/b"]


def test_no_group_leads_out_of_the_hierarchy(tmp_path: Path) -> None:
    tree = Hierarchy(CgroupMount(tmp_path, "/", frozenset({"cpu"})), "cpu", "/")
    for group in ("/../../etc", "/a/../../etc", "elsewhere", ""):
        assert tree.directory(group) == tmp_path


def test_our_place_is_the_topmost_that_can_be_written(tmp_path: Path) -> None:
    tree = Hierarchy(CgroupMount(tmp_path, "/", frozenset({"cpu"})), "cpu", "/user/mine/deep")
    (tmp_path / "user/mine/deep").mkdir(parents=True)
    assert tree.writable() is None
    for each in ("user/mine", "user/mine/deep"):
        (tmp_path / each / "cgroup.procs").touch()
    assert tree.writable() == tmp_path / "user/mine"
