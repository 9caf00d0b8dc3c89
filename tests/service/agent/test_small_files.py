"""Small files between slaqd and a job: whole or not at all, where their user may write, and nowhere else."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_world import ALICE, BOB, GIDS, AgentProcess, Trees, mount, status
from living import PATIENCE_S, wait_for

from slaqd.agent.files import MOST

pytestmark = pytest.mark.service

OLD, NEW = b'{"units": 1}\n', b'{"units": 2}\n'
NAME = "target.json"


@pytest.fixture
def home(trees: Trees) -> Path:
    return trees.folder(trees.alice / "home", mode=0o700)


def put(agent: AgentProcess, path: Path, text: bytes = NEW, uid: int = ALICE, root: str = "/") -> None:
    agent.client.put(uid, root, str(path), text)


def refusal(agent: AgentProcess, path: Path, uid: int = ALICE, root: str = "/") -> OSError:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is looked at
        put(agent, path, NEW, uid, root)
    return caught.value


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_file_is_written_as_its_user_into_a_private_home_and_read_again(
    agent: AgentProcess, home: Path
) -> None:
    for text in (OLD, NEW, b"", b"x" * MOST):
        put(agent, home / NAME, text)
        assert (home / NAME).read_bytes() == text
        assert agent.client.get(ALICE, str(home), str(home / NAME)) == text
    seen = (home / NAME).stat()
    assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (ALICE, GIDS[ALICE], 0o644)
    assert names(home) == [NAME]


def test_a_file_that_is_not_there_is_none(agent: AgentProcess, home: Path) -> None:
    assert agent.client.get(ALICE, str(home), str(home / "ack.json")) is None


def test_through_a_directory_that_is_a_link_nothing_is_written(
    agent: AgentProcess, trees: Trees, home: Path
) -> None:
    real = trees.folder(home / "real")
    link = trees.link(home / "link", real)
    assert refusal(agent, link / NAME, root=str(home)).errno in {errno.ELOOP, errno.ENOTDIR}
    assert names(real) == []


def test_a_link_is_replaced_and_what_it_leads_to_stays(agent: AgentProcess, trees: Trees, home: Path) -> None:
    other = trees.file(trees.bob / "other", OLD, BOB, 0o666)
    trees.link(home / NAME, other)
    trees.link(home / f".{NAME}.slaqd", other)
    put(agent, home / NAME)
    assert not (home / NAME).is_symlink()
    assert (home / NAME).read_bytes() == NEW
    assert other.read_bytes() == OLD
    assert names(home) == [NAME]


def test_a_directory_of_that_name_stays_and_nothing_is_left_beside_it(
    agent: AgentProcess, trees: Trees, home: Path
) -> None:
    trees.folder(home / NAME)
    assert refusal(agent, home / NAME).errno == errno.EISDIR
    assert names(home) == [NAME]
    trees.folder(home / f".{NAME}.slaqd")
    assert refusal(agent, home / NAME).errno in {errno.EISDIR, errno.EPERM}
    assert names(home) == [f".{NAME}.slaqd", NAME]


def test_what_a_killed_one_left_behind_is_replaced(agent: AgentProcess, trees: Trees, home: Path) -> None:
    trees.file(home / f".{NAME}.slaqd", OLD)
    put(agent, home / NAME)
    assert (home / NAME).read_bytes() == NEW
    assert names(home) == [NAME]


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_nothing_is_written_into_anothers_directory(agent: AgentProcess, trees: Trees, mode: int) -> None:
    trees.bob.chmod(mode)
    refused = refusal(agent, trees.bob / NAME)
    assert refused.errno == errno.EPERM
    assert f"belongs to uid {BOB}" in str(refused)
    assert names(trees.bob) == []


def test_what_is_no_plain_file_of_ones_own_is_not_read(agent: AgentProcess, trees: Trees, home: Path) -> None:
    secret = trees.file(trees.bob / NAME, uid=BOB)
    os.mkfifo(trees.folder(home / "pipe") / NAME)
    trees.link(trees.folder(home / "link") / NAME, secret)
    (trees.folder(home / "name") / NAME).hardlink_to(secret)
    found = []
    for path in (secret, *(home / each / NAME for each in ("pipe", "link", "name"))):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its words are looked at
            agent.client.get(ALICE, str(home), str(path))
        found.append(str(caught.value))
    words = ("belongs to uid", "is not a regular file", "symbolic links", "belongs to uid")
    assert [word in told for word, told in zip(words, found, strict=True)] == [True] * 4


@pytest.mark.parametrize("name", [".bashrc", "id_rsa", "..", ".", "", "target.json\n", "\udcff", "a\0b"])
def test_no_other_file_is_written_or_read(agent: AgentProcess, home: Path, name: str) -> None:
    for ask in (
        lambda: agent.client.put(ALICE, str(home), f"{home}/{name}", NEW),
        lambda: agent.client.get(ALICE, str(home), f"{home}/{name}"),
    ):
        with pytest.raises(OSError):  # noqa: PT011 - which of them says no depends on the name
            ask()
    assert names(home) == []


@pytest.mark.parametrize("uid", [0, 1, ALICE - 1])
def test_nothing_is_written_as_root_or_the_systems_own(agent: AgentProcess, trees: Trees, uid: int) -> None:
    assert refusal(agent, trees.root / NAME, uid).errno == errno.EPERM
    assert names(trees.root) == []


def test_a_file_that_is_too_large_is_not_begun(agent: AgentProcess, home: Path) -> None:
    with pytest.raises(OSError, match="more than"):
        put(agent, home / NAME, b"x" * (MOST + 1))
    assert names(home) == []


@pytest.fixture
def disk(trees: Trees) -> Iterator[Path]:
    """Mount a disk of 128 KiB for Alice."""
    at = trees.folder(trees.alice / "disk")
    mount("-t", "tmpfs", "-o", f"size=128k,uid={ALICE},gid={GIDS[ALICE]},mode=700", "slaqdtest", str(at))
    yield at
    subprocess.run(["umount", "--lazy", str(at)], check=True)


@pytest.mark.fault
def test_on_a_full_disk_the_old_file_stays_whole(agent: AgentProcess, trees: Trees, disk: Path) -> None:
    put(agent, disk / NAME, OLD)
    filler = trees.file(disk / "filler", b"x" * 100 * 1024)
    large = b"y" * 60 * 1024
    with pytest.raises(OSError, match="No space") as caught:
        put(agent, disk / NAME, large)
    assert caught.value.errno == errno.ENOSPC
    assert (disk / NAME).read_bytes() == OLD
    assert names(disk) == ["filler", NAME]
    filler.unlink()
    put(agent, disk / NAME, large)
    assert (disk / NAME).read_bytes() == large


@pytest.mark.fault
@pytest.mark.parametrize(
    ("what", "after"),
    [
        ("renameat:signal=KILL", OLD),
        ("fsync:signal=KILL:when=2", NEW),
        pytest.param("fsync:signal=KILL:when=1", OLD, marks=pytest.mark.soak),
        pytest.param("write:signal=KILL", OLD, marks=pytest.mark.soak),
    ],
)
def test_killed_at_any_step_the_file_is_the_old_one_or_the_new_one(
    agent: AgentProcess, home: Path, what: str, after: bytes
) -> None:
    put(agent, home / NAME, OLD)
    call, pid = what.partition(":")[0], agent.forker
    if call == "write":
        what = f"{what}:when=1+"
    words = ["strace", "-f", "-p", str(pid), "-e", f"trace={call}", "-e", f"inject={what}"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as tracer:
        wait_for(lambda: status(pid, "TracerPid") == str(tracer.pid), lambda: "strace holds it")
        assert "died" in str(refusal(agent, home / NAME))
        tracer.send_signal(signal.SIGINT)
        tracer.wait(PATIENCE_S)
    assert (home / NAME).read_bytes() == after
    put(agent, home / NAME, OLD)
    assert (home / NAME).read_bytes() == OLD
    assert names(home) == [NAME]
