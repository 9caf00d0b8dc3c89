"""A group that was delegated to us: its own processes step down before its CPU is divided."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from slaqd_local import groups
from slaqd_local.cgroup2 import Cgroup2
from standing_kernel import ALICE, Kernel

from slaqd.types import JobKey

KEY = JobKey("local", "301", 7)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path, 2)
    (kernel.mounts[""] / "cgroup.type").write_text("domain\n")
    with kernel.stands():
        yield kernel


def forking(kernel: Kernel, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Let processes in the group fork while it is emptied; the kernel divides no group that isn't empty."""
    really, forked = groups.write, list[int]()

    def write(path: Path, text: str) -> None:
        if path == kernel.mounts[""] / "cgroup.subtree_control" and groups.members(path.parent):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        really(path, text)
        if path.name == "cgroup.procs" and len(forked) < times:
            forked.append(302 + len(forked))
            kernel.start(forked[-1], ALICE, "/")

    monkeypatch.setattr(groups, "write", write)
    return forked


@pytest.mark.parametrize("forks", [0, 1, groups.ROUNDS])
def test_processes_that_are_forked_while_their_group_is_emptied_step_down_too(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, forks: int
) -> None:
    kernel.start(301, ALICE, "/")
    forked = forking(kernel, monkeypatch, forks)
    Cgroup2("slaqd", 100_000).hold(KEY, [301], 500)
    assert [kernel.group(pid, "") for pid in forked] == ["/slaqd-main"] * forks
    assert kernel.group(301, "") == "/slaqd/job-301-7"
    assert groups.members(kernel.mounts[""]) == []


def test_where_they_never_end_the_job_is_not_held_and_the_reason_is_the_kernels(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.start(301, ALICE, "/")
    forking(kernel, monkeypatch, 1000)
    with pytest.raises(OSError, match="busy"):
        Cgroup2("slaqd", 100_000).hold(KEY, [301], 500)
    assert not (kernel.mounts[""] / "slaqd/job-301-7").exists()
