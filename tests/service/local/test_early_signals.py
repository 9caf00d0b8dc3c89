"""Signals to a program that is still being loaded: it is held at its first import from elsewhere."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from living import PATIENCE_S, Make, wait_for

pytestmark = pytest.mark.service

# Both programs import click first. This one waits until the gate was opened and shut, then gives way.
HOLDS = """
import os, sys
here = os.path.dirname(__file__)
with open(os.path.join(here, "gate")) as gate:
    gate.read()
sys.path.remove(here)
del sys.modules["click"]
import click
"""


class Held:
    """A program that waits at its first import, until `gate` is shut."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "held"
        self.folder.mkdir()
        self.gate, self.log = self.folder / "gate", folder / "held.log"
        os.mkfifo(self.gate)
        (self.folder / "click.py").write_text(HOLDS, encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self, *words: str, before: Sequence[str] = (), stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        paths = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", *words],
                stdin=stdin,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        return self.process

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def comes_to_say(self, words: str) -> None:
        process = self.process
        assert process is not None
        wait_for(lambda: words in self.said() or process.poll() is not None, self.said)
        assert words in self.said(), process.poll()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    made = Held(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.terminate()
        made.process.wait(PATIENCE_S)


def test_a_reload_asked_for_while_slaqd_is_loaded_is_done_before_its_first_cycle(
    held: Held, make: Make
) -> None:
    process = held.start("slaqd.daemon", "--config", str(make().config))
    with held.gate.open("wb"):
        process.send_signal(signal.SIGHUP)
    held.comes_to_say("cycle=1")
    said = held.said()
    assert 0 < said.find("the configuration was read anew") < said.index("cycle=1")
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("program", ["slaqd.daemon", "slaqd.agent"])
def test_sigterm_while_a_program_is_loaded_ends_it_as_systemd_expects(held: Held, program: str) -> None:
    process = held.start(program)
    with held.gate.open("wb"):
        process.terminate()
        # systemd.service(5): an end by SIGTERM is a clean one.
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


@pytest.mark.parametrize("program", ["slaqd.daemon", "slaqd.agent"])
def test_a_program_whose_terminal_is_closed_while_it_is_loaded_ends(held: Held, program: str) -> None:
    leader, follower = pty.openpty()
    process = held.start(program, before=["setsid", "--ctty"], stdin=follower)
    os.close(follower)
    with held.gate.open("wb"):
        os.close(leader)
        assert process.wait(PATIENCE_S) == -signal.SIGHUP


@pytest.mark.skipif(os.geteuid() != 0, reason="starts the agent")
def test_sighup_ends_the_agent_neither_while_it_is_loaded_nor_later(held: Held, tmp_path: Path) -> None:
    where, config = tmp_path / "a.sock", tmp_path / "slaqd.toml"
    config.write_text("[agent]\nuser = 'root'\n", encoding="utf-8")
    process = held.start("slaqd.agent", "--config", str(config), "--socket", str(where))
    with held.gate.open("wb"):
        process.send_signal(signal.SIGHUP)
    held.comes_to_say("slaqd-agent serves")
    process.send_signal(signal.SIGHUP)
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(where))
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1) == b""
    assert process.poll() is None


@pytest.mark.parametrize("words", [("--once",), ("--check-config",)])
def test_what_ends_by_itself_hears_sighup_as_any_other_command(make: Make, words: Sequence[str]) -> None:
    config = make().config
    script = (
        "import signal, sys, slaqd.daemon.command as room\n"
        "room.load_config = lambda _path: signal.raise_signal(signal.SIGHUP)\n"
        "from slaqd.daemon.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--config", str(config), *words], check=False, timeout=PATIENCE_S
    )
    assert done.returncode == -signal.SIGHUP
