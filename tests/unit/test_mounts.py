"""What is mounted where: read as the kernel writes it, whatever users name their mount points."""

from __future__ import annotations

from pathlib import Path

import pytest

from slaqd import mounts
from slaqd.mounts import Mount, over, parse, read

HERE = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
29 27 0:30 /sub /var/lib rw shared:5 - xfs /dev/vdb rw
30 27 0:31 / /home rw shared:7 master:2 - nfs4 server:/export rw,vers=4.2
31 30 0:32 / /home/big rw - ext4 /dev/sda1 rw
"""
ROOT, LIB, HOME, BIG = parse(HERE)


def test_a_mount_has_its_place_its_root_its_type_and_its_options() -> None:
    assert Mount("/", "/", "ext4", "rw,discard") == ROOT
    assert Mount("/var/lib", "/sub", "xfs", "rw") == LIB
    assert Mount("/home", "/", "nfs4", "rw,vers=4.2") == HOME


@pytest.mark.parametrize("optional", ["", "shared:1 ", "shared:7 master:2 propagate_from:1 "])
def test_any_number_of_optional_fields_is_passed_over(optional: str) -> None:
    (mount,) = parse(f"30 27 0:31 / /home rw {optional}- nfs4 server:/export rw\n")
    assert (mount.point, mount.kind) == ("/home", "nfs4")


def test_what_the_kernel_escapes_is_read_back() -> None:
    (mount,) = parse("40 27 0:50 /a\\040b /mnt/my\\040disk\\011\\012\\134\\043x rw - cifs //server rw\n")
    assert (mount.root, mount.point) == ("/a b", "/mnt/my disk\t\n\\#x")


def test_a_source_without_a_name_moves_no_other_field() -> None:
    (mount,) = parse("40 27 0:50 / /cg rw - cgroup  rw,cpu\n")
    assert (mount.kind, mount.options) == ("cgroup", "rw,cpu")


def test_lines_that_are_no_mounts_are_passed_over() -> None:
    assert parse("rubbish\n\n5 - \n33 22\n - \n1 2 - cgroup\nx - cgroup cgroup rw,cpu\n") == []
    assert parse("1 1 0:1 / /cut rw - ext4 /dev/vda\n") == []
    assert parse("") == []


@pytest.mark.parametrize("sign", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u00a0", "\udcff"])
def test_any_sign_may_stand_in_the_name_of_a_mount_point(tmp_path: Path, sign: str) -> None:
    line = f"40 27 0:50 / /home/eve/x{sign}y rw - fuse.sshfs eve@host: rw\n"
    file = tmp_path / "mountinfo"
    file.write_bytes((HERE + line).encode(errors="surrogateescape"))
    assert read(file) == [ROOT, LIB, HOME, BIG, Mount(f"/home/eve/x{sign}y", "/", "fuse.sshfs", "rw")]


def test_this_processs_own_mounts_are_read_where_no_other_file_is_named() -> None:
    mount = over("/proc/self/mountinfo", read())
    assert mount is not None
    assert (mount.point, mount.kind) == ("/proc", "proc")
    assert read() == read(mounts.OWN)


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/home/ada/log", HOME),
        ("/home", HOME),
        ("/homes/ada", ROOT),
        ("/home/big/log", BIG),
        ("/home/bigger/log", HOME),
        ("/", ROOT),
    ],
)
def test_a_path_lies_on_the_innermost_mount_over_it(path: str, mount: Mount) -> None:
    assert over(path, [ROOT, LIB, HOME, BIG]) == mount
    assert over(path, [BIG, HOME, LIB, ROOT]) == mount


def test_of_mounts_on_one_point_the_last_covers_the_others() -> None:
    later = HOME._replace(kind="tmpfs")
    assert over("/home/ada", [ROOT, HOME, later, BIG]) == later
    assert over("/home/ada", [ROOT, later, HOME, BIG]) == HOME


def test_a_path_that_no_mount_covers_has_none() -> None:
    assert over("/var/x", [HOME]) is None
    assert over("/var/x", []) is None
