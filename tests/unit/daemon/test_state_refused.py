"""A state directory that can't be used: with 78 what waits for somebody, with 74 what may pass."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from slaqd import mounts
from slaqd.daemon import state as room
from slaqd.daemon.command import status_of
from slaqd.daemon.state import state
from slaqd.errors import StateError

LASTING, PASSING = 78, 74


def ends_with(directory: Path) -> int:
    with pytest.raises(StateError) as caught, state(directory):
        pass
    assert str(caught.value).startswith(f"{directory}")
    return status_of(caught.value)


def a_lock_that_is_a_link(folder: Path) -> None:
    (folder / "lock").symlink_to(folder / "nothing")


def a_lock_that_is_a_directory(folder: Path) -> None:
    (folder / "lock").mkdir()


def a_lock_that_is_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "lock")


def a_lock_that_is_a_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock, contextlib.chdir(folder):  # its path may be too long for one
        sock.bind("lock")


def open_to_others(folder: Path) -> None:
    folder.chmod(0o702)


def of_another_user(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("gives a directory away")
    os.chown(folder, 20_001, -1)


def a_file(folder: Path) -> None:
    folder.rmdir()
    folder.touch()


def a_link_to_itself(folder: Path) -> None:
    folder.rmdir()
    folder.symlink_to(folder)


@pytest.mark.parametrize(
    "spoil",
    [
        a_lock_that_is_a_link, a_lock_that_is_a_directory, a_lock_that_is_a_pipe, a_lock_that_is_a_socket,
        open_to_others, of_another_user, a_file, a_link_to_itself,
    ],
)  # fmt: skip
def test_what_stays_until_somebody_changes_it_ends_slaqd_for_good(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    spoil(folder)
    assert ends_with(folder) == LASTING


@pytest.mark.parametrize("name", ["file/state", "x" * 300, "with\0nul"])
def test_a_name_that_can_be_no_directory_ends_slaqd_for_good(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert ends_with(tmp_path / name) == LASTING


def test_a_network_file_system_ends_slaqd_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "mountinfo"
    info.write_text(f"40 27 0:50 / {tmp_path.resolve()} rw - nfs4 server:/x rw\n", encoding="utf-8")
    monkeypatch.setattr(mounts, "OWN", info)
    assert ends_with(tmp_path / "state") == LASTING


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_rights_that_are_missing_end_slaqd_for_good(tmp_path: Path, number: int) -> None:
    error = room._unusable(tmp_path, OSError(number, os.strerror(number)))
    assert status_of(error) == LASTING
    assert str(error).endswith("; mend that; or name another directory as state_dir in [slaqd]")


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ENOENT, errno.ESTALE]
)
def test_what_may_pass_has_slaqd_tried_again(tmp_path: Path, number: int) -> None:
    assert status_of(room._unusable(tmp_path, OSError(number, os.strerror(number)))) == PASSING


def test_a_link_in_the_place_of_the_lock_is_named(tmp_path: Path) -> None:
    a_lock_that_is_a_link(tmp_path)
    with pytest.raises(StateError, match="lock: no file; move it away"):
        state(tmp_path).__enter__()


def test_a_link_to_a_disk_that_is_not_mounted_yet_has_slaqd_tried_again(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path / "disk" / "state")
    assert ends_with(tmp_path / "state") == PASSING


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_place_that_a_disk_may_be_mounted_on_later_has_slaqd_tried_again(
    tmp_path: Path, number: int
) -> None:
    error = OSError(number, os.strerror(number))
    assert status_of(room._unusable(tmp_path / "disk" / "state", error)) == PASSING
