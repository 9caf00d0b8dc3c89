"""What a job's own processes can't do by where they stand or whose they are: keep it at its largest quota."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from slaqd_local import Config, processes
from slaqd_local.hands import LocalHands
from slaqd_local.hierarchy import Hierarchy
from slaqd_local.requests import Gather, GiveBack, Lift
from standing_hands import LEAST_UID, OURS, hands, hold, limit, milli, named, origins, where
from standing_kernel import ALICE, ALICES, BOB, Kernel


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path, request.param)
    with kernel.stands():
        yield kernel


def test_what_a_job_runs_as_another_user_keeps_it_from_no_change(kernel: Kernel) -> None:
    hold(kernel, ALICES)
    kernel.start(103, BOB, "/slaqd/job-101-7", name="newuidmap")
    hold(kernel, ALICES, milli=200)
    assert milli(kernel) == 200
    hands().do(Lift(**named(kernel)))
    with pytest.raises(PermissionError, match=r"is the group of a job of uid 20001, not of 20002"):
        hands().do(Lift(**named(kernel, BOB)))
    hands().do(GiveBack(**named(kernel), origins=origins(kernel, p="/alices/session")))
    assert [where(kernel, pid) for pid in (*ALICES, 103)] == [{"/alices/session"}] * 2 + [OURS]


def test_whose_a_marked_group_is_is_told_without_a_look_at_its_members(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(kernel, ALICES)
    monkeypatch.setattr(processes, "real_uid", lambda pid: pytest.fail(f"looked at {pid}"))
    hands().do(Lift(**named(kernel)))


def test_a_process_that_may_not_leave_its_group_stops_neither_quota_nor_the_others(kernel: Kernel) -> None:
    hold(kernel, (101,))
    limit(kernel, "/alices/session")
    kernel.start(103, ALICE, "/alices")
    hold(kernel, (*ALICES, 103), milli=200)
    assert milli(kernel) == 200
    assert [where(kernel, pid) for pid in (*ALICES, 103)] == [OURS, {"/alices/session"}, OURS]
    kernel.start(104, ALICE, "/alices")
    hands().do(Gather(**named(kernel), pids=(102, 104)))
    assert [where(kernel, pid) for pid in (102, 104)] == [{"/alices/session"}, OURS]


def test_a_strangers_process_among_those_that_joined_is_refused_and_the_quota_stands(kernel: Kernel) -> None:
    hold(kernel, (101,))
    with pytest.raises(PermissionError, match="process 201 belongs to uid"):
        hold(kernel, (*ALICES, 201), milli=200)
    assert milli(kernel) == 200
    assert [where(kernel, pid) for pid in (102, 201)] == [{"/alices/session"}, {"/bobs"}]


@pytest.mark.parametrize(
    ("name", "text", "limits"),
    [
        ("memory.max", "1048576", True),
        ("memory.max", "max", False),
        ("memory.swap.max", "0", True),
        ("memory.swap.max", "max", False),
        ("io.max", "8:16 rbps=2097152 wbps=max riops=max wiops=max", True),
        ("io.max", "", False),
        ("cpuset.cpus", "0", True),
        ("cpuset.cpus", "0-3", False),
        ("cpuset.cpus", "", False),
    ],
)
def test_each_limit_that_moving_would_undo_keeps_a_process_where_it_is(
    tmp_path: Path, name: str, text: str, *, limits: bool
) -> None:
    kernel = Kernel(tmp_path, 2)
    (kernel.mounts[""] / "cpuset.cpus.effective").write_text("0-3\n")
    (kernel.mounts[""] / "alices" / name).write_text(f"{text}\n")
    with kernel.stands():
        why = LocalHands(Config(), LEAST_UID)._kind("cgroup2").bars(ALICES)
    assert why == (f"it has a limit of its own, {kernel.mounts['']}/alices/{name}" if limits else None)


def test_a_job_may_have_no_more_processes_than_where_it_came_from(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, 2)
    root = kernel.mounts[""]
    for group, most in (("alices", "512"), ("alices/session", "1024"), ("bobs", "8")):
        (root / group / "pids.max").write_text(f"{most}\n")
    with kernel.stands():
        hold(kernel, ALICES)
        assert (root / "slaqd/job-101-7/pids.max").read_text() == "512"
        (root / "alices/pids.max").write_text("8\n")
        hold(kernel, ALICES, milli=200)
        hands().do(Lift(**named(kernel)))
        hold(kernel, ALICES)
    assert (root / "slaqd/job-101-7/pids.max").read_text() == "512", "as when it came"


@pytest.mark.parametrize("controllers", ["cpu", "cpu pids"])
def test_where_nothing_counts_processes_a_job_is_held_all_the_same(tmp_path: Path, controllers: str) -> None:
    kernel = Kernel(tmp_path, 2)
    root = kernel.mounts[""]
    (root / "cgroup.controllers").write_text(controllers)
    (root / "alices/pids.max").unlink()
    with kernel.stands():
        hold(kernel, ALICES)
    assert (root / "cgroup.subtree_control").read_text() == " ".join(
        f"+{each}" for each in controllers.split()
    )
    assert (root / "slaqd/job-101-7/pids.max").read_text() == "max"


def test_a_process_whose_group_can_not_be_read_stays_and_is_named(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(kernel, (101,))
    really = Hierarchy.group_of

    def unread(tree: Hierarchy, pid: int) -> str:
        if pid == 102:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return really(tree, pid)

    monkeypatch.setattr(Hierarchy, "group_of", unread)
    kernel.start(103, ALICE, "/alices")
    hold(kernel, (*ALICES, 103), milli=200)
    assert (milli(kernel), where(kernel, 103)) == (200, OURS)
    escapes = LocalHands(Config(), LEAST_UID)._kind(named(kernel)["means"]).escapes((102,))
    assert escapes == "process 102 stays outside its quota: its group can't be read: File name too long"
