"""The units, as systemd-analyze judges them and as slaqd needs them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slaqd.daemon import loop

REPO = Path(__file__).parents[3]
UNITS = REPO / "systemd"
MOST_EXPOSED = 15  # in tenths
SOFT = re.compile(r"^(\w+)=(no|read-only|default|all)$")
SECONDS = re.compile(r"^(\w+Sec)=(\d+)s$", re.MULTILINE)

pytestmark = pytest.mark.service


@pytest.fixture(params=["slaqd", "slaqd with local.conf"])
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Lay the unit out as it is installed; only its program is one that is there everywhere."""
    text = (UNITS / "slaqd.service").read_text(encoding="utf-8")
    path = tmp_path / "slaqd.service"
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE), "utf-8")
    if "local" in request.param:
        (tmp_path / "slaqd.service.d").mkdir()
        shutil.copy(UNITS / "local.conf", tmp_path / "slaqd.service.d")
    return path


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def test_systemd_has_nothing_to_say_against_a_unit(unit: Path) -> None:
    # It ends with 0 on unknown keys too: only silence is praise.
    done = analyze("verify", "--man=no", str(unit))
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_would_say_so_if_a_key_were_unknown(unit: Path) -> None:
    with unit.open("a", encoding="utf-8") as file:
        file.write("ProtectEverything=yes\n")
    assert "ProtectEverything" in analyze("verify", "--man=no", str(unit)).stderr


def test_a_unit_is_hardly_exposed(unit: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(unit))
    assert done.returncode == 0, done.stdout
    assert f"Overall exposure level for slaqd.service: {paper_says(unit)} " in done.stdout


def paper_says(unit: Path) -> str:
    page = (REPO / "docs" / "service.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"\| `systemd-analyze security` \| (\S+) \| (\S+) \|", page)
    return str(row[(unit.parent / "slaqd.service.d").exists()])


@pytest.mark.parametrize("name", ["slaqd.service", "local.conf"])
def test_each_soft_line_has_its_reason_above_it(name: str) -> None:
    lines = (UNITS / name).read_text(encoding="utf-8").splitlines()
    soft = [number for number, line in enumerate(lines) if SOFT.match(line)]
    assert soft
    for number in soft:
        above = number - 1
        while "=" in lines[above] and not lines[above].startswith("#"):
            above -= 1
        assert lines[above].startswith("# "), lines[number]


def test_no_cycle_within_its_deadlines_wakes_the_watchdog() -> None:
    limits = dict(SECONDS.findall((UNITS / "slaqd.service").read_text(encoding="utf-8")))
    # An act beside the cycle (restore) may hold it up by as much again.
    longest = 2 * (loop._SNAPSHOT_S + loop._APPLY_S)
    assert int(limits["WatchdogSec"]) > longest
    assert int(limits["TimeoutStopSec"]) > longest


def test_the_configuration_stays_roots() -> None:
    keys = (UNITS / "slaqd.service").read_text(encoding="utf-8")
    assert not re.search(r"^ConfigurationDirectory=", keys, re.MULTILINE)
    made = (UNITS / "tmpfiles.d" / "slaqd.conf").read_text(encoding="utf-8")
    assert re.search(r"^d /etc/slaqd 0755 root root -$", made, re.MULTILINE)
