"""Reading /proc, and sorting processes into jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slaqd_local import processes
from slaqd_local.processes import Process, families, parse_stat

TAIL = b" S 1 42 42 0 -1 4194304 101 0 0 0 7 3 20 5 20 0 2 0 63425 3133440 394"


def process(pid: int, parent: int = 1, group: int = 1, start: int = 100, state: str = "S") -> Process:
    return Process(pid, state, parent, group, start, threads=1, own=0, reaped=0)


def table(*each: Process) -> dict[int, Process]:
    return {one.pid: one for one in each}


def test_a_line_is_read_field_by_field() -> None:
    seen = parse_stat(b"43 (python)" + TAIL)
    assert seen == Process(43, "S", 1, 42, 63425, threads=2, own=10, reaped=25)


@given(name=st.binary(max_size=15))
def test_a_name_can_hold_anything(name: bytes) -> None:
    assert parse_stat(b"43 (" + name + b")" + TAIL).group == 42


@given(text=st.binary(max_size=120))
def test_rubbish_is_a_value_error_or_a_process(text: bytes) -> None:
    try:
        parse_stat(text)
    except ValueError:
        return


def test_our_own_line_is_true() -> None:
    seen = processes.read(os.getpid())
    assert seen is not None
    assert (seen.parent, seen.group, seen.alive) == (os.getppid(), os.getpgrp(), True)


@given(st.binary(max_size=15).filter(lambda name: b"\n" not in name))
def test_a_name_is_not_taken_for_a_user(name: bytes) -> None:
    assert processes.parse_uid(b"Name:\t" + name + b"\nUmask:\t0022\nUid:\t7\t8\t8\t8\n") == 7


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1e"])
def test_no_process_gives_itself_another_user_by_its_name(end: str) -> None:
    name = Path(f"/proc/self/task/{os.getpid()}/comm")
    before = name.read_bytes()
    try:
        name.write_bytes(f"{end}Uid:\t4711".encode())
        assert processes.real_uid(os.getpid()) == os.getuid()
    finally:
        name.write_bytes(before)


def test_a_process_that_is_not_there_is_none() -> None:
    assert processes.read(2**22 + 1) is None


@pytest.mark.parametrize(("state", "threads", "alive"), [("Z", 1, False), ("Z", 2, True), ("T", 1, True)])
def test_a_dead_main_thread_is_not_a_dead_process(state: str, threads: int, *, alive: bool) -> None:
    assert Process(1, state, 0, 1, 1, threads, 0, 0).alive is alive


def test_a_job_is_its_group_and_all_descendants() -> None:
    seen = table(
        process(10, group=10), process(11, 10, 10), process(12, 11, 12), process(13, 12, 13), process(9)
    )
    assert families(seen, {10: 100}, {}) == {10: {10, 11, 12, 13}}


def test_an_orphan_that_left_the_group_is_known_from_before() -> None:
    seen = table(process(12, parent=1, group=12), process(13, parent=12, group=12))
    assert families(seen, {10: 100}, {12: (100, 10)}) == {10: {12, 13}}


def test_a_reused_number_is_not_known_from_before() -> None:
    seen = table(process(12, parent=1, group=12, start=900))
    assert families(seen, {10: 100}, {12: (100, 10)}) == {10: set()}


def test_a_group_whose_leader_started_at_another_time_is_another_group() -> None:
    seen = table(process(10, group=10, start=900), process(11, 10, 10))
    assert families(seen, {10: 100}, {}) == {10: set()}


def test_a_job_started_by_a_job_is_its_own() -> None:
    seen = table(process(10, group=10), process(20, parent=10, group=20), process(21, parent=20, group=21))
    assert families(seen, {10: 100, 20: 100}, {}) == {10: {10}, 20: {20, 21}}


def test_slaqd_and_what_it_started_belong_to_no_job() -> None:
    seen = table(process(10, group=10), process(20, parent=10, group=20), process(21, parent=20, group=21))
    assert families(seen, {10: 100}, {}, apart={20}) == {10: {10}}


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.integers(1, 30)), max_size=30),
    st.sets(st.integers(1, 30), max_size=5),
)
def test_no_process_is_in_two_jobs_and_loops_end(rows: list[tuple[int, int, int]], groups: set[int]) -> None:
    seen = table(*[process(pid, parent, group) for pid, parent, group in rows])
    found = families(seen, dict.fromkeys(groups, 100), {})
    everyone = [pid for members in found.values() for pid in members]
    assert len(everyone) == len(set(everyone))
    assert set(found) == groups
