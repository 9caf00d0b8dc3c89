"""The agent's hands on a folder that stands for the kernel, asked for one job of alice's."""

from __future__ import annotations

from typing import Any

from slaqd_local import Config
from slaqd_local.hands import LocalHands
from slaqd_local.requests import Hold
from standing_kernel import ALICE, Kernel

from slaqd.types import JobKey

LEAST_UID = 1000
JOB = (101, 7)


def named(kernel: Kernel, uid: int = ALICE) -> dict[str, Any]:
    means = "cgroup1" if "cpu" in kernel.mounts else "cgroup2"
    return {"means": means, "id": JOB[0], "start": JOB[1], "uid": uid}


def hands(**config: Any) -> LocalHands:
    return LocalHands(Config(**config), LEAST_UID)


def hold(kernel: Kernel, pids: tuple[int, ...], uid: int = ALICE, milli: int = 500) -> None:
    hands().do(Hold(**named(kernel, uid), pids=pids, milli=milli))


def origins(kernel: Kernel, **groups: str) -> dict[str, dict[str, str]]:
    return {
        controller: {pid.lstrip("p"): group for pid, group in groups.items()} for controller in kernel.mounts
    }


def where(kernel: Kernel, pid: int) -> set[str]:
    return {kernel.group(pid, controller) for controller in kernel.mounts}


OURS = {"/slaqd/job-101-7"}


def limit(kernel: Kernel, group: str) -> None:
    for controller, point in kernel.mounts.items():
        if controller != "cpuacct":
            name, text = ("cpu.max", "1000 100000") if not controller else ("cpu.cfs_quota_us", "1000")
            (point / group.lstrip("/") / name).write_text(text)


def milli(kernel: Kernel) -> int:
    means = LocalHands(Config(), LEAST_UID)._kind(named(kernel)["means"])
    seen = means.look(JobKey("local", str(JOB[0]), JOB[1]))
    assert seen is not None
    assert seen.milli is not None
    return seen.milli
