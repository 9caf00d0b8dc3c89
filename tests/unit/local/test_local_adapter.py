"""The adapter's own bookkeeping: one look at a time, and every CPU second counted once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from slaqd_local import Config, LocalAdapter, processes

from slaqd.adapter import Registration
from slaqd.clock import SystemClock
from slaqd.errors import AdapterRefused, JobGone
from slaqd.testing import MemoryStore, Oneself
from slaqd.types import Accepted, Admit, Adopt, JobKey, Lever, Owner, Refused, Restore, SetUnits, Tag

BURNS = """
import sys, time
sys.stdin.read(1)
until = time.process_time() + 0.1
while time.process_time() < until: pass
sys.stdout.write("x"); sys.stdout.flush()
sys.stdin.read(1)
"""


@pytest.mark.parametrize("number", ["0", "1"])
def test_the_group_of_init_is_no_job(number: str) -> None:
    adapter = LocalAdapter(Config(), SystemClock(), MemoryStore(), Oneself())
    with pytest.raises(AdapterRefused, match="the system's own"):
        adapter.owner(JobKey("local", number, 0))


def test_the_group_that_slaqd_runs_in_is_no_job_and_the_refusal_says_what_to_do() -> None:
    group, seen = os.getpgrp(), processes.read(os.getpgrp())
    adapter = LocalAdapter(Config(), SystemClock(), MemoryStore(), Oneself())
    with pytest.raises(AdapterRefused, match=f"group {group} is the one that slaqd runs in.*setsid"):
        adapter.owner(JobKey("local", str(group), 0 if seen is None else seen.start))


def test_a_keepers_group_is_no_job(burner: subprocess.Popen[bytes]) -> None:
    adapter, key = adapter_of(burner.pid)
    assert adapter.owner(key).uid == os.getuid()
    assert adapter.apply([Adopt("1", key, "", 2)], deadline()) == [Accepted()]
    (pid,) = adapter._holder.apart
    keeper = processes.read(pid)
    assert keeper is not None
    with pytest.raises(AdapterRefused, match=f"group {pid} is a keeper's.*name that job's own group"):
        adapter.owner(JobKey("local", str(pid), keeper.start))
    assert adapter.owner(key).uid == os.getuid()
    adapter.close(restore=True)
    assert adapter._holder.apart == frozenset()


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", BURNS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        process_group=0,
    ) as started:
        yield started
        started.kill()


def adapter_of(pid: int, **said: Any) -> tuple[LocalAdapter, JobKey]:
    seen = processes.read(pid)
    assert seen is not None
    key = JobKey("local", str(pid), seen.start)
    owner = Owner(os.getuid(), "me")
    store = MemoryStore([Registration(key, owner, Tag(**said), "job", "/", 0.0)])
    return LocalAdapter(Config(means="keeper"), SystemClock(), store, Oneself()), key


def deadline() -> float:
    return SystemClock().monotonic() + 60


@pytest.mark.parametrize(
    ("act", "refused"),
    [
        (Adopt("1", JobKey("", "", 0), "", 2), True),
        (SetUnits("1", JobKey("", "", 0), "", 2), True),
        (Admit("1", JobKey("", "", 0), "", 2), False),
        (Restore("1", JobKey("", "", 0), ""), False),
    ],
)
def test_a_job_that_follows_a_file_comes_under_no_quota(
    burner: subprocess.Popen[bytes], act: Any, *, refused: bool
) -> None:
    adapter, key = adapter_of(burner.pid, lever=Lever.FILE, dir="ctl")
    outcome = adapter.apply([msgspec.structs.replace(act, key=key)], deadline())
    assert outcome == [Refused("its lever is file") if refused else Accepted()]
    (job,) = adapter.snapshot(deadline()).jobs
    assert (job.lever, job.target) == (Lever.FILE, None)
    assert job.lever in adapter.capabilities().levers


@pytest.mark.parametrize(
    "said", [{"lever": Lever.CPUS}, {"lever": Lever.NONE}, {"lever": Lever.FILE, "dir": "x"}]
)
def test_what_a_job_uses_is_not_also_what_others_use(
    burner: subprocess.Popen[bytes], said: dict[str, Any]
) -> None:
    adapter, _ = adapter_of(burner.pid, **said)
    adapter.snapshot(deadline())
    assert burner.stdin is not None
    assert burner.stdout is not None
    burner.stdin.write(b"x")
    burner.stdout.read(1)
    adapter.snapshot(deadline())
    assert adapter._accounts.total > 0.05


def gone(adapter: LocalAdapter, key: JobKey) -> None:
    with pytest.raises(JobGone):
        adapter.owner(key)


def test_whose_a_job_is_whose_leader_lives_is_told_without_a_wait_or_a_pass(
    monkeypatch: pytest.MonkeyPatch, burner: subprocess.Popen[bytes]
) -> None:
    adapter, key = adapter_of(burner.pid)
    monkeypatch.setattr(processes, "read_all", lambda: pytest.fail("a full pass"))
    owners: list[Owner] = []
    with adapter._one_at_a_time:
        asks = threading.Thread(target=lambda: owners.append(adapter.owner(key)))
        asks.start()
        asks.join(60)
    assert [each.uid for each in owners] == [os.getuid()]


@pytest.mark.parametrize("number", ["9" * 400, "4194305", "x"])
def test_a_number_that_no_process_can_have_is_nobodys_job(number: str) -> None:
    gone(LocalAdapter(Config(), SystemClock(), MemoryStore(), Oneself()), JobKey("local", number, 7))


@pytest.mark.parametrize("note", [("boot", "another-boot"), ("ended", "1")])
def test_a_number_and_start_that_came_again_are_not_the_job_of_before(
    burner: subprocess.Popen[bytes], note: tuple[str, str]
) -> None:
    adapter, key = adapter_of(burner.pid)
    adapter._store.note(key, *note)
    gone(adapter, key)


@pytest.mark.parametrize(
    "call",
    [
        lambda adapter, key: gone(adapter, JobKey(key.manager, key.id, key.start + 1)),
        lambda adapter, _: adapter.snapshot(deadline()),
        lambda adapter, _: adapter.apply([], deadline()),
        lambda adapter, _: adapter.close(restore=True),
    ],
    ids=["owner", "snapshot", "apply", "close"],
)
def test_while_one_thread_looks_another_waits(
    monkeypatch: pytest.MonkeyPatch,
    burner: subprocess.Popen[bytes],
    call: Callable[[LocalAdapter, JobKey], object],
) -> None:
    adapter, key = adapter_of(burner.pid)
    looking, go_on, waited = threading.Event(), threading.Event(), list[bool]()
    look = processes.read_all

    def slowly() -> dict[int, processes.Process]:
        if not looking.is_set():
            looking.set()
            go_on.wait(60)
        return look()

    monkeypatch.setattr(processes, "read_all", slowly)

    def also() -> None:
        call(adapter, key)
        waited.append(go_on.is_set())

    first = threading.Thread(target=adapter.snapshot, args=(deadline(),))
    first.start()
    assert looking.wait(60)
    second = threading.Thread(target=also)
    second.start()
    second.join(0.2)  # without a lock it would be through by now
    go_on.set()
    first.join(60)
    second.join(60)
    assert waited == [True]
