"""The units, as systemd-analyze judges them and as slaqd needs them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slaqd.agent import session
from slaqd.daemon import loop

REPO = Path(__file__).parents[3]
UNITS = REPO / "systemd"
# In tenths. What keeps the agent above 1.2 stands on the page.
MOST_EXPOSED = {"slaqd": 13, "slaqd-agent": 13, "slaqd-agent with hold.conf": 15}
SOFT = re.compile(r"^(\w+)=(no|read-only|default|all|tmpfs|@setuid .*)$")
SECONDS = re.compile(r"^(\w+Sec)=(\d+)s$", re.MULTILINE)

pytestmark = pytest.mark.service


@pytest.fixture(params=MOST_EXPOSED)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def unit(variant: str, tmp_path: Path) -> Path:
    """Lay the units out as they are installed; only their programs are one that is there everywhere."""
    for path in (*UNITS.glob("*.service"), *UNITS.glob("*.socket")):
        text = path.read_text(encoding="utf-8")
        bare = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
        (tmp_path / path.name).write_text(bare, encoding="utf-8")
    name, _, drop_in = variant.partition(" with ")
    if drop_in:
        (tmp_path / f"{name}.service.d").mkdir()
        shutil.copy(UNITS / drop_in, tmp_path / f"{name}.service.d")
    return tmp_path / f"{name}.service"


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def test_systemd_has_nothing_to_say_against_a_unit(unit: Path) -> None:
    # It ends with 0 on unknown keys too: only silence is praise.
    for each in (unit, unit.parent / "slaqd-agent.socket"):
        done = analyze("verify", "--man=no", str(each))
        assert (done.returncode, done.stderr) == (0, "")


def test_systemd_would_say_so_if_a_key_were_unknown(unit: Path) -> None:
    with unit.open("a", encoding="utf-8") as file:
        file.write("[Service]\nProtectEverything=yes\n")
    assert "ProtectEverything" in analyze("verify", "--man=no", str(unit)).stderr


def test_a_unit_is_hardly_exposed(unit: Path, variant: str) -> None:
    most = f"--threshold={MOST_EXPOSED[variant]}"
    done = analyze("security", "--offline=true", most, "--no-pager", str(unit))
    assert done.returncode == 0, done.stdout
    assert f"Overall exposure level for {unit.name}: {paper_says(variant)} " in done.stdout


def paper_says(variant: str) -> str:
    page = (REPO / "docs" / "service.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"\| `systemd-analyze security` \| (\S+) \| (\S+) \| (\S+) \|", page)
    return str(row[list(MOST_EXPOSED).index(variant)])


@pytest.mark.parametrize("name", ["slaqd.service", "slaqd-agent.service", "hold.conf"])
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


def test_the_agent_may_have_a_task_for_each_look_that_hangs_or_goes_on_and_for_its_reader() -> None:
    (most,) = re.findall(
        r"^TasksMax=(\d+)$", (UNITS / "slaqd-agent.service").read_text("utf-8"), re.MULTILINE
    )
    assert int(most) >= 2 * (session.MOST_LOST + session.AT_ONCE) + 8


def test_the_agent_is_root_with_two_capabilities_that_no_child_of_it_can_keep() -> None:
    keys = (UNITS / "slaqd-agent.service").read_text(encoding="utf-8")
    # Ambient ones would outlive becoming a user; only root's are cleared then (capabilities(7)).
    assert re.findall(r"^(?:User|AmbientCapabilities|CapabilityBoundingSet)=(.*)$", keys, re.MULTILINE) == [
        "root",
        "CAP_SETUID CAP_SETGID",
        "",
    ]


def test_slaqd_and_its_agent_speak_of_one_socket() -> None:
    (where,) = re.findall(
        r"^ListenStream=(\S+)$", (UNITS / "slaqd-agent.socket").read_text("utf-8"), re.MULTILINE
    )
    assert f" --agent {where}\n" in (UNITS / "slaqd.service").read_text(encoding="utf-8")


def test_the_configuration_stays_roots() -> None:
    for unit in UNITS.glob("*.service"):
        keys = unit.read_text(encoding="utf-8")
        assert not re.search(r"^ConfigurationDirectory=", keys, re.MULTILINE)
    made = (UNITS / "tmpfiles.d" / "slaqd.conf").read_text(encoding="utf-8")
    assert re.search(r"^d /etc/slaqd 0755 root root -$", made, re.MULTILINE)
