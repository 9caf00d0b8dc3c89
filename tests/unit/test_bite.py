"""That tests bite is itself asked for: by the commands that everybody runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPO = Path(__file__).parents[2]
ROOMS = ["predict", "allocate", "act"]


def test_make_test_asks_for_every_branch_and_make_soak_for_every_change() -> None:
    rules = dict(
        re.findall(r"^([a-z-]+):([^#\n]*)", (REPO / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert "coverage" in rules["test"].split()
    assert "mutation" in rules["soak"].split()
    tools = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["coverage"]["run"]["branch"] is True
    assert tools["coverage"]["run"]["source_pkgs"] == [f"slaqd.{room}" for room in ROOMS]
    assert tools["coverage"]["report"]["fail_under"] == 100
    assert tools["mutmut"]["only_mutate"] == [f"slaqd/{room}/*" for room in ROOMS]
    assert "\nleast=85\n" in (REPO / "tools" / "mutation.sh").read_text(encoding="utf-8")
