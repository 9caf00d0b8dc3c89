"""A real slaqd shows its numbers while it lives, and logs for the journal."""

from __future__ import annotations

import http.client
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from living import Slaqd, wait_for

pytestmark = pytest.mark.service


@pytest.fixture
def slaqd(tmp_path: Path) -> Iterator[Slaqd]:
    made = Slaqd(tmp_path, mode="observe")
    yield made
    made.clean()


def show(slaqd: Slaqd, **keys: str) -> None:
    lines = [f"{key} = '{value}'\n" for key, value in keys.items()]
    with slaqd.config.open("a", encoding="utf-8") as config:
        config.writelines(["[metrics]\n", *lines])


def number(text: str, name: str) -> float:
    (found,) = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found)


def scraped(path: Path) -> str:
    ask = http.client.HTTPConnection("localhost", timeout=60)
    ask.sock = socket.socket(socket.AF_UNIX)
    ask.sock.settimeout(60)
    ask.sock.connect(str(path))
    ask.request("GET", "/metrics")
    body = ask.getresponse().read().decode()
    ask.close()
    return body


def test_the_numbers_follow_the_cycles_at_a_socket_and_in_a_file(slaqd: Slaqd) -> None:
    path, sock = slaqd.folder / "slaqd.prom", slaqd.folder / "m.sock"
    show(slaqd, listen=f"unix:{sock}", textfile=str(path))
    slaqd.start()
    slaqd.run("a", "sleep", "600")
    wait_for(lambda: 'slaqd_jobs{state="running"} 1.0' in scraped(sock), lambda: scraped(sock))
    wait_for(lambda: path.exists() and 'state="running"} 1.0' in path.read_text(), lambda: "an old file")
    before = number(scraped(sock), 'slaqd_cycles_total{result="ok"}')
    slaqd.cycles(2)
    text = scraped(sock)
    assert number(text, 'slaqd_cycles_total{result="ok"}') >= before + 2
    assert number(text, "slaqd_manager_up") == 1
    assert number(text, "slaqd_enforcing") == 0
    assert slaqd.ctl("pause").returncode == 0
    wait_for(lambda: number(scraped(sock), "slaqd_paused") == 1, lambda: scraped(sock))
    assert slaqd.stop() == 0
    assert not path.exists()
    assert not sock.exists()


def test_after_a_kill_the_file_tells_when_the_last_good_cycle_was(slaqd: Slaqd) -> None:
    path = slaqd.folder / "slaqd.prom"
    show(slaqd, textfile=str(path))
    slaqd.start()
    slaqd.cycles(2)
    slaqd.stop(signal.SIGKILL)
    assert number(path.read_text(), "slaqd_cycle_last_success_timestamp_seconds") > 1.7e9


def test_a_place_for_the_numbers_that_cant_be_had_stops_nothing(slaqd: Slaqd) -> None:
    show(slaqd, listen="unix:/proc/m.sock", textfile="/proc/slaqd.prom")
    slaqd.start()
    slaqd.cycles(5)
    assert slaqd.stop() == 0
    said = slaqd.said()
    assert said.count("no metrics: the address can't be used") == 1
    assert said.count("the metrics file can't be written") == 1


def test_an_address_for_everybody_ends_the_start_with_78(slaqd: Slaqd) -> None:
    show(slaqd, listen="0.0.0.0:9101")
    with pytest.raises(AssertionError, match=r"metrics\.listen: '0\.0\.0\.0:9101' is not an address of this"):
        slaqd.start()
    assert slaqd.process
    assert slaqd.process.wait() == 78


def test_the_journal_gets_one_prioritised_sentence_a_cycle(slaqd: Slaqd) -> None:
    slaqd.log.touch()
    seen = slaqd.log.stat()
    slaqd.start(env={"JOURNAL_STREAM": f"{seen.st_dev}:{seen.st_ino}"})
    slaqd.cycles(3)
    assert slaqd.stop() == 0
    lines = slaqd.said().splitlines()
    assert all(re.match(r"<[3-7]>event=", line) for line in lines)
    sentences = [line for line in lines if 'event="no jobs; observing only"' in line]
    cycles = [int(re.findall(r"cycle=(\d+)", line)[0]) for line in sentences]
    assert cycles == list(range(1, len(cycles) + 1))
    assert len(cycles) >= 3


def test_a_name_that_would_steer_the_terminal_is_escaped_in_the_log(slaqd: Slaqd) -> None:
    slaqd.start()
    name = "\x1b[2J\x1b]0;owned\x07\u202e" + "x" * 200
    slaqd.ctl("run", "--name", name, "--", "true")
    wait_for(lambda: "job ended" in slaqd.said(), slaqd.said)
    (line,) = [line for line in slaqd.said().splitlines() if "job ended" in line]
    assert not re.search("[\x00-\x1f\u202e]", line)
    assert "\\x1b[2J" in line.replace("\\\\", "\\")
    assert len(line) < 1000
