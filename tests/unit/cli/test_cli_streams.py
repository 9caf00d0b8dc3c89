"""Where slaqctl's words go: nowhere, a full disk, a pipe that is closed, a terminal of another alphabet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOG = "".join(f'{{"step": {step}, "loss": {1 / step}}}\n' for step in range(1, 2000))


def slaqctl(words: list[str], shell: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slaqd.cli", *words]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {shell}', "sh", *command],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
    )


@pytest.fixture
def log(tmp_path: Path) -> str:
    (tmp_path / "log.jsonl").write_text(LOG)
    return str(tmp_path / "log.jsonl")


@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["table", "json"])
def test_words_that_nobody_hears_cost_nothing(log: str, json_: list[str]) -> None:
    for shell in (">&-", "2>&-", ">&- 2>&-"):
        done = slaqctl(["read", log, *json_], shell)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["table", "json"])
def test_a_full_disk_is_a_sentence_and_exit_1(log: str, json_: list[str]) -> None:
    done = slaqctl(["read", log, *json_], ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1:] == [
        "slaqctl: what it has to say can't be written: No space left on device"
    ]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["table", "json"])
def test_a_pipe_that_is_closed_ends_it_without_a_word(log: str, json_: list[str]) -> None:
    done = slaqctl(["read", log, *json_], "| true")
    assert "Traceback" not in done.stderr
    assert "can't be written" not in done.stderr


TABLE = """
from slaqd import cli
cli._speak_anyhow()
from slaqd.cli.output import print_table
print_table(["NAME"], [["größe"]], "")
"""


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-5"])
def test_signs_that_the_terminal_lacks_are_escaped_and_break_no_table(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TABLE],
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stdout.split()) == (0, [b"NAME", rb"gr\xf6\xdfe"])
