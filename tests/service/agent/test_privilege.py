"""Children have no right but their user's; whatever fails on the way there ends them with nothing read."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from agent_world import (
    ALICE,
    BOB,
    GIDS,
    SHARED,
    AgentProcess,
    Trees,
    is_ok,
    kill_as,
    source,
    status,
    uid_of,
)
from living import PATIENCE_S, wait_for

from slaqd.agent import child
from slaqd.agent.become import NotThatUserError, User, become, wear
from slaqd.errors import AgentUnavailable
from slaqd.types import Curve

pytestmark = pytest.mark.service

HER = User(ALICE, GIDS[ALICE], (GIDS[ALICE],))
SLOW = "/*/*/*/*/*/*/nothing"
"""A pattern that takes longer to follow than any child may live."""
NONE = "0" * 16
KEEP_CAPS, SECUREBITS, CAP_AMBIENT = 8, 28, 47
NO_FIXUP = 1 << 2
CAPABILITIES = 41

libc = ctypes.CDLL(None, use_errno=True)


def in_a_fork(work: Callable[[], object]) -> int:
    """Give the exit status of a process that does it: 0, or 1 where it failed, and shows why."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - nothing may climb out of a fork
        os.write(2, repr(error).encode())
    finally:
        os._exit(code)


@contextmanager
def slow_child(agent: AgentProcess, trees: Trees, seen: dict[str, Curve]) -> Iterator[int]:
    """Give the pid of a child of Alice's at work; ``seen`` gets its curve, and that of a log of Bob's."""
    asked = (
        source(f"{trees.top}{SLOW}", job=f"slow {trees.top}"),
        source(trees.file(trees.bob / "log", "loss\n1\n2\n", BOB), BOB),
    )
    looking = threading.Thread(target=lambda: seen.update(agent.look(*asked)))
    deep(trees.top)
    looking.start()
    try:
        pid = wait_for(lambda: next(iter(agent.children(ALICE)), 0), agent.said)
        yield pid
    finally:
        looking.join(PATIENCE_S)


def deep(top: Path) -> None:
    """Make a tree that has 10,000 ways down."""
    for ways in itertools.product("abcdefghij", repeat=3):
        (top / Path(*ways)).mkdir(parents=True)
    for ways in itertools.product("abcdefghij", repeat=3):
        for name in "abcdefghij":
            (top / Path(*ways) / name).symlink_to(top)


def test_a_child_has_its_users_rights_and_no_other(agent: AgentProcess, trees: Trees) -> None:
    with slow_child(agent, trees, {}) as pid:
        os.kill(pid, signal.SIGSTOP)  # it opens and closes directories all the time
        wait_for(lambda: status(pid, "State")[:1] == "T", lambda: "it stands still")
        said = {
            key: status(pid, key).split()
            for key in ("Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Groups")
        }
        ends = [each.readlink().name for each in Path(f"/proc/{pid}/fd").iterdir() if int(each.name) > 2]
        owner = Path(f"/proc/{pid}/environ").stat().st_uid
    assert said["Uid"] == [str(ALICE)] * 4
    assert said["Gid"] == [str(GIDS[ALICE])] * 4
    assert set(said["Groups"]) == {str(GIDS[ALICE]), str(SHARED)}
    assert [said[key] for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [[NONE]] * 4
    assert said["NoNewPrivs"] == ["1"]
    assert sum(end.startswith("socket:") for end in ends) == 1, "its own end, and nothing of the agent's"
    assert owner == 0, "its user can't look into it"


def attempts() -> list[Callable[[], object]]:
    """List ways to be root again, by uid, by gid and by capability."""
    some = (0, -1, ALICE)
    tries: list[Callable[[], object]] = []
    for ids in itertools.product(some, repeat=3):
        if 0 in ids:
            tries += [lambda ids=ids: os.setresuid(*ids), lambda ids=ids: os.setresgid(*ids)]
    for two in itertools.product(some, repeat=2):
        if 0 in two:
            tries += [lambda two=two: os.setreuid(*two), lambda two=two: os.setregid(*two)]
    for one in (os.setuid, os.seteuid, os.setgid, os.setegid, lambda _: os.setgroups([0])):
        tries.append(lambda one=one: one(0))
    tries += [lambda: libc.setfsuid(0), lambda: libc.setfsgid(0)]
    for number in range(CAPABILITIES):
        tries += [
            lambda number=number: libc.prctl(CAP_AMBIENT, 2, number, 0, 0),
            lambda number=number: capset(1 << number),
        ]
    tries += [
        lambda: libc.prctl(SECUREBITS, NO_FIXUP, 0, 0, 0),
        lambda: (libc.prctl(KEEP_CAPS, 1), os.setuid(0)),
    ]
    return tries


def capset(wanted: int) -> None:
    low, high = wanted & 0xFFFFFFFF, wanted >> 32
    header = struct.pack("=Ii", 0x20080522, 0)
    libc.capset(header, struct.pack("=6I", low, low, low, high, high, high))


def rights() -> tuple[object, ...]:
    mine = [status(os.getpid(), key) for key in ("Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapAmb")]
    return (*mine, os.getgroups())


def test_what_has_become_a_user_never_becomes_root_again() -> None:
    tries = attempts()
    assert len(tries) >= 100

    def work() -> None:
        become(HER)
        before = rights()
        for each in tries:
            with suppress(OSError):
                each()
            assert rights() == before
        with pytest.raises(PermissionError):
            Path("/etc/shadow").read_bytes()

    assert in_a_fork(work) == 0


def keep_all() -> None:
    assert libc.prctl(SECUREBITS, NO_FIXUP, 0, 0, 0) == 0


def keep_what_is_permitted() -> None:
    assert libc.prctl(KEEP_CAPS, 1, 0, 0, 0) == 0


def keep_ambient() -> None:
    keep_all()
    header = struct.pack("=Ii", 0x20080522, 0)
    assert libc.capset(header, struct.pack("=6I", 0xC0, 0xC0, 0xC0, 0, 0, 0)) == 0
    assert libc.prctl(CAP_AMBIENT, 2, 7, 0, 0) == 0


@pytest.mark.parametrize("harm", [keep_all, keep_what_is_permitted, keep_ambient])
def test_capabilities_that_outlive_the_change_are_not_gone_on_with(harm: Callable[[], None]) -> None:
    def work() -> None:
        harm()
        with pytest.raises(NotThatUserError):
            become(HER)

    assert in_a_fork(work) == 0


def test_a_child_that_keeps_a_capability_ends_with_77_and_answers_nothing() -> None:
    here, there = socket.socketpair()

    def work() -> None:
        keep_all()
        child.live(HER, there, 5.0)

    with here, there:
        assert in_a_fork(work) == child.FAILED_DROP
        there.close()
        assert here.recv(1) == b""


@pytest.mark.parametrize("user", [User(0, 0, ()), User(0, GIDS[ALICE], (GIDS[ALICE],))])
def test_nobody_becomes_root(user: User) -> None:
    def work() -> None:
        with pytest.raises(NotThatUserError):
            become(user)

    def in_a_thread() -> None:
        with pytest.raises(NotThatUserError):
            wear(user)

    assert in_a_fork(work) == 0
    assert in_a_fork(in_a_thread) == 0


def test_rights_that_a_thread_wears_are_its_own_alone(trees: Trees) -> None:
    private = trees.file(trees.bob / "log", uid=BOB, mode=0o600)
    own = trees.file(trees.alice / "log", mode=0o600)
    found: list[object] = []

    def look() -> None:
        wear(HER)
        for path in (own, private):
            try:
                found.append(os.close(os.open(path, os.O_RDONLY)))
            except OSError as error:
                found.append(type(error))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [None, PermissionError]
    assert private.read_bytes()
    assert status(os.getpid(), "Uid").split() == ["0"] * 4
    assert os.getgroups() == [int(each) for each in status(os.getpid(), "Groups").split()]


@contextmanager
def refused(pid: int, what: str, told: Path) -> Iterator[None]:
    """Have the kernel refuse a system call to a process and to all that it forks."""
    call = what.partition(":")[0]
    words = ["strace", "-f", "-p", str(pid), "-o", str(told), "-e", f"trace={call}", "-e", f"inject={what}"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as tracer:
        wait_for(lambda: status(pid, "TracerPid") == str(tracer.pid), lambda: "strace holds it")
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(PATIENCE_S)


@pytest.mark.fault
@pytest.mark.parametrize(
    "what",
    [
        "setgroups:error=EPERM",
        "setresuid:error=EAGAIN",
        "setresuid:retval=0",
        pytest.param("setgroups:retval=0", marks=pytest.mark.soak),
        pytest.param("setresgid:retval=0", marks=pytest.mark.soak),
        pytest.param("setresgid:error=EPERM", marks=pytest.mark.soak),
        pytest.param("setresuid:error=EPERM", marks=pytest.mark.soak),
    ],
)
def test_a_change_of_identity_that_fails_ends_the_child_with_nothing_read(
    agent: AgentProcess, trees: Trees, tmp_path: Path, what: str
) -> None:
    """Also one that the kernel says it has done, and hasn't."""
    log, told = trees.file(trees.alice / "log"), tmp_path / "told"
    with refused(agent.forker, what, told):
        curve = agent.look(source(log))[str(log)]
        wait_for(lambda: "exited with 77" in told.read_text(), told.read_text)
    assert curve.count == 0
    assert "died" in curve.note
    assert agent.alive
    again = source(log, job=f"again {log}")
    assert is_ok(agent.settled(again)[again.job])


@pytest.mark.fault
@pytest.mark.parametrize(
    "what",
    [
        "setfsuid:retval=0",
        "setgroups:error=EPERM",
        pytest.param("setfsgid:retval=0", marks=pytest.mark.soak),
    ],
)
def test_a_thread_that_does_not_get_its_users_rights_ends_the_agent(tmp_path: Path, what: str) -> None:
    agent = AgentProcess()
    try:
        trees = agent.start().trees()
        log = trees.file(trees.alice / "log")
        with refused(agent.pid, what, tmp_path / "told"), pytest.raises(AgentUnavailable):
            agent.look(source(log))
        assert agent.process is not None
        assert agent.process.wait(PATIENCE_S) == os.EX_SOFTWARE
        assert "can't change identity" in agent.said()
        agent.start()
        assert is_ok(agent.look(source(log))[str(log)])
    finally:
        agent.clean()


def test_a_child_that_its_user_kills_or_stops_costs_nobody_else(agent: AgentProcess) -> None:
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV):
        trees, seen = agent.trees(), dict[str, Curve]()
        with slow_child(agent, trees, seen) as pid:
            kill_as(ALICE, pid, number)
        wait_for(lambda: not agent.children(ALICE), lambda: f"no child is left: {agent.children()}")
        slow, bobs = seen.values()
        assert ("died" if number is not signal.SIGSTOP else "does not answer") in slow.note
        assert bobs.count == 2
    assert agent.alive
    assert uid_of(agent.forker) == 0
