"""How files are reached: with and without openat2(2), and what tells that a log has grown."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_world import ALICE, GIDS, Trees, own, rows, source
from hostile import CASES, Case, sources

from slaqd.agent import files
from slaqd.agent.files import OwnersReader, open_below
from slaqd.agent.growth import signature
from slaqd.agent.protocol import Source
from slaqd.errors import SourceRefused
from slaqd.types import Health

CONTENT = {Health.EMPTY, Health.UNKNOWN_FORMAT, Health.DIVERGED, Health.AMBIGUOUS}


@pytest.fixture
def trees() -> Iterator[Trees]:
    """Give trees below a directory that everybody may pass; pytest's own are root's alone."""
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        yield Trees(Path(top) / "trees")


def is_of_a_place(case: Case) -> bool:
    """Tell whether a case is about how the file is reached, and not a pattern."""
    odd = ("pattern", "10 GB", "4,096 bytes")  # step by step, no path is too long
    return case.health not in CONTENT and not any(word in case.name for word in odd)


def verdict(asked: Source) -> str:
    try:
        return f"{OwnersReader(ALICE, asked.root).stat(asked.path).size} bytes"
    except SourceRefused as error:
        return f"{type(error).__name__}: {error}"


def as_alice(asked: dict[str, Source]) -> tuple[dict[str, str], dict[str, str]]:
    """Reach all of them in a process of hers, with openat2 and without it."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.setgroups([GIDS[ALICE]])
        os.setresgid(*(GIDS[ALICE],) * 3)
        os.setresuid(*(ALICE,) * 3)
        new = {name: verdict(each) for name, each in asked.items()}
        files._openat2 = files._walk
        old = {name: verdict(each) for name, each in asked.items()}
        with os.fdopen(write, "wb") as out:
            pickle.dump((new, old), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        found: tuple[dict[str, str], dict[str, str]] = pickle.load(told)  # noqa: S301 - of our own fork
    os.waitpid(pid, 0)
    return found


def test_kernels_without_openat2_give_the_same_verdicts(trees: Trees) -> None:
    new, old = as_alice(sources(trees, is_of_a_place))
    assert len(new) >= 50
    assert new == old
    assert sum(said.endswith("bytes") for said in new.values()) >= 10
    assert {case.name for case in CASES if is_of_a_place(case)} == set(new)


def test_ones_own_file_is_read_from_an_offset(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"0123456789")
    for root in (tmp_path, "/", "/elsewhere", ""):
        reader = OwnersReader(os.geteuid(), str(root))
        assert reader.read(str(log), 3, 4) == b"3456"
        assert reader.stat(str(log)).size == 10
    with pytest.raises(SourceRefused, match="belongs to uid"):
        OwnersReader(os.geteuid() + 1, "/").read(str(log), 0, 1)


def test_nothing_stays_open(trees: Trees) -> None:
    asked = sources(trees, is_of_a_place)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts, names no path
    for each in asked.values():
        verdict(each)
    for each in asked.values():
        try:
            top, rest = files._parted(each.root, each.path)
            start = os.open(top, os.O_PATH)
        except (OSError, ValueError):
            continue
        try:
            os.close(files._walk(start, rest, os.O_RDONLY | files._HOW))
        except (OSError, ValueError):
            pass
        finally:
            os.close(start)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above


def test_a_kernel_without_openat2_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("x")
    monkeypatch.setattr(files, "_OPENAT2", 100_000)
    os.close(open_below(str(tmp_path), str(log), os.O_RDONLY))
    (tmp_path / "link").symlink_to(log)
    with pytest.raises(OSError, match="symbolic"):
        open_below(str(tmp_path), str(tmp_path / "link"), os.O_RDONLY | files._HOW)


def test_a_log_that_grew_was_replaced_or_got_other_rights_looks_different(tmp_path: Path) -> None:
    log = tmp_path / "log"
    asked = source(log)
    seen = [signature(asked)]
    log.write_text(rows(1))
    seen.append(signature(asked))
    log.write_text(rows(2))
    seen.append(signature(asked))
    own(log, os.geteuid(), 0o600)
    seen.append(signature(asked))
    (tmp_path / "new").write_text(rows(2))
    (tmp_path / "new").rename(log)
    seen.append(signature(asked))
    assert None not in seen
    assert len(set(seen)) == 5
    assert signature(asked) == seen[-1]


def test_patterns_and_what_is_refused_are_left_to_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FUSE file system of the user's own says EACCES to all others."""
    assert signature(source(tmp_path / "*.log")) is None
    assert signature(source(tmp_path / "*.log"), str(tmp_path / "*.log")) is None

    def refuses(*_args: object, **_more: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(os, "stat", refuses)
    assert signature(source(tmp_path / "log")) is None


@pytest.mark.parametrize("path", ["/a\0b", "/\udcff", "/" + "x" * 5000, "", "/nowhere/log"])
def test_names_of_any_kind_have_a_signature(path: str) -> None:
    seen = signature(source(path))
    assert seen is not None
    assert seen.error
