"""What this repository promises of itself: its papers, its habits, its wheel."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
MOST_LINES = 600
LOCK = "requirements.lock"
DATA = REPO / "tests" / "data"
IGNORED = [line.rstrip("/") for line in (REPO / ".gitignore").read_text().split()] + [".git"]
NOT_HERE = [  # in two parts each, or this file would name them
    re.compile("/r" + r"oot/"),
    re.compile("py" + r"pi\.org|pythonho" + r"sted|[a-z]-index-url="),
    re.compile(re.escape(f"{REPO}/")),
]
HOMES = re.compile(r"/(home|Users)/[a-z]")
UNFINISHED = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + r"X)\b")
PACKAGES = ("slaqd", "slaqd_local")
SMOKE = """
import sys
from importlib.metadata import distributions
from pathlib import Path

import slaqd
import slaqd_local
from slaqd.adapter import load

here = Path(sys.argv[1])
for package in (slaqd, slaqd_local):
    assert here in Path(package.__file__).parents, package.__file__
(mine,) = distributions(name="slaqd", path=[str(here)])
loaded = {(point.group, point.name): point.load() for point in mine.entry_points}
assert load("local") is loaded["slaqd.adapters", "local"]
assert callable(loaded["console_scripts", "slaqd"])
assert callable(loaded["console_scripts", "slaqctl"])
print(slaqd.__version__)
"""


def files(*patterns: str) -> Iterator[Path]:
    """List the repository's own files: what .gitignore names is left out."""
    for directory, below, names in os.walk(REPO):
        below[:] = [name for name in below if not _ignored(name)]
        for name in names:
            if not _ignored(name) and any(fnmatch(name, pattern) for pattern in patterns or "*"):
                yield Path(directory) / name


def _ignored(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in IGNORED)


def lines_of(paths: Iterator[Path]) -> Iterator[tuple[str, str]]:
    """Give each line with its place."""
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            yield f"{path.relative_to(REPO)}:{number}", line


def found(pattern: re.Pattern[str], paths: Iterator[Path]) -> list[str]:
    return [f"{place}: {line.strip()}" for place, line in lines_of(paths) if pattern.search(line)]


def run(words: Sequence[str], path: Path, cwd: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from this checkout."""
    out = tmp_path_factory.mktemp("dist")
    run(["-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], REPO, REPO)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack it far from the checkout, as an installer would."""
    where = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(where)
    return where


def test_no_file_is_too_long_to_be_read() -> None:
    long = {
        str(path.relative_to(REPO)): count
        for path in files()
        if path.name != LOCK
        and DATA not in path.parents
        and (count := path.read_bytes().count(b"\n")) > MOST_LINES
    }
    assert not long


def test_every_exception_from_a_rule_has_its_reason() -> None:
    sign = "noq" + "a"
    good = re.compile(rf"# (ruff: )?{sign}: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)* +- \S.{{3,}}")
    bare = [
        f"{place}: {line.strip()}"
        for place, line in lines_of(files("*.py"))
        if re.search(rf"#\s*(ruff: )?{sign}\b", line) and not good.search(line)
    ]
    assert not bare


def test_every_ignored_rule_has_its_reason() -> None:
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    ignored = re.search(r"^ignore = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert ignored
    rules = [line for line in ignored[1].splitlines() if line.strip()]
    assert rules
    assert not [line for line in rules if not re.fullmatch(r'\s*"[A-Z]+[0-9]+",\s+# \S.*', line)]


def test_nothing_is_left_to_be_done() -> None:
    assert not found(UNFINISHED, files("*.py", "*.sh", "*.md", "*.toml", "Makefile"))


def test_no_file_names_this_machine_or_a_registry() -> None:
    assert not [hit for pattern in NOT_HERE for hit in found(pattern, files())]


def test_no_home_directory_is_named_but_made_up_ones_of_tests() -> None:
    assert not [hit for hit in found(HOMES, files()) if not hit.startswith("tests/")]


def test_the_licence_is_mit() -> None:
    text = (REPO / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License\n")
    assert "without restriction, including without limitation the rights" in text
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "MIT"


def test_the_changelog_is_open_for_the_next_line() -> None:
    text = (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[0] == "Unreleased"


def test_every_link_between_the_papers_leads_somewhere() -> None:
    link = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
    broken = [
        f"{path.relative_to(REPO)}: {target}"
        for path in files("*.md")
        for target in link.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert not broken


def test_every_page_is_in_the_index() -> None:
    index = (REPO / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (REPO / "docs").glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\(([a-z-]+\.md)\)", index))


def test_the_ci_runs_the_readmes_test_command_and_nothing_else() -> None:
    assert "\nmake test " in (REPO / "README.md").read_text(encoding="utf-8")
    script = (REPO / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    said = [line for line in script if line and not line.startswith("#")]
    assert said == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "exec make test"]
    workflow = (REPO / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert [step for step in re.findall(r"run: (.*)", workflow) if "apt-get" not in step] == ["make test"]
    hooks = (REPO / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"entry: (.*)", hooks) == ["make check"]


def test_make_demo_passes_its_settings_on_as_they_are() -> None:
    words = ["make", "--dry-run", "--silent", "demo", "OUT=my out/[1]", "SEED=7", "JOBS=3"]
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if "slaqctl demo" in line]
    assert shlex.split(line)[2:] == ["--jobs", "3", "--seed", "7", "--out", "my out/[1]"]


def test_every_requirement_in_the_lock_has_hashes() -> None:
    blocks = re.split(r"^(?=\S)", (REPO / LOCK).read_text(encoding="utf-8"), flags=re.MULTILINE)
    pinned = [block for block in blocks if "==" in block.partition("\n")[0]]
    assert pinned
    assert not [block.partition("\n")[0] for block in pinned if "--hash=sha256:" not in block]


def test_the_wheel_holds_slaqd_and_the_local_adapter(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.partition("/")[0] for name in names if not re.match(r"[^/]*\.(dist-info|data)/", name)}
    assert tops == set(PACKAGES)
    for source in (REPO / "slaqd", REPO / "adapters" / "slaqd_local"):
        wanted = {
            f"{source.name}/{path.relative_to(source)}"
            for path in source.rglob("*")
            if path.is_file() and not any(_ignored(part) for part in path.relative_to(source).parts)
        }
        assert wanted <= names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    shared = {name.partition(".data/data/share/slaqd/")[2] for name in names} - {""}
    assert {
        "slaqd.toml",
        "systemd/slaqd.service",
        "systemd/slaqd-agent.service",
        "systemd/hold.conf",
    } <= shared


def test_the_wheel_works_without_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    version = run(["-c", SMOKE, str(unpacked)], unpacked, tmp_path).strip()
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert version == project["version"]
    assert "--check-config" in run(["-m", "slaqd.daemon", "--help"], unpacked, tmp_path)
    said = run(["-c", "from slaqd.cli import main; main(['--help'])"], unpacked, tmp_path)
    assert "restore" in said


def test_each_guarantee_names_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (REPO / "docs" / "guarantees.md").read_text(encoding="utf-8")))
    found = {
        name
        for path in (REPO / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:    )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert named <= found, sorted(named - found)
