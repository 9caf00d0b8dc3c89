"""A machine inside this one, with a real systemd as PID 1: see lab.sh. Needs root."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from service.guest_v2.guest import Guest, cached, locked

T = TypeVar("T")

REPO = Path(__file__).parents[3]
HERE = Path(__file__).parent
PAGE = REPO / "docs" / "service.md"
PATIENCE_S = 120.0
NAME = "slaqd-lab-"
CGROUPS = Path("/sys/fs/cgroup")
# What pip would fetch: the dependencies, and what builds the wheel. The machine has no network.
PACKAGES = (
    *("certifi", "charset-normalizer", "click", "idna", "markdown-it-py", "mdurl", "msgspec", "numpy"),
    *("pygments", "requests", "rich", "scipy", "structlog", "typing-extensions", "urllib3"),
    *("hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"),
)
ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "SYSTEMD_PAGER": "",
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/srv/wheels",
}


class Lab:
    """One booted machine. What it writes is gone when it is closed, or when this process ends, in any way."""

    def __init__(self) -> None:
        assert os.geteuid() == 0, "a machine inside this one is made by root alone"
        assert (CGROUPS / "cpu").is_dir(), "it needs the controllers of cgroup v1"
        wanted = locked(PACKAGES)
        wheels = cached("lab-wheels", wanted.encode(), lambda path: _fetch(path, wanted))
        disk = Guest().image / "root.img"
        self.name = f"{NAME}{os.getpid()}"
        _clear_dead()
        self.folder = Path(tempfile.mkdtemp(prefix=self.name))
        self._keeper = subprocess.Popen(
            ["bash", str(HERE / "lab.sh"), str(self.folder), self.name, str(REPO), str(wheels), str(disk)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout is not None
        self.outer = int(self._keeper.stdout.readline())
        try:
            self.init = wait_for(self._find_init, "the machine's PID 1")
            wait_for(self._is_up, "its start")
            self.files_before = self.files()
        except BaseException:
            self.close()
            raise

    def _find_init(self) -> int | None:
        assert self._keeper.poll() is None, "the machine ended while it was made; see its words above"
        for pid in _children(self.outer):
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() in {"init", "systemd"}:
                    return pid
        return None

    def _is_up(self) -> bool:
        return self.try_("systemctl", "is-system-running").stdout.strip() in {"running", "degraded"}

    def close(self) -> None:
        """Switch it off; nothing of it is left."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(PATIENCE_S)
        self._keeper.stdout.close()

    # what to do there

    def try_(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command there, as root, in a clone of this repository."""
        enter = ["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-n", "-p", "-C", "--"]
        command = [
            *enter,
            "env",
            "-C",
            "/srv/slaqd",
            "-i",
            *(f"{key}={value}" for key, value in ENV.items()),
            *words,
        ]
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            check=False,
        )

    def do(self, *words: str) -> str:
        """Run a command there that must not fail, and give its output."""
        done = self.try_(*words)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def as_user(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command there as an ordinary user."""
        return self.try_("runuser", "-u", user, "--", "env", "-C", "/", f"HOME=/home/{user}", *words)

    def follow(self, heading: str) -> None:
        """Do what the page about the service says under a heading, word for word."""
        text = PAGE.read_text(encoding="utf-8")
        (section,) = re.findall(
            rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
        )
        for block in re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            self.do("sh", "-euxc", block)

    def write(self, path: str, text: str) -> None:
        self.do("sh", "-c", 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1"', "_", path, text)

    # what to see there

    def show(self, name: str, unit: str = "slaqd") -> str:
        """Give one property of a unit."""
        return self.do("systemctl", "show", "--value", "--property", name, unit).strip()

    def pid(self, unit: str = "slaqd") -> int:
        """Give a daemon's pid as seen there; 0 while it doesn't run."""
        return int(self.show("MainPID", unit))

    def said(self, unit: str = "slaqd") -> str:
        """Give what a daemon, and systemd of it, said."""
        return self.do("journalctl", f"--unit={unit}", "--output=cat", "--no-pager")

    def runs(self, unit: str = "slaqd") -> int | None:
        """Give a daemon's pid if it is ready."""
        return self.pid(unit) if self.show("ActiveState", unit) == "active" else None

    def files(self) -> set[str]:
        """List all that its disk has now and a bare Debian has not."""
        upper, lower = (
            set(self.do("find", f"/srv/{part}", "-mindepth", "1", "-printf", "%P\n").splitlines())
            for part in ("upper", "lower")
        )
        return upper - lower


def wait_for(look: Callable[[], T | None], what: str, words: Callable[[], str] = str) -> T:
    """Look again and again until there is something to see."""
    until = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        assert time.monotonic() < until, f"it never came to {what}\n{words()}"
        time.sleep(0.1)
    return seen


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [
            int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        ]
    return []


def _clear_dead() -> None:
    """Remove the groups of a machine whose keeper was killed; one that lives can't lose its own."""
    for folder in sorted(CGROUPS.glob(f"*/{NAME}*")):
        for below in (*sorted(folder.rglob("*/"), reverse=True), folder):
            with suppress(OSError):
                below.rmdir()


def _fetch(path: Path, wanted: str) -> None:
    listed = path.parent / f"{path.name}.txt"
    listed.write_text(wanted, encoding="utf-8")
    fixed = ("--python-version", "3.11", "--only-binary=:all:", "--no-deps", "--require-hashes")
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        *fixed,
        "--dest",
        str(path),
        "-r",
        str(listed),
    ]
    try:
        subprocess.run(words, check=True)
    finally:
        listed.unlink()
