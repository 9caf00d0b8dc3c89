"""Runs in slaqd's place under its unit, and says what can be done from there."""

from __future__ import annotations

import json
import os
import pwd
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SHARES = Path("/sys/fs/cgroup/cpu/slaqd-probe")


def _group() -> None:
    SHARES.mkdir()
    SHARES.rmdir()


def _write(path: str) -> Callable[[], object]:
    return lambda: Path(path).write_text("x", encoding="ascii")


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
    "writes to /usr": _write("/usr/probe"),
    "writes to a home": _write("/home/alice/probe"),
    "writes to root's home": _write(f"{pwd.getpwuid(0).pw_dir}/probe"),
    "reads what everybody may": lambda: Path("/home/alice/open").read_text(encoding="ascii"),
    "reads what only its owner may": lambda: Path("/home/alice/closed").read_text(encoding="ascii"),
    "reads what only root may": lambda: Path("/etc/shadow").read_text(encoding="ascii"),
    "makes a cgroup": _group,
    "becomes another user": lambda: os.setuid(4711),
    "becomes root": lambda: os.setresuid(0, 0, 0),
    "kills a user's process": lambda: os.kill(int(sys.argv[1]), 0),
    "talks to the kernel's network": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
    "opens an internet socket": lambda: socket.socket(socket.AF_INET).close(),
    "starts 200 threads": _threads(200),
    "starts 300 threads": _threads(300),
}


def main() -> None:
    can = []
    for name, attempt in TRIES.items():
        with suppress(OSError, RuntimeError):
            attempt()
            can.append(name)
    Path("/run/slaqd/probe.json").write_text(json.dumps(can), encoding="ascii")


if __name__ == "__main__":
    main()
