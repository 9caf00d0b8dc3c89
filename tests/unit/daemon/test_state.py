"""The state directory: refused where locks don't hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slaqd import mounts
from slaqd.daemon.state import network_file_system, refuse_network, state
from slaqd.errors import AlreadyRunning, StateError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")

LOCAL = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 0:25 / /tmp rw,nosuid - tmpfs tmpfs rw,size=4k
29 27 0:30 / /var/lib rw shared:5 - xfs /dev/vdb rw
"""


def network(path: str, text: str) -> str | None:
    return network_file_system(path, mounts.parse(text))


def mounted(point: str, kind: str) -> str:
    return f"{LOCAL}40 27 0:50 / {point} rw,relatime shared:7 master:2 - {kind} server:/export rw,vers=4.2\n"


@pytest.mark.parametrize(
    "kind",
    [
        "nfs", "nfs4", "lustre", "cifs", "smb3", "fuse.sshfs", "gpfs", "beegfs", "9p", "ceph",
        "fuse.glusterfs", "virtiofs", "afs", "fuse.juicefs", "fuse.rclone", "pvfs2", "panfs", "wekafs",
        "fuse.ceph-fuse", "gfs2",
    ],
)  # fmt: skip
def test_a_network_file_system_is_known_by_its_type(kind: str) -> None:
    assert network("/home/ada/.local/state/slaqd", mounted("/home", kind)) == kind
    assert network("/homes/ada", mounted("/home", kind)) is None
    assert network("/var/lib/slaqd", mounted("/home", kind)) is None


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.fuse-overlayfs", "fuse.bindfs", "f2fs"]
)
def test_a_local_file_system_is_none(kind: str) -> None:
    assert network("/home/ada/state", mounted("/home", kind)) is None


def test_the_innermost_mount_decides() -> None:
    text = mounted("/home", "nfs4") + "41 40 8:1 / /home/ada/scratch rw - ext4 /dev/sda1 rw\n"
    assert network("/home/ada/scratch/state", text) is None
    assert network("/home/ada/scratch2/state", text) == "nfs4"


def test_a_root_on_the_network_counts_and_where_nothing_is_mounted_nothing_is_said() -> None:
    text = "1 0 0:9 / / rw - nfs4 server:/root rw\n7 1 0:4 / /run rw - tmpfs tmpfs rw\n"
    assert network("/var/lib/slaqd", text) == "nfs4"
    assert network("/run/slaqd", text) is None
    assert network("/var/lib/slaqd", "") is None


def test_a_state_on_the_network_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "mountinfo"
    written.write_text(
        LOCAL + f"40 27 0:50 / {tmp_path.resolve()} rw - nfs4 server:/x rw\n", encoding="utf-8"
    )
    monkeypatch.setattr(mounts, "OWN", written)
    with (
        pytest.raises(
            StateError, match=r"network file system \(nfs4\); name a directory on a disk of this machine"
        ),
        state(tmp_path / "a" / "state"),
    ):
        pass
    assert not (tmp_path / "a").exists()
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    with pytest.raises(StateError, match="nfs4"):
        refuse_network(link / "state")
    link.unlink()


def test_a_state_here_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with state(tmp_path / "state"):
        with (
            pytest.raises(AlreadyRunning, match=r"held by another slaqd \(pid \d+\)"),
            state(tmp_path / "state"),
        ):
            pass
        assert (tmp_path / "state" / "lock").exists()
    with state(tmp_path / "state"):
        pass


def refusal(directory: Path, *, left: bool = False) -> str:
    with pytest.raises(StateError) as caught, state(directory, left=left):
        pass
    return str(caught.value)


@pytest.mark.parametrize("to", ["victim", "nothing"])
def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path, to: str) -> None:
    (tmp_path / "victim").write_text("my thesis", encoding="utf-8")
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "lock").symlink_to(tmp_path / to)
    assert "lock: no file; move it away" in refusal(folder)
    assert (tmp_path / "victim").read_text(encoding="utf-8") == "my thesis"
    assert not (tmp_path / "nothing").exists()


def test_a_pipe_in_the_place_of_the_lock_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    assert "lock: no file; move it away" in refusal(tmp_path)


def of_another_group(directory: Path) -> None:
    if os.geteuid() == 0:  # anybody else's directories are of a group of hers, which may be hers alone
        os.chown(directory, -1, 20_001)


@pytest.mark.parametrize("mode", [pytest.param(0o720, marks=as_root), 0o702, 0o777, 0o1777])
@pytest.mark.parametrize("left", [True, False])
def test_a_state_that_others_can_change_is_refused_with_what_to_do(
    tmp_path: Path, mode: int, *, left: bool
) -> None:
    of_another_group(tmp_path)
    tmp_path.chmod(mode)
    assert f"(mode {mode:04o}); chmod go-w {tmp_path}; or name another directory" in refusal(
        tmp_path, left=left
    )
    assert list(tmp_path.iterdir()) == []


@as_root
def test_a_state_of_another_user_is_refused_but_root_mends_what_her_daemon_left(tmp_path: Path) -> None:
    os.chown(tmp_path, 20_001, -1)
    assert "the state belongs to uid 20001, and this slaqd runs as uid 0; run it as" in refusal(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with state(tmp_path, left=True):
        assert (tmp_path / "lock").exists()
