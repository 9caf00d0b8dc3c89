"""Every command against a slaqd that is gone, hung, full, of another version or another's: a clear word."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest
from every_command import WORDS, Said, call_all, check_all, leader, talking, words_of
from living import Make, Slaqd, wait_for

from slaqd import client as clients
from slaqd.cli import COMMANDS, main

pytestmark = pytest.mark.service

GONE = "no slaqd is running there; start one with: slaqd"
MUTE = f"slaqd does not answer within {clients.TIMEOUT_S:g} s"
STRANGER = 20_001
NEWER = "import slaqd.wire\nslaqd.wire.VERSION = 2"


WITHOUT: Mapping[str, Said] = {
    "run": (9, "running unmanaged: "),
    "history": (0, "started"),
    "restore": (0, "jobs given back what they had: 0"),
    "drop": (3, "no daemon is running, and the journal knows no running job '1'"),
    "doctor": (0, GONE),
}
"""What is done without a slaqd is done by its journal."""

SILENT: Mapping[str, Said] = {
    "run": (9, "running unmanaged: "),
    "history": (0, "started"),
    "doctor": (4, MUTE),
}
"""The journal can be read beside a slaqd that doesn't answer; what it holds is not taken from it."""


@pytest.fixture
def slaqd(make: Make) -> Slaqd:
    made = make()
    made.config.chmod(0o600)
    return made


def test_every_command_that_talks_to_a_slaqd_is_called_here_and_waits_less_than_two_seconds() -> None:
    assert talking() == set(WORDS)
    assert clients.TIMEOUT_S < 2


def test_a_slaqd_that_never_ran(slaqd: Slaqd) -> None:
    unread = f"{GONE}; and without it: {slaqd.state}/journal.sqlite: the journal can't be read"
    check_all(call_all(slaqd), (4, f"slaqctl: {slaqd.socket}: {GONE}"), {**WITHOUT, "history": (4, unread)})


def test_a_slaqd_that_left_its_socket_behind(slaqd: Slaqd) -> None:
    slaqd.start().stop(signal.SIGKILL)
    assert slaqd.socket.is_socket()
    check_all(call_all(slaqd), (4, f"slaqctl: {slaqd.socket}: {GONE}"), WITHOUT)


def test_a_slaqd_that_hangs(slaqd: Slaqd) -> None:
    slaqd.start()
    assert slaqd.process is not None
    slaqd.process.send_signal(signal.SIGSTOP)
    check_all(call_all(slaqd), (4, MUTE), SILENT)


def test_what_was_asked_of_a_slaqd_that_hung_is_not_done_once_it_goes_on(slaqd: Slaqd) -> None:
    slaqd.start()
    slaqd.busy("known", "--max", "7")
    job = slaqd.comes_to("known", units=7).job
    assert slaqd.process is not None
    slaqd.process.send_signal(signal.SIGSTOP)
    for words in (("pause",), ("pause", job), ("drop", job)):
        done = slaqd.ctl(*words)
        assert (done.returncode, MUTE in done.stderr) == (4, True)
    slaqd.run("unmanaged", "sleep", "3600")
    wait_for(lambda: "running unmanaged: " in slaqd.told("unmanaged"), lambda: slaqd.told("unmanaged"))
    slaqd.process.send_signal(signal.SIGCONT)
    slaqd.cycles(3)
    assert not slaqd.status().paused
    view = slaqd.jobs()
    assert list(view) == ["known"]
    assert (view["known"].units, view["known"].paused) == (7, False)


@contextmanager
def crowd(path: Path) -> Iterator[int]:
    """Connect until not one more is taken; give how many are."""
    waiting: list[socket.socket] = []
    try:
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].settimeout(0)
            waiting[-1].connect(str(path))
    except BlockingIOError:
        yield len(waiting) - 1
    finally:
        for each in waiting:
            each.close()


def test_a_slaqd_so_full_that_no_connection_is_taken(slaqd: Slaqd) -> None:
    slaqd.start()
    assert slaqd.process is not None
    slaqd.process.send_signal(signal.SIGSTOP)
    with crowd(slaqd.socket) as count:
        assert count > 0
        check_all(call_all(slaqd), (4, MUTE), SILENT)


def test_a_slaqd_that_is_older_than_slaqctl(slaqd: Slaqd) -> None:
    said = "slaqd speaks version 1, this slaqctl 2"
    slaqd.start()
    check_all(call_all(slaqd, before=NEWER), (4, said), {**SILENT, "doctor": (4, said)})


def test_a_slaqd_that_is_newer_than_slaqctl(slaqd: Slaqd) -> None:
    said = "slaqd speaks version 2, this slaqctl 1"
    program = f"import sys\n{NEWER}\nfrom slaqd.daemon.__main__ import main\nmain()"
    with slaqd.log.open("ab") as log:
        words = [sys.executable, "-c", program, "--config", str(slaqd.config)]
        slaqd.process = subprocess.Popen(words, stderr=log, env=slaqd.env)
    wait_for(lambda: "cycle=1" in slaqd.said(), slaqd.said)
    check_all(call_all(slaqd), (4, said), {**SILENT, "doctor": (4, said)})


def as_stranger(words: Sequence[str]) -> Said:
    """Call slaqctl in a child that is really another user; give how it ended and what it said."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            sys.stdout = sys.stderr = os.fdopen(write, "w", buffering=1)  # pytest has put its own there
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setgroups([])
            os.setresuid(STRANGER, STRANGER, STRANGER)
            main(words)
        except SystemExit as end:
            os._exit(int(end.code or 0))
        finally:
            os._exit(99)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as out:
        said = out.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.fixture
def not_ours() -> Iterator[Slaqd]:
    """Start a slaqd whose configuration everybody can read; pytest's own folders are shut to others."""
    with tempfile.TemporaryDirectory(prefix="slaqd-") as folder:
        Path(folder).chmod(0o755)
        made = Slaqd(Path(folder))
        made.config.chmod(0o644)
        yield made.start()
        made.clean()


def test_a_slaqd_of_another_user(not_ours: Slaqd) -> None:
    """Its socket is shut to others, and the caller really has another uid."""
    assert os.geteuid() == 0, "becoming another user needs root"
    for module in COMMANDS.values():
        import_module(module)  # the stranger may not be able to read them
    with leader() as group:
        seen = {name: as_stranger(words_of(not_ours, said, group)) for name, said in WORDS.items()}
    others: dict[str, Said] = {
        "run": (9, "running unmanaged: "),
        "adopt": (5, "belongs to somebody else"),
        "doctor": (5, "do: ask as root, or as the user that slaqd runs as"),
    }
    usual = f"slaqctl: {not_ours.socket}: permission denied: this slaqd serves another user"
    check_all(seen, (5, usual), others)
