"""Finding the one adapter that the configuration names."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from slaqd.adapter import GROUP, installed, load, load_hands
from slaqd.config import parse_config
from slaqd.daemon.service import check_config
from slaqd.errors import ConfigError
from slaqd.testing import FakeAdapter


def points(**named: str) -> list[EntryPoint]:
    return [EntryPoint(name, value, GROUP) for name, value in named.items()]


def test_the_adapter_of_the_name_is_loaded() -> None:
    found = points(fake="slaqd.testing:FakeAdapter", other="nowhere:Nothing")
    assert load("fake", lambda: found) is FakeAdapter


def test_no_other_adapter_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_stranger.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = points(fake="slaqd.testing:FakeAdapter", stranger="a_stranger:Adapter")
    load("fake", lambda: found)
    assert "a_stranger" not in sys.modules


def test_two_adapters_of_one_name_are_an_error_that_names_both() -> None:
    found = points(fake="slaqd.testing:FakeAdapter") + points(fake="elsewhere:Adapter")
    with pytest.raises(
        ConfigError, match=r"2 adapters are called 'fake': slaqd\.testing:FakeAdapter, elsewhere"
    ):
        load("fake", lambda: found)


def test_a_name_that_nobody_has_is_an_error_that_tells_the_others() -> None:
    with pytest.raises(ConfigError, match="no adapter is called 'slurn'; installed: local, slurm"):
        load("slurn", lambda: points(slurm="a:b", local="c:d"))
    with pytest.raises(ConfigError, match="installed: none"):
        load("slurm", list)


@pytest.mark.parametrize("value", ["no_such_module:Adapter", "slaqd.testing:NoSuchClass"])
def test_an_adapter_that_cant_be_imported_is_an_error(value: str) -> None:
    with pytest.raises(ConfigError, match=r"adapter 'broken' .* can't be loaded"):
        load("broken", lambda: points(broken=value))


def test_hands_are_loaded_by_their_adapters_name_and_need_not_be_there() -> None:
    found = points(fake="slaqd.testing:FakeAdapter", other="nowhere:Nothing")
    assert load_hands("fake", lambda: found) is FakeAdapter
    assert load_hands("slurm", lambda: found) is None
    with pytest.raises(ConfigError, match=r"pair of hands 'other' \(nowhere:Nothing\) can't be loaded"):
        load_hands("other", lambda: found)
    with pytest.raises(ConfigError, match=r"2 pairs of hands are called 'fake': .*; uninstall all but one"):
        load_hands("fake", lambda: found + points(fake="elsewhere:Hands"))


def test_this_machine_is_installed() -> None:
    assert "local" in installed()
    assert load("local").Config.__name__ == "Config"
    made = load_hands("local")
    assert made is not None
    assert made.Config is load("local").Config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[slaqd]\nadapter = 'slurn'\n", r"c\.toml:2: slaqd\.adapter: no adapter is called 'slurn'"),
        ("\n[adapter.slurn]\nx = 1\n", r"c\.toml:2: adapter\.slurn: no adapter of this name is installed"),
        ("[policy]\nname = 'slak'\n", r"c\.toml:2: policy\.name: no policy is called 'slak'; known: .*slaq"),
        ("[adapter.local]\nunit = 1\n", r"c\.toml:2: unknown key 'unit' in \[adapter\.local\]"),
    ],
)
def test_a_check_of_the_configuration_names_file_line_and_key(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_config(parse_config(text, "c.toml"))
