"""The nursery forks real trainings, tells how they end, and takes them along when it dies."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slaqd.tag import expand
from slaqd.types import JobKey

DEADLINE_S = 60.0


class Nursery:
    """A real nursery process and what it says."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slaqd.demo.nursery", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)

    def order(self, **order: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(msgspec.json.encode(order) + b"\n")
        self.process.stdin.flush()

    def news(self) -> dict[str, Any]:
        return dict(msgspec.json.decode(self._lines.get(timeout=DEADLINE_S)))

    def close(self) -> None:
        for pipe in (self.process.stdin,):
            if pipe:
                pipe.close()
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return True
    return stat.rpartition(b")")[2].split()[0] in (b"Z", b"X")


def points(log: Path) -> list[dict[str, float]]:
    return [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]


def test_a_job_runs_logs_and_is_told_of(nursery: Nursery, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    nursery.order(name="a", kind="linear", seed=1, size=0.05, log=str(log))
    started, ended = nursery.news(), nursery.news()
    assert started["name"] == ended["name"] == "a"
    assert started["pid"] == ended["pid"]
    assert ended["exit"] == 0
    assert 0 < ended["startup_cpu_seconds"] <= ended["cpu_seconds"]
    logged = points(log)
    assert [point["step"] for point in logged] == list(range(len(logged)))
    assert len(logged) > 10
    assert logged[-1]["loss"] < logged[0]["loss"]
    assert started["started"] <= logged[0]["time"] <= logged[-1]["time"] <= ended["ended"]


def test_the_log_holds_what_the_training_computes(nursery: Nursery, tmp_path: Path) -> None:
    from slaqd.demo.trainings import begin  # noqa: PLC0415 - numpy is this test's alone

    nursery.order(name="a", kind="linear", seed=4, size=0.05, log=str(tmp_path / "a"))
    nursery.news()
    nursery.news()
    assert [point["loss"] for point in points(tmp_path / "a")] == pytest.approx(
        list(begin("linear", 4, 0.05))
    )


def test_each_job_leads_a_process_group_of_its_own(nursery: Nursery, tmp_path: Path) -> None:
    for name in ("a", "b"):
        nursery.order(name=name, kind="svm", seed=1, size=1.0, log=str(tmp_path / name))
    pids = [nursery.news()["pid"] for _ in range(2)]
    assert [os.getpgid(pid) for pid in pids] == pids


def test_at_the_end_of_the_orders_it_waits_for_its_jobs(tmp_path: Path) -> None:
    nursery = Nursery()
    nursery.order(name="a", kind="linear", seed=1, size=0.05, log=str(tmp_path / "a"))
    assert nursery.process.stdin
    nursery.process.stdin.close()
    assert nursery.process.wait(DEADLINE_S) == 0
    assert [nursery.news().get("exit") for _ in range(2)] == [None, 0]
    nursery.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_its_end_is_its_jobs_end(nursery: Nursery, tmp_path: Path, number: signal.Signals) -> None:
    for name in ("a", "b"):
        nursery.order(name=name, kind="svm", seed=1, size=1.0, log=str(tmp_path / name))
    pids = [nursery.news()["pid"] for _ in range(2)]
    until(lambda: bool(points(tmp_path / "a")))
    os.kill(pids[0], signal.SIGSTOP)
    nursery.process.send_signal(number)
    nursery.process.wait(DEADLINE_S)
    until(lambda: all(gone(pid) for pid in pids))


PARENT = """
import subprocess, sys
words = [sys.executable, "-m", "slaqd.demo.nursery"]
child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(sys.stdin.buffer.readline())
child.stdin.flush()
child.stdout.readline()
sys.stdout.buffer.write(b"%d" % child.pid + b"\\n")
sys.stdout.flush()
child.wait()
"""


def test_its_parents_end_is_its_end_and_its_jobs_end(tmp_path: Path) -> None:
    order = {"name": "a", "kind": "svm", "seed": 1, "size": 1.0, "log": str(tmp_path / "a")}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        parent.stdin.write(msgspec.json.encode(order) + b"\n")
        parent.stdin.flush()
        pid = int(parent.stdout.readline())
        (job,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        assert not gone(job)
        parent.kill()
    until(lambda: gone(pid) and gone(job))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_job_and_is_told(nursery: Nursery, tmp_path: Path, number: signal.Signals) -> None:
    nursery.order(name="a", kind="svm", seed=1, size=1.0, log=str(tmp_path / "a"))
    pid = nursery.news()["pid"]
    until(lambda: len(points(tmp_path / "a")) > 1)
    os.kill(pid, number)
    ended = nursery.news()
    assert (ended["name"], ended["exit"]) == ("a", -number)
    assert ended["cpu_seconds"] > 0


def test_an_order_that_makes_no_sense_is_refused_and_the_next_is_served(
    nursery: Nursery, tmp_path: Path
) -> None:
    nursery.order(name="a", kind="magic", seed=1, size=1.0, log=str(tmp_path / "a"))
    nursery.order(name="b", kind="linear", seed=1, size=1.0, log=str(tmp_path / "no" / "b"))
    nursery.order(name="c", colour="red")
    nursery.order(name="d", kind="linear", seed=1, size=0.05, log=str(tmp_path / "d"))
    refused = [nursery.news() for _ in range(3)]
    assert [news["name"] for news in refused] == ["a", "b", ""]
    assert "no training is called 'magic'" in refused[0]["error"]
    assert str(tmp_path / "no" / "b") in refused[1]["error"]
    assert nursery.news()["name"] == "d"


def test_an_idle_nursery_uses_no_cpu(nursery: Nursery, tmp_path: Path) -> None:
    nursery.order(name="a", kind="linear", seed=1, size=0.05, log=str(tmp_path / "a"))
    nursery.news()
    nursery.news()

    def ticks() -> int:
        after = Path(f"/proc/{nursery.process.pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(after[11]) + int(after[12])

    before = ticks()
    time.sleep(0.5)
    assert ticks() - before <= 1


class Door:
    """A control socket that answers `register` and `show` with what it is given."""

    def __init__(self, path: Path, answer: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
        self._server = socket.create_server(str(path), family=socket.AF_UNIX)
        self._answer = answer
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection, connection.makefile("rwb") as line:
                raw = line.readline()
                if not raw:
                    return
                question = msgspec.json.decode(raw)
                self.asked.append((question["verb"], question["args"]))
                line.write(msgspec.json.encode({"v": 1, **self._answer(*self.asked[-1])}) + b"\n")

    def close(self, path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(path))
        self._thread.join(DEADLINE_S)
        self._server.close()


def view(job: str, *, wait: bool) -> dict[str, Any]:
    key = {"job": job, "start": 1, "name": "a", "user": "u", "state": "waiting", "pool": "local"}
    return {**key, "lever": "cpus", "min": 1, "max": 8, "submitted": 0.0, "wait": wait}


def test_a_job_registers_itself_and_does_no_work_before_it_is_admitted(tmp_path: Path) -> None:
    shown: list[bytes] = []
    folder = tmp_path / "{out} [1] %j *"
    folder.mkdir()
    log = folder / "a.jsonl"

    def answer(verb: str, args: dict[str, Any]) -> dict[str, Any]:
        if verb == "register":
            return {"ok": {"job": str(args["pgid"]), "wait": True}}
        shown.append(log.read_bytes())
        return {"ok": view(args["job"], wait=len(shown) < 3)}

    door = Door(tmp_path / "s", answer)
    nursery = Nursery("--socket", str(tmp_path / "s"))
    try:
        nursery.order(name="a", kind="linear", seed=1, size=0.05, log=str(log), max=8)
        pid = nursery.news()["pid"]
        assert nursery.news()["exit"] == 0
    finally:
        nursery.close()
        door.close(tmp_path / "s")
    verb, said = door.asked[0]
    assert (verb, said["pgid"], said["name"], said["waits"]) == ("register", pid, "a", True)
    assert (said["tag"]["key"], said["tag"]["max"]) == ("loss", 8)
    job = JobKey("local", str(pid), said["start"])
    pattern = expand(said["tag"]["log"], key=job, user="u", name="a", cwd=said["cwd"])
    assert glob(pattern) == [str(log)]  # noqa: PTH207 - as slaqd does, and Path.glob takes no absolute pattern
    assert shown == [b"", b"", b""]
    assert points(log)


def test_a_job_that_slaqd_refuses_ends_with_an_error_and_no_work(tmp_path: Path) -> None:
    door = Door(tmp_path / "s", lambda *_: {"error": {"code": "refused", "text": "not today"}})
    nursery = Nursery("--socket", str(tmp_path / "s"))
    try:
        nursery.order(name="a", kind="linear", seed=1, size=0.05, log=str(tmp_path / "a"))
        nursery.news()
        ended = nursery.news()
    finally:
        nursery.close()
        door.close(tmp_path / "s")
    assert ended["exit"] == 1
    assert ended["startup_cpu_seconds"] is None
    assert points(tmp_path / "a") == []
