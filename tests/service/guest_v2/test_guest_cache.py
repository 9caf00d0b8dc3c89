"""The cache that the guest's image lies in."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from service.guest_v2.guest import cached


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "slaqd"


def fill(path: Path) -> None:
    (path / "image").write_text(path.name)


def test_the_same_recipe_is_made_once_and_another_anew() -> None:
    first = cached("thing", b"recipe", fill)
    made = (first / "image").read_text()
    assert cached("thing", b"recipe", fill) == first
    assert (first / "image").read_text() == made
    assert cached("thing", b"another", fill) != first


def test_what_a_dead_run_left_half_made_is_removed_and_never_used(base: Path) -> None:
    def die(path: Path) -> None:
        (path / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("thing", b"recipe", die)
    whole = cached("thing", b"recipe", fill)
    assert [one.name for one in whole.iterdir()] == ["image"]
    assert {one.name for one in base.iterdir()} == {"thing.lock", whole.name}


def test_two_runs_at_once_make_it_once() -> None:
    made: list[Path] = []
    begun, joined = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        made.append(path)
        begun.set()
        joined.wait(60)
        second.join(0.3)  # time enough for it to go wrong: it has to wait for the lock
        fill(path)

    first, second = (threading.Thread(target=cached, args=("thing", b"recipe", slow)) for _ in range(2))
    first.start()
    assert begun.wait(60)
    second.start()
    joined.set()
    first.join(60)
    second.join(60)
    assert len(made) == 1
