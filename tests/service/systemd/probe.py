"""Runs in a daemon's place under its unit, and says what can be done from there.

usage: probe.py PID UID     PID is a process of the user UID, who has a home of mode 0700
"""

from __future__ import annotations

import json
import os
import pwd
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PID, UID = int(sys.argv[1]), int(sys.argv[2])
HOME, ROOTS = Path("/home/alice"), Path(pwd.getpwuid(0).pw_dir)
SHARES = Path("/sys/fs/cgroup/cpu/slaqd-probe")
NULL = os.makedev(1, 3)


def _group() -> None:
    SHARES.mkdir()
    SHARES.rmdir()


def _write(path: Path | str) -> Callable[[], object]:
    def attempt() -> None:
        Path(path).write_text("x", encoding="ascii")
        Path(path).unlink()

    return attempt


def _read(path: Path | str) -> Callable[[], object]:
    return lambda: Path(path).read_bytes()


def _open(path: Path | str, flags: int) -> Callable[[], object]:
    return lambda: os.close(os.open(path, flags))


def _as_alice(attempt: Callable[[], object]) -> Callable[[], object]:
    """Try it in a process that has become the user for good."""

    def become_and_try() -> None:
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setresgid(UID, UID, UID)
                os.setresuid(UID, UID, UID)
                attempt()
            except (OSError, RuntimeError):
                os._exit(1)
            finally:
                os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise PermissionError(attempt)

    return become_and_try


def _device() -> None:
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        os.mknod(f"{folder}/null", 0o20600, NULL)


def _threads(count: int) -> Callable[[], object]:
    def start() -> None:
        end = threading.Event()
        made = [threading.Thread(target=end.wait) for _ in range(count)]
        try:
            for each in made:
                each.start()
        finally:
            end.set()
            for each in made:
                if each.ident:
                    each.join()

    return start


TRIES: dict[str, Callable[[], object]] = {
    "writes its state": _write("/var/lib/slaqd/probe"),
    "writes its runtime directory": _write("/run/slaqd/probe.txt"),
    "writes its configuration": _write("/etc/slaqd/probe"),
    "writes its program": _write("/opt/slaqd/probe.txt"),
    "writes to /usr": _write("/usr/probe"),
    "writes root's timers": _write("/etc/cron.d/probe"),
    "writes to the host's /tmp": _write("/tmp/probe/x"),  # noqa: S108 - as it says
    "writes to a home": _write(HOME / "probe"),
    "writes to root's home": _open(ROOTS / "probe", os.O_WRONLY),
    "reads what everybody may": _read("/srv/open"),
    "reads the host's /tmp": _read("/tmp/probe/open"),  # noqa: S108 - as it says
    "reads what everybody may in a home": _read("/home/dave/open"),
    "reads what only its owner may": _read(HOME / "closed"),
    "reads what only root may": _read("/etc/shadow"),
    "reads root's home": _open(ROOTS / "probe", os.O_RDONLY),
    "as a user: reads her file": _as_alice(_read(HOME / "closed")),
    "as a user: writes to her home": _as_alice(_write(HOME / "probe")),
    "as a user: becomes root again": _as_alice(lambda: os.setresuid(0, 0, 0)),
    "as a user: reads what only root may": _as_alice(_read("/etc/shadow")),
    "as a user: becomes another": _as_alice(lambda: os.setresuid(UID + 1, UID + 1, UID + 1)),
    "makes a cgroup": _group,
    "makes a device": _device,
    "gives a file away": lambda: os.chown("/srv/open", UID, UID),
    "kills a user's process": lambda: os.kill(PID, 0),
    "sees a user's process": _read(f"/proc/{PID}/status"),
    "as a user: sees another's process": _as_alice(_read("/proc/1/status")),
    "reads a user's memory": _open(f"/proc/{PID}/mem", os.O_RDONLY),
    "talks to the kernel's network": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
    "opens an internet socket": lambda: socket.socket(socket.AF_INET).close(),
    "starts 150 threads": _threads(150),
    "starts 200 threads": _threads(200),
    "starts 300 threads": _threads(300),
}


def main() -> None:
    can = []
    for name, attempt in TRIES.items():
        with suppress(OSError, RuntimeError):
            attempt()
            can.append(name)
    print("probe", json.dumps(can), flush=True)  # noqa: T201 - the journal takes it to the test


if __name__ == "__main__":
    main()
