"""A daemon on a socket, slaqctl called here, and a process group that certainly has its leader."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from put_together import Call, Daemon

from slaqd.cli import main
from slaqd.daemon.server import Server


@pytest.fixture(scope="module")
def leader() -> Iterator[str]:
    """Give the number of a living group; ``{leader}`` stands for it where words are listed.

    The test run's own may have lost its leader.
    """
    with subprocess.Popen(["sleep", "3600"], process_group=0) as process:
        yield str(process.pid)
        process.kill()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "slaqd.toml").touch(mode=0o600)
    made = Daemon(tmp_path)
    server = Server(tmp_path / "s.sock", made.verbs.answer)
    yield made
    server.close()
    made.journal.close()


@pytest.fixture
def call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, leader: str
) -> Call:
    """Call slaqctl here, with the daemon's socket; give its status and what it printed."""
    monkeypatch.setenv("SLAQ_SOCKET", str(tmp_path / "s.sock"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def one(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([leader if word == "{leader}" else word for word in words])
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return one
