"""Asks slaqd in the names of several users, one question after the other.

usage: matrix.py SOCKET QUESTIONS     a JSON list of [uid, question]; gives the list of replies
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any

TRIES = 40
BUSY = ("busy", "refused")


def ask(path: str, question: object) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(json.dumps(question).encode() + b"\n")
        with sock.makefile("rb") as file:
            return dict(json.loads(file.readline()))


def as_user(path: str, uid: int, question: object) -> dict[str, Any]:
    """Ask in a process that has become the user; again where slaqd is busy with a cycle."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        with os.fdopen(there, "w") as file:
            json.dump(patiently(path, question), file)
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as file:
        reply = dict(json.load(file))
    os.waitpid(child, 0)
    return reply


def patiently(path: str, question: object) -> dict[str, Any]:
    for _ in range(TRIES):
        reply = ask(path, question)
        if reply.get("error", {}).get("code") not in BUSY:
            break
        time.sleep(0.1)
    return reply


def main() -> None:
    path, asked = sys.argv[1], json.loads(sys.argv[2])
    json.dump([as_user(path, uid, question) for uid, question in asked], sys.stdout)


if __name__ == "__main__":
    main()
