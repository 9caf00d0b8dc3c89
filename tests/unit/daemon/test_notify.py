"""What slaqd tells its supervisor, over real sockets."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MethodType

import msgspec
import pytest
from put_together import Daemon

from slaqd.daemon.loop import Loop
from slaqd.daemon.service import _serve
from slaqd.errors import AdapterUnavailable
from slaqd.notify import Notify
from slaqd.types import Snapshot


@pytest.fixture(params=["path", "abstract"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """Listen as systemd does; the second is the address as it stands in the environment."""
    where = str(tmp_path / "notify") if request.param == "path" else f"@slaqd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + where[1:] if where.startswith("@") else where)
        sock.settimeout(0)
        yield sock, where


def heard(sock: socket.socket) -> list[str]:
    said = []
    while True:
        try:
            said.append(sock.recv(4096).decode())
        except BlockingIOError:
            return said


def test_each_word_reaches_the_supervisor(supervisor: tuple[socket.socket, str]) -> None:
    sock, where = supervisor
    notify = Notify({"NOTIFY_SOCKET": where})
    notify.ready()
    notify.cycle("no jobs")
    notify.stopping()
    assert heard(sock) == ["READY=1", "WATCHDOG=1\nSTATUS=no jobs", "STOPPING=1"]


@pytest.mark.parametrize(("limit", "often"), [("60000000", 10.0), ("6000000", 2.0), ("", 10.0)])
def test_a_watchdog_is_fed_three_times_in_its_patience_at_least(limit: str, often: float) -> None:
    assert Notify({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": limit}).often_s(10.0) == often


def test_a_reload_says_when_it_began(supervisor: tuple[socket.socket, str]) -> None:
    sock, where = supervisor
    Notify({"NOTIFY_SOCKET": where}).reloading()
    (said,) = heard(sock)
    first, second = said.split("\n")
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")
    assert int(second.partition("=")[2]) > 0


def test_the_watchdog_waits_an_epoch_longer_than_the_unit_says(supervisor: tuple[socket.socket, str]) -> None:
    sock, where = supervisor
    Notify({"NOTIFY_SOCKET": where, "WATCHDOG_USEC": "90000000"}).patience(3.5)
    Notify({"NOTIFY_SOCKET": where}).patience(3.5)
    assert heard(sock) == ["WATCHDOG_USEC=93500000"]


@pytest.mark.parametrize("text", ["a\nMAINPID=1", "a\rb", "a\x1b[2J", "\ud800", "x" * 5000])
def test_no_sentence_can_become_an_assignment(supervisor: tuple[socket.socket, str], text: str) -> None:
    sock, where = supervisor
    Notify({"NOTIFY_SOCKET": where}).cycle(text)
    (said,) = heard(sock)
    watchdog, status = said.split("\n")
    assert watchdog == "WATCHDOG=1"
    assert status.startswith("STATUS=")
    assert status.isprintable()
    assert len(status) < 400


def test_what_slaqd_starts_doesnt_speak_for_it() -> None:
    environ = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "LANG": "C"}
    Notify(environ)
    assert environ == {"LANG": "C"}


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/at/all"}])
def test_without_a_supervisor_nothing_happens(environ: dict[str, str]) -> None:
    notify = Notify(environ)
    notify.patience(1.0)
    notify.ready()
    notify.cycle("no jobs")
    notify.reloading()
    notify.stopping()


def test_a_cycle_that_rightly_does_nothing_counts_as_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(tmp_path)
    said: list[str] = []
    loop = Loop(daemon.parts, said.append)
    loop.once()

    def fails(_self: object, _deadline: float) -> Snapshot:
        raise AdapterUnavailable("the manager is down")

    monkeypatch.setattr(daemon.adapter, "snapshot", MethodType(fails, daemon.adapter))
    loop.once()
    assert len(said) == 2
    assert "the manager is down" in said[1]
    daemon.journal.close()


def test_it_is_ready_before_its_first_cycle_is_done_and_says_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supervisor: tuple[socket.socket, str]
) -> None:
    sock, where = supervisor
    monkeypatch.setenv("NOTIFY_SOCKET", where)
    daemon = Daemon(tmp_path)
    section = msgspec.structs.replace(daemon.parts.config.slaqd, socket=str(tmp_path / "s.sock"))
    parts = replace(daemon.parts, config=msgspec.structs.replace(daemon.parts.config, slaqd=section))
    said: list[str] = []
    look = daemon.adapter.snapshot

    def looks(_self: object, deadline: float) -> Snapshot:
        said.extend([*heard(sock), "look"])
        signal.raise_signal(signal.SIGTERM)
        return look(deadline)

    monkeypatch.setattr(daemon.adapter, "snapshot", MethodType(looks, daemon.adapter))
    _serve(parts, once=False)
    said += heard(sock)
    assert [line.partition("=")[0] for line in said] == ["READY", "look", "WATCHDOG", "STOPPING", "look"]
    daemon.journal.close()


def test_a_cycle_that_hangs_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon(tmp_path)
    said: list[str] = []
    loop = Loop(daemon.parts, said.append)
    hangs, go_on, look = threading.Event(), threading.Event(), daemon.adapter.snapshot

    def slow(_self: object, deadline: float) -> Snapshot:
        hangs.set()
        go_on.wait()
        return look(deadline)

    monkeypatch.setattr(daemon.adapter, "snapshot", MethodType(slow, daemon.adapter))
    thread = threading.Thread(target=loop.once)
    thread.start()
    hangs.wait()
    assert said == []
    go_on.set()
    thread.join()
    assert len(said) == 1
    daemon.journal.close()
