"""A folder that stands for ``/proc`` and the cgroup hierarchies, for the tests of what may be written there.

Only what the hands see and do is there: control files that keep what is written to
them, ``cgroup.procs`` that moves, and groups that can be removed once they are empty.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from slaqd_local import groups, guard, hierarchy, processes

ROOT, SYSTEM, ALICE, BOB = 0, 5, 20001, 20002
ALICES, BOBS, ROOTS, SYSTEMS = (101, 102), (201, 202), (50, 51), (60,)
USERS = {ROOT: ROOTS, SYSTEM: SYSTEMS, ALICE: ALICES, BOB: BOBS}
HOME = {ROOT: "/system", SYSTEM: "/system", ALICE: "/alices/session", BOB: "/bobs"}

_FILES = {
    "cpu": {
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_burst_us": "0",
        "cpu.shares": "1024",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\n",
    },
    "cpuacct": {"cpuacct.usage": "0"},
    "": {
        "cpu.max": "max 100000",
        "cpu.max.burst": "0",
        "cpu.weight": "100",
        "cpu.stat": "usage_usec 0\n",
        "pids.max": "max",
        "cgroup.controllers": "cpu pids",
        "cgroup.subtree_control": "",
    },
}


class Kernel:
    """The folder ``at``, with ``cgroup`` and ``proc`` in it."""

    def __init__(self, at: Path, version: int = 1) -> None:
        self.at = at
        self.proc = at / "proc"
        self.mounts = (
            {each: at / "cgroup" / each for each in ("cpu", "cpuacct")}
            if version == 1
            else {"": at / "cgroup"}
        )
        self._mountinfo(version)
        (self.proc / "sys/kernel/random").mkdir(parents=True)
        (self.proc / "sys/kernel/random/boot_id").write_text("a-boot\n", encoding="ascii")
        for controller, point in self.mounts.items():
            for name in ("", *sorted({*HOME.values(), "/alices"}, key=len)):
                self._group(controller, point / name.lstrip("/"))
        for uid, pids in USERS.items():
            for pid in pids:
                self.start(pid, uid, HOME[uid])

    def start(self, pid: int, uid: int, group: str, name: str = "python", parent: int = 1) -> None:
        """Start a process, in a process group of its own."""
        folder = self.proc / str(pid)
        folder.mkdir(parents=True)
        (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n", encoding="utf-8")
        (folder / "stat").write_text(
            f"{pid} ({name}) S {parent} {pid} {'0 ' * 14}1 0 7 0\n", encoding="utf-8"
        )
        for point in self.mounts.values():
            self._join(pid, point / group.lstrip("/"))

    def end(self, pid: int) -> None:
        """End a process."""
        shutil.rmtree(self.proc / str(pid))
        self._leave(pid, *self.mounts.values())

    def group(self, pid: int, controller: str) -> str:
        """Tell the group of a process."""
        return hierarchy.parse_memberships((self.proc / str(pid) / "cgroup").read_text(encoding="utf-8"))[
            controller
        ]

    def files(self) -> dict[str, bytes]:
        """Read every file, by its path below the folder."""
        return {
            str(path.relative_to(self.at)): path.read_bytes()
            for path in sorted(self.at.rglob("*"))
            if path.is_file()
        }

    def folders(self) -> set[str]:
        return {str(path.relative_to(self.at)) for path in self.at.rglob("*") if path.is_dir()}

    @contextmanager
    def stands(self) -> Iterator[None]:
        """Let slaqd_local see this folder in the kernel's place."""
        with (
            patch.object(hierarchy, "PROC", self.proc),
            patch.object(processes, "PROC", self.proc),
            patch.object(guard, "PROC", self.proc),
            patch.object(groups, "write", self._write),
            patch.object(groups, "make", self._make(groups.make)),
            patch.object(groups, "remove", self._remove),
        ):
            yield

    def _mountinfo(self, version: int) -> None:
        (self.proc / "self").mkdir(parents=True)
        kind = {1: "cgroup cgroup", 2: "cgroup2 cgroup2"}[version]
        lines = [f"1 1 0:1 / {point} rw - {kind} rw,{name}\n" for name, point in self.mounts.items()]
        (self.proc / "self/mountinfo").write_text("".join(lines), encoding="utf-8")
        (self.proc / "self/cgroup").write_text(
            "".join(f"{'0' if not name else '3'}:{name}:/system\n" for name in self.mounts), encoding="utf-8"
        )

    def _group(self, controller: str, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in {**_FILES[controller], "cgroup.procs": ""}.items():
            (directory / name).write_text(text, encoding="ascii")

    def _controller(self, directory: Path) -> str:
        return next(name for name, point in self.mounts.items() if directory.is_relative_to(point))

    def _make(self, really: Callable[[Path], None]) -> Callable[[Path], None]:
        def make(directory: Path) -> None:
            if not directory.is_dir():
                really(directory)
                self._group(self._controller(directory), directory)

        return make

    def _write(self, path: Path, text: str) -> None:
        if path.name == "cpu.max" and " " not in text:  # the period then stays as it is
            text = f"{text} {path.read_text(encoding='ascii').split()[1]}"
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC if path.name != "cgroup.procs" else os.O_WRONLY)
        try:
            if path.name == "cgroup.procs":
                self._move(int(text), path.parent)
            else:
                os.write(handle, text.encode("ascii"))
        finally:
            os.close(handle)

    def _move(self, pid: int, directory: Path) -> None:
        if not (self.proc / str(pid)).is_dir():
            raise ProcessLookupError(pid)
        self._leave(pid, self.mounts[self._controller(directory)])
        self._join(pid, directory)

    @staticmethod
    def _leave(pid: int, *points: Path) -> None:
        for procs in [found for point in points for found in point.rglob("cgroup.procs")]:
            pids = [each for each in procs.read_text(encoding="ascii").split() if each != str(pid)]
            procs.write_text("".join(f"{each}\n" for each in pids), encoding="ascii")

    def _join(self, pid: int, directory: Path) -> None:
        procs = directory / "cgroup.procs"
        procs.write_text(f"{procs.read_text(encoding='ascii')}{pid}\n", encoding="ascii")
        memberships = self.proc / str(pid) / "cgroup"
        text = memberships.read_text(encoding="utf-8") if memberships.exists() else ""
        now = {**hierarchy.parse_memberships(text)}
        controller = self._controller(directory)
        now[controller] = f"/{directory.relative_to(self.mounts[controller])}".replace("/.", "/")
        lines = [f"{'0' if not name else '3'}:{name}:{group}\n" for name, group in now.items()]
        memberships.write_text("".join(lines), encoding="utf-8")

    def _remove(self, directory: Path) -> None:
        for each in (directory, directory.parent):
            children = [child for child in each.iterdir() if child.is_dir()] if each.is_dir() else [each]
            if children or (each / "cgroup.procs").read_text(encoding="ascii"):
                return
            shutil.rmtree(each)
