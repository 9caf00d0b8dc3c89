"""`slaqctl run` starts its command whatever is wrong with slaqd, and refuses what its user said wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from dying import dying

from slaqd import wire
from slaqd.daemon.server import Server

PATIENCE_S = 60.0


def started(path: Path, script: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    words: Sequence[str] = (sys.executable, "-c", "from slaqd.cli import main; main()", "run")
    words = [*words, "--socket", str(path), "--", "sh", "-c", script]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def run(path: Path, code: str) -> tuple[int, str, str]:
    """Run a command whose registration gets ``code``; give its status and what was printed."""
    server = Server(path, lambda _request, _uid: wire.failure(code, "that's why"))
    process = started(path, "echo ran; exit 7")
    out, err = process.communicate(timeout=PATIENCE_S)
    server.close()
    return process.returncode, out, err


@pytest.mark.parametrize(
    "code", ["unavailable", "internal", "busy", "not_permitted", "not_found", "version", "a newer word"]
)
def test_what_slaqd_cant_do_for_a_reason_of_its_own_starts_the_command_unmanaged(
    tmp_path: Path, code: str
) -> None:
    status, out, err = run(tmp_path / "s.sock", code)
    assert (status, out) == (7, "ran\n")
    assert err.startswith("slaqctl run: running unmanaged: ")
    assert "that's why" in err


@pytest.mark.parametrize("code", ["bad_request", "refused"])
def test_what_its_user_said_wrong_starts_nothing(tmp_path: Path, code: str) -> None:
    assert run(tmp_path / "s.sock", code) == (1, "", "slaqctl: that's why\n")


def test_a_command_that_is_interrupted_while_its_slaqd_is_waited_for_is_not_called_running(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.sock"
    with dying(path), started(path, "echo ran") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "slaqd ended before it answered; waiting" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_a_working_directory_that_has_no_name_in_utf_8_starts_the_command_unmanaged(tmp_path: Path) -> None:
    odd = tmp_path / "odd\udce9"
    odd.mkdir()
    process = started(tmp_path / "s.sock", "echo ran; exit 7", cwd=odd)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (7, "ran\n")
    assert err.startswith("slaqctl run: running unmanaged: slaqd can't be told the working directory: ")


def test_a_working_directory_that_is_gone_starts_the_command_unmanaged(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    words = [sys.executable, "-c", "from slaqd.cli import main; main()", "run", "--socket", "/nowhere/s"]
    script = 'cd gone && rmdir ../gone && exec "$@"'
    ended = subprocess.run(
        ["sh", "-c", script, "sh", *words, "--", "sh", "-c", "echo ran; exit 7"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (7, "ran\n"), ended.stderr
    assert "Traceback" not in ended.stderr
