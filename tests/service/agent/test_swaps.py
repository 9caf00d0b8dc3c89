"""Files that are exchanged for others' as fast as can be while they are read."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_world import BOB, AgentProcess, Trees, leaks, own, rows, secret, source

from slaqd.agent.protocol import Source
from slaqd.types import Curve, Health

pytestmark = pytest.mark.service

EXCHANGE, AT_FDCWD = 2, -100
libc = ctypes.CDLL(None, use_errno=True)


def pairs(trees: Trees) -> dict[str, tuple[Path, Path]]:
    """Give what is exchanged for what, by the way that the log lies there."""
    bobs = trees.file(trees.bob / "log", secret(9), BOB)
    for name in ("link", "name", "file", "dir"):
        where = trees.folder(trees.alice / name)
        trees.file(trees.folder(where / "inner") / "log" if name == "dir" else where / "log", rows(9))
    (trees.alice / "name" / "other").hardlink_to(bobs)
    trees.file(trees.alice / "file" / "other", secret(9), BOB)
    return {
        "link": (trees.alice / "link" / "log", trees.link(trees.alice / "link" / "other", bobs)),
        "name": (trees.alice / "name" / "log", trees.alice / "name" / "other"),
        "file": (trees.alice / "file" / "log", trees.alice / "file" / "other"),
        "dir": (trees.alice / "dir" / "inner", trees.link(trees.alice / "dir" / "other", trees.bob)),
    }


@contextmanager
def exchanging(each: list[tuple[Path, Path]]) -> Iterator[None]:
    pid = os.fork()
    if not pid:
        ends = [(os.fsencode(one), os.fsencode(other)) for one, other in each]
        while True:
            for one, other in ends:
                libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, EXCHANGE)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def asked(name: str, log: Path, trees: Trees) -> Source:
    return source(log / "log" if name == "dir" else log, root=trees.alice, job=name)


def race(agent: AgentProcess, trees: Trees, seconds: float) -> None:
    swapped = pairs(trees)
    sources = [asked(name, log, trees) for name, (log, _) in swapped.items()]
    found: dict[tuple[str, str], Curve] = {}
    until = time.monotonic() + seconds
    with exchanging(list(swapped.values())):
        while time.monotonic() < until:
            for job, curve in agent.look(*sources).items():
                found[job, f"{curve.health} {curve.count} {curve.note[-60:]}"] = curve
                assert leaks(agent, {job: curve}) == []
            agent.client.close()  # forget what was read: each look opens all of them anew
    for name in swapped:
        healths = {curve.health for (job, _), curve in found.items() if job == name}
        assert healths >= {Health.OK, Health.UNREADABLE}, "it was found in both states"


def test_a_log_that_is_swapped_for_anothers_never_gives_a_byte_of_it(
    agent: AgentProcess, trees: Trees
) -> None:
    race(agent, trees, 5.0)


@pytest.mark.soak
def test_a_minute_of_swapping_gives_no_byte_of_anothers(agent: AgentProcess, trees: Trees) -> None:
    race(agent, trees, 60.0)


def test_a_directory_that_is_swapped_gets_nothing_written_elsewhere(
    agent: AgentProcess, trees: Trees
) -> None:
    inner, other = trees.folder(trees.alice / "inner"), trees.link(trees.alice / "other", trees.bob)
    trees.bob.chmod(0o777)
    path, done = f"{inner}/target.json", set[str]()
    until = time.monotonic() + 2.0
    with exchanging([(inner, other)]):
        while time.monotonic() < until:
            try:
                agent.client.put(5, str(trees.alice), path, b"{}")
                done.add("written")
            except OSError as error:
                done.add(error.strerror)
    assert len(done) >= 2, done
    assert os.listdir(trees.bob) == []  # noqa: PTH208 - names alone
    own(trees.bob, BOB, 0o755)
