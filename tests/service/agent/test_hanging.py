"""File systems that hang, children that hang in them, logs without end: others' readings come on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from agent_world import ALICE, BOB, HANGS, AgentProcess, Trees, is_ok, rows, source, status
from living import PATIENCE_S, wait_for

from slaqd.agent.client import Agent
from slaqd.agent.protocol import Source
from slaqd.agent.session import MOST_LOST_OF_ONE
from slaqd.types import Curve

pytestmark = [pytest.mark.service, pytest.mark.fault]

MANY = 40
LARGEST_KIB = 128 * 1024


@pytest.fixture
def agent(fresh: AgentProcess) -> AgentProcess:
    return fresh


class Mount:
    """A FUSE file system over a directory of Alice's; it answers until it is stopped."""

    def __init__(self, trees: Trees, *, cached_s: int = 0) -> None:
        self.behind, self.at = trees.folder(trees.top / "behind"), trees.folder(trees.top / "mount", 0)
        options = f"allow_other,attr_timeout={cached_s},entry_timeout={cached_s}"
        words = ["bindfs", "-f", "-o", options, str(self.behind), str(self.at)]
        self.process = subprocess.Popen(words)
        wait_for(lambda: os.path.ismount(self.at), lambda: "it is mounted")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """End it first: then nothing that hangs in it hangs on."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        subprocess.run(["umount", "--lazy", str(self.at)], check=True)


@contextmanager
def mounted(trees: Trees, *, cached_s: int = 0) -> Iterator[Mount]:
    made = Mount(trees, cached_s=cached_s)
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def mount(trees: Trees) -> Iterator[Mount]:
    with mounted(trees) as made:
        yield made


def threads(agent: AgentProcess) -> int:
    """Count the agent's threads, that of our connection among them."""
    agent.client.hello()
    return int(status(agent.pid, "Threads"))


def logs(mount: Mount, trees: Trees, many: int) -> list[Source]:
    """Make logs of Alice's on the mount, each of a job of its own."""
    return [
        source(mount.at / trees.file(mount.behind / f"{number}.log").name, root=mount.at)
        for number in range(many)
    ]


def others(trees: Trees) -> list[Source]:
    """Make a log of Bob's, and one of Alice's elsewhere."""
    mine = trees.file(trees.alice / "log")
    return [source(trees.file(trees.bob / "log", rows(), BOB), BOB), source(mine, root=trees.alice)]


def test_a_source_that_hangs_is_told_so_and_others_are_read_on(
    agent: AgentProcess, trees: Trees, mount: Mount
) -> None:
    hung, bobs, hers = [*logs(mount, trees, 1), *others(trees)]
    assert is_ok(agent.settled(hung, bobs, hers)[hung.job])
    mount.stop()
    for count in (5, 6, 7):
        trees.file(trees.bob / "log", rows(count), BOB)
        trees.file(trees.alice / "log", rows(count))
        seen = agent.look(hung, bobs, hers)
        assert [seen[each.job].count for each in (bobs, hers)] == [count, count]
        assert HANGS in seen[hung.job].note
        assert "tried again in" in seen[hung.job].note
        assert seen[hung.job].count == 4, "what is known of it stays known"
    mount.go_on()
    trees.file(mount.behind / "0.log", rows(8))
    assert is_ok(agent.settled(hung, bobs, hers)[hung.job], 8)


def test_while_a_source_is_left_alone_nothing_waits_for_it(
    agent: AgentProcess, trees: Trees, mount: Mount
) -> None:
    asked = [*logs(mount, trees, 1), *others(trees)]
    mount.stop()
    agent.look(*asked)
    before = threads(agent)
    for _ in range(50):
        assert HANGS in agent.look(*asked)[asked[0].job].note
    assert threads(agent) <= before + 1
    mount.go_on()


def test_many_sources_on_a_mount_that_hangs_cost_one_wait(
    agent: AgentProcess, trees: Trees, mount: Mount
) -> None:
    hung, (bobs, hers) = logs(mount, trees, MANY), others(trees)
    mount.stop()
    before = threads(agent)
    seen = agent.look(*hung, bobs, hers)
    assert [is_ok(seen[each.job]) for each in (bobs, hers)] == [True, True]
    assert sum(HANGS in seen[each.job].note for each in hung) == MANY
    assert threads(agent) <= before + 1, "the others of this mount were not tried"
    mount.go_on()


def test_a_mount_that_is_reached_by_another_name_costs_one_wait_once_it_was_seen(
    agent: AgentProcess, trees: Trees, mount: Mount
) -> None:
    """Such as homes that lie elsewhere, behind a link."""
    link = trees.top / "homes"
    link.symlink_to(mount.at)
    hung = [source(link / Path(each.path).name, root=link) for each in logs(mount, trees, MANY)]
    seen = agent.settled(*hung)
    assert all(is_ok(seen[each.job]) for each in hung)
    mount.stop()
    before = threads(agent)
    seen = agent.look(*hung)
    assert sum(HANGS in seen[each.job].note for each in hung) == MANY
    assert threads(agent) <= before + 1
    mount.go_on()


def test_what_hangs_is_remembered_when_slaqd_comes_anew(
    agent: AgentProcess, trees: Trees, mount: Mount
) -> None:
    """Else each restart of slaqd's would lose a thread to the same file system."""
    asked = [*logs(mount, trees, 1), *others(trees)]
    mount.stop()
    agent.look(*asked)
    before = threads(agent)
    for _ in range(20):
        with closing(Agent(str(agent.socket))) as another:
            seen = another.look(asked, time.time())
        assert HANGS in seen[asked[0].job].note
        assert [is_ok(seen[each.job]) for each in asked[1:]] == [True, True]
    wait_for(lambda: threads(agent) <= before + 1, lambda: f"{threads(agent)} threads, {before} before")
    mount.go_on()


def test_a_user_who_keeps_naming_files_that_hang_loses_few_threads(agent: AgentProcess, trees: Trees) -> None:
    with ExitStack() as stack:
        made = [trees_of(trees, number) for number in range(MOST_LOST_OF_ONE + 3)]
        mounts = [stack.enter_context(mounted(each)) for each in made]
        hung = [logs(each, inner, 1)[0] for each, inner in zip(mounts, made, strict=True)]
        bobs = others(trees)[0]
        for each in mounts:
            each.stop()
        before = threads(agent)
        for _ in range(6):
            assert is_ok(agent.look(*hung, bobs)[bobs.job])
        assert threads(agent) <= before + MOST_LOST_OF_ONE
        for each in mounts:
            each.go_on()


def trees_of(trees: Trees, number: int) -> Trees:
    return Trees(trees.top / f"inner-{number}")


def test_a_child_that_hangs_in_reading_is_killed_as_its_user(agent: AgentProcess, trees: Trees) -> None:
    """What stat(2) says comes from the cache here; the child hangs in open(2)."""
    with mounted(trees, cached_s=600) as mount:
        hung, (bobs, hers) = logs(mount, trees, MANY), others(trees)
        for each in hung:
            os.stat(each.path)  # noqa: PTH116 - fills the cache
        mount.stop()
        seen = agent.look(*hung, bobs, hers)
        assert is_ok(seen[bobs.job])
        assert sum(HANGS in seen[each.job].note for each in hung) == MANY, agent.client.missed
        wait_for(lambda: not agent.children(), lambda: f"no child is left: {agent.children()}")
        mount.go_on()


def test_a_pattern_without_end_costs_its_own_job_alone(agent: AgentProcess, trees: Trees) -> None:
    endless = source("/*/*/*/*/*/*/*/*/nothing", job="endless")
    bobs, hers = others(trees)
    for _ in range(3):
        seen = agent.look(endless, bobs, hers)
        assert [is_ok(seen[each.job]) for each in (bobs, hers)] == [True, True]
        assert seen["endless"].count == 0
    wait_for(lambda: not agent.children(), lambda: f"no child is left: {agent.children()}")


def test_small_files_on_a_file_system_that_hangs_are_given_up(
    agent: AgentProcess, mount: Mount, trees: Trees
) -> None:
    """One wait for all of a user's: each job may have a directory that hangs, and others wait for each."""
    mount.stop()
    with pytest.raises(OSError, match="does not answer"):
        agent.client.get(ALICE, str(mount.at), f"{mount.at}/target.json")
    for folder in (mount.at, trees.alice):
        with pytest.raises(OSError, match=r"does not answer; tried again in \d+ s"):
            agent.client.put(ALICE, str(folder), f"{folder}/target.json", b"{}")
        assert agent.client.get(BOB, str(trees.bob), f"{trees.bob}/target.json") is None
    wait_for(lambda: not agent.children(), lambda: f"no child is left: {agent.children()}")
    mount.go_on()

    def answers() -> bool:
        with suppress(OSError):
            return agent.client.get(ALICE, str(mount.at), f"{mount.at}/target.json") is None
        return False

    wait_for(answers, agent.said)


def feed(log: Path, stop: threading.Event) -> None:
    """Write rows as fast as can be, some million a second."""
    step = 0
    with log.open("ab", buffering=0) as file:
        while not stop.is_set():
            file.write(b"".join(b'{"step":%d,"loss":1}\n' % each for each in range(step, step + 20_000)))
            step += 20_000
            if file.tell() > 2**29:
                file.truncate(0)


def peaks(agent: AgentProcess, found: dict[str, int], stop: threading.Event) -> None:
    while not stop.is_set():
        for name, pids in (("agent", [agent.pid]), ("forker", [agent.forker]), ("child", agent.children())):
            for pid in pids:
                with suppress(ValueError, IndexError):
                    found[name] = max(found.get(name, 0), int(status(pid, "VmHWM").split()[0]))
        time.sleep(0.02)


def test_logs_without_bounds_leave_the_agent_within_its_memory_and_others_their_readings(
    agent: AgentProcess, trees: Trees
) -> None:
    """A line of 10 GB, a hole of 10 GB, and a log that grows by a million lines a second."""
    long, fast = trees.file(trees.alice / "long", "x"), trees.file(trees.alice / "fast", "")
    with long.open("r+b") as file:
        file.truncate(10 * 2**30)
    bobs = others(trees)[0]
    asked = [source(long), source(fast), source(f"{trees.alice}/f*", job="pattern"), bobs]
    stop, found = threading.Event(), dict[str, int]()
    work = [
        threading.Thread(target=feed, args=(fast, stop)),
        threading.Thread(target=peaks, args=(agent, found, stop)),
    ]
    for each in work:
        each.start()
    try:
        for count in range(4, 12):
            trees.file(trees.bob / "log", rows(count), BOB)
            wait_for(lambda count=count: agent.look(*asked)[bobs.job].count == count, agent.said)
    finally:
        stop.set()
        for each in work:
            each.join()
    assert found["agent"] + found["child"] + found["forker"] <= LARGEST_KIB, json.dumps(found)


@pytest.mark.soak
def test_a_directory_of_too_many_names_costs_its_own_job_alone(agent: AgentProcess, trees: Trees) -> None:
    """Its names are heavier than what a child may take; or it hasn't listed them in its time."""
    for number in range(400_000):
        os.mknod(trees.alice / f"{number:0250}.txt")
    asked, bobs = source(f"{trees.alice}/*.log"), others(trees)[0]
    seen = agent.look(asked, bobs)
    assert is_ok(seen[bobs.job])
    assert "more memory" in seen[asked.job].note or HANGS in seen[asked.job].note
    assert agent.alive


@pytest.mark.soak
def test_curves_that_are_many_fit_one_answer_after_another(agent: AgentProcess, trees: Trees) -> None:
    """What one frame doesn't hold is missed, and comes first in the next look."""
    log = trees.file(trees.alice / "log", rows(300))
    asked = [source(log, job=f"job {number}") for number in range(3000)]
    seen: dict[str, Curve] = {}

    def look() -> bool:
        seen.update(agent.look(*asked))
        return len(seen) == len(asked)

    wait_for(look, lambda: f"{len(seen)} of {len(asked)} are read")
    assert all(is_ok(curve, 300) for curve in seen.values())
