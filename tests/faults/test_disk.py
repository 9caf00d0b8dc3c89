"""A full disk under the state directory: observe only, say so, and act again after space is freed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from every_command import Said, call_all, check_all
from living import PATIENCE_S, SLAQD, Slaqd, quota_of, wait_for

pytestmark = [pytest.mark.fault, pytest.mark.service]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of half a megabyte."""
    assert os.geteuid() == 0, "mounting a small disk needs root"
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "slaqdtest", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def slaqd(disk: Path, tmp_path: Path) -> Iterator[Slaqd]:
    made = Slaqd(tmp_path, epoch_s=0.3, state=disk / "state")
    yield made
    (disk / "filler").unlink(missing_ok=True)
    made.clean()


def fill(disk: Path) -> Path:
    """Take the last byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out:
        for size in (4096, 1):
            try:
                while True:
                    out.write(b"x" * size)
            except OSError:
                continue
    return filler


def test_with_a_full_disk_it_observes_says_so_and_acts_again_after(slaqd: Slaqd, disk: Path) -> None:
    slaqd.start()
    slaqd.busy("a", "--min", "5", "--max", "30")
    b = slaqd.busy("b", "--min", "20", "--max", "20")
    slaqd.comes_to("a", units=20)
    slaqd.comes_to("b", units=20)
    filler = fill(disk)
    b.terminate()
    assert b.wait(PATIENCE_S) == 143
    wait_for(lambda: "nothing changed" in slaqd.status().sentence, slaqd.said)
    assert "the journal can't be used" in slaqd.status().sentence
    assert "full" in slaqd.status().sentence
    assert "full" in slaqd.status().alarm
    slaqd.cycles(3)
    assert slaqd.quota("a") == 20
    assert slaqd.job("a").units == 20
    unmanaged = slaqd.ctl("run", "--", "/bin/sh", "-c", "echo ran; exit 7")
    assert (unmanaged.returncode, unmanaged.stdout) == (7, "ran\n")
    assert "running unmanaged: " in unmanaged.stderr
    assert "the journal can't be used" in unmanaged.stderr
    assert slaqd.ctl("pause").returncode == 1
    filler.unlink()
    slaqd.comes_to("a", units=30)
    wait_for(lambda: not slaqd.status().alarm, slaqd.said)
    assert slaqd.said().count("the journal can't be written") == 1
    assert slaqd.said().count("the journal can be written again") == 1
    slaqd.comes_to("b", state="ended")
    assert slaqd.run("c", "/bin/sh", "-c", "exit 3").wait(PATIENCE_S) == 3


def test_with_a_full_disk_every_command_looks_or_says_why_it_cant(slaqd: Slaqd, disk: Path) -> None:
    slaqd.start()
    slaqd.config.chmod(0o600)
    fill(disk)
    full = "the journal can't be used"
    others: dict[str, Said] = {
        **dict.fromkeys(("jobs", "plan"), (0, "")),
        "run": (9, f"running unmanaged: {slaqd.state}/journal.sqlite: {full}"),
        "status": (0, "slaqd"),
        "history": (0, "started"),
        "show": (3, "slaqd knows no job '1'"),
        "drop": (3, "slaqd knows no running job '1'"),
        "doctor": (1, "make room: slaqd only observes while it can't write"),
    }
    check_all(call_all(slaqd), (1, full), others)


def test_a_graceful_stop_lifts_the_quotas_on_a_full_disk_too(slaqd: Slaqd, disk: Path) -> None:
    slaqd.start()
    slaqd.busy("a", "--min", "10", "--max", "10")
    slaqd.comes_to("a", units=10)
    job = int(slaqd.job("a").job)
    filler = fill(disk)
    assert slaqd.stop() == 0
    assert quota_of(job) is None
    filler.unlink()
    slaqd.start()
    slaqd.comes_to("a", units=10)
    assert slaqd.status().alarm == ""


def test_a_kill_on_a_full_disk_loses_nothing(slaqd: Slaqd, disk: Path) -> None:
    slaqd.start()
    slaqd.busy("a", "--min", "10", "--max", "10")
    slaqd.comes_to("a", units=10)
    filler = fill(disk)
    slaqd.cycles(1)
    slaqd.stop(9)
    filler.unlink()
    slaqd.start()
    slaqd.comes_to("a", units=10)
    assert slaqd.status().alarm == ""


def test_a_start_on_a_full_disk_ends_with_74_and_says_where(slaqd: Slaqd, disk: Path) -> None:
    fill(disk)
    words = [*SLAQD, "--config", str(slaqd.config)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 74
    assert str(slaqd.state) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_on_a_full_disk_doesnt_end_the_daemon(slaqd: Slaqd, disk: Path) -> None:
    slaqd.log = disk / "slaqd.log"
    slaqd.state = disk.parent / "state"
    text = slaqd.config.read_text(encoding="utf-8").replace(str(disk / "state"), str(slaqd.state))
    slaqd.config.write_text(text, encoding="utf-8")
    slaqd.start()
    fill(disk)
    slaqd.busy("a", "--min", "10", "--max", "10")
    slaqd.comes_to("a", units=10)
    slaqd.cycles(3)
    assert slaqd.stop() == 0
