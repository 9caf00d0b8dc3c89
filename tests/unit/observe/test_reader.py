"""What a reader refuses, and in which words."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from slaqd.errors import SourceRefused
from slaqd.observe import DirectReader, SourceMissing

READER = DirectReader()


def test_it_reads_from_an_offset(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"0123456789")
    assert READER.read(str(log), 3, 4) == b"3456"
    assert READER.read(str(log), 8, 4) == b"89"
    assert READER.stat(str(log)).size == 10


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceMissing, match="not there yet"):
        READER.stat(str(tmp_path / "none"))


def test_a_directory_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match=f"{tmp_path}: is a directory"):
        READER.read(str(tmp_path), 0, 1)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SourceRefused, match="is not a regular file"):
        READER.stat(str(pipe))


def test_a_socket_and_a_device_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(SourceRefused, match="is not a regular file"):
            READER.stat(str(tmp_path / "socket"))
    with pytest.raises(SourceRefused, match="is not a regular file"):
        READER.stat("/dev/null")


def test_a_circle_of_links_and_a_file_as_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(SourceRefused, match="lead in a circle"):
        READER.stat(str(tmp_path / "a"))
    (tmp_path / "file").touch()
    with pytest.raises(SourceRefused, match="no directory"):
        READER.stat(str(tmp_path / "file" / "log"))


def test_a_name_with_a_nul_is_refused() -> None:
    with pytest.raises(SourceRefused, match="not a possible file name"):
        READER.stat("/tmp/a\0b")  # noqa: S108 - never opened


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ESTALE, SourceMissing, "not there yet"),
        (errno.EACCES, SourceRefused, "permission denied"),
        (errno.EIO, SourceRefused, "Input/output error"),
        (errno.ETIMEDOUT, SourceRefused, "timed out"),
    ],
)
def test_errors_of_network_file_systems_are_put_into_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[SourceRefused], words: str
) -> None:
    """Root may read everything here, and no NFS is at hand: the system's answer is put in."""

    def fails(*_args: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(SourceRefused, match=words) as caught:
        READER.stat(str(tmp_path / "log"))
    assert type(caught.value) is kind


def test_a_failing_read_is_refused_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.touch()
    opened = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts, names no path

    def fails(*_args: object) -> bytes:
        raise OSError(errno.ESTALE, "stale")

    monkeypatch.setattr(os, "pread", fails)
    with pytest.raises(SourceMissing):
        READER.read(str(log), 0, 1)
    assert len(os.listdir("/proc/self/fd")) == opened  # noqa: PTH208 - as above
