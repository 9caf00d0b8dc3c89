"""The configuration: what it takes, and where it says a mistake stands."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaqd import config as config_module
from slaqd.config import Places, adapter_config, default_places, load_config, parse_config, place
from slaqd.errors import ConfigError
from slaqd.types import Mode, Struct


class Section(Struct, frozen=True):
    units: Annotated[int, msgspec.Meta(ge=1)] = 4


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "here.toml")
    return str(caught.value)


def test_an_empty_file_gives_the_defaults_and_they_only_observe() -> None:
    config = parse_config("", "here.toml")
    assert config.slaqd.mode is Mode.OBSERVE
    assert config.slaqd.epoch_s == 3.0
    assert config.policy.name == "slaq"


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("[slaqd]\nmode = 'observe'\n\nepoc_s = 3\n", 4, "epoc_s"),
        ("# a word\n\n[polcy]\nname = 'fair'\n", 3, "polcy"),
        ("speed = 3\n", 1, "speed"),
        ("[slaqd]\nmode = 'observe'\n[policy]\nname = 'fair'\nmode = 'x'\n", 5, "mode"),
        ("\nslaqd.mod = 'x'\n", 2, "mod"),
        ("\n\nslaqd = { mod = 'x' }\n", 3, "mod"),
        ("[slaqd]\n'na me' = 3\n", 2, "na me"),
        ("[slaqd]\nmode = 'observe'\n[slaqd.more]\na = 1\n", 3, "more"),
        ("path = 'x'\n", 1, "path"),
        ("\ntext = 'x'\n", 2, "text"),
    ],
)
def test_an_unknown_key_is_named_with_file_and_line(text: str, line: int, key: str) -> None:
    said = complaint(text)
    assert said.startswith(f"here.toml:{line}: ")
    assert f"unknown key {key!r}" in said


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("[slaqd]\nmode = 'on'\n", 2, "slaqd.mode"),
        ("[slaqd]\n\nepoch_s = 'three'\n", 3, "slaqd.epoch_s"),
        ("[slaqd]\nepoch_s = nan\n", 2, "slaqd.epoch_s"),
        ("[slaqd]\nepoch_s = inf\n", 2, "slaqd.epoch_s"),
        ("[slaqd]\nepoch_s = 0\n", 2, "slaqd.epoch_s"),
        ("[slaqd]\nepoch_s = 1e-300\n", 2, "slaqd.epoch_s"),
        ("[slaqd]\nepoch_s = 0.049\n", 2, "slaqd.epoch_s"),
        ("[slaqd]\nstate_dir = 7\n", 2, "slaqd.state_dir"),
        ("slaqd = 3\n", 1, "slaqd"),
        ("[[slaqd]]\nmode = 'observe'\n", 1, "slaqd"),
        ("[adapter]\n\nlocal = 3\n", 3, "adapter.local"),
        ("\nadapter = 3\n", 2, "adapter"),
    ],
)
def test_a_wrong_value_is_named_with_file_line_and_key(text: str, line: int, key: str) -> None:
    assert complaint(text).startswith(f"here.toml:{line}: {key}: ")


@pytest.mark.parametrize("text", ["[slaqd\n", "mode = \n", "a = " + "[" * 5000, "\x00", "a = 1\na = 2\n"])
def test_what_is_no_toml_is_said_with_the_file(text: str) -> None:
    assert complaint(text).startswith("here.toml: not TOML: ")


@given(st.text(max_size=80))
def test_any_text_is_a_configuration_or_a_config_error(text: str) -> None:
    try:
        parse_config(text, "here.toml")
    except ConfigError as error:
        assert str(error).startswith("here.toml:")  # noqa: PT017 - both ways out are fine, others are not


@given(
    st.sampled_from(["slaqd", "policy"]), st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.integers(0, 5)
)
def test_the_line_of_an_unknown_key_is_its_line(section: str, key: str, above: int) -> None:
    text = "# above\n" * above + f"[{section}]\n{key} = []\n"
    assert complaint(text).startswith(f"here.toml:{above + 2}: ")


def test_an_adapters_section_is_strict_too() -> None:
    config = parse_config("[adapter.fake]\n\nunit = 3\n", "here.toml")
    with pytest.raises(
        ConfigError, match=r"here\.toml:3: unknown key 'unit' in \[adapter\.fake\]; known: units"
    ):
        adapter_config(config, "fake", Section)
    config = parse_config("[adapter.fake]\nunits = 0\n", "here.toml")
    with pytest.raises(ConfigError, match=r"here\.toml:2: adapter\.fake\.units: "):
        adapter_config(config, "fake", Section)


def test_an_adapter_without_a_section_has_its_defaults() -> None:
    assert adapter_config(parse_config("", "x"), "fake", Section) == Section()


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    missing = tmp_path / "no.toml"
    with pytest.raises(ConfigError, match=re.escape(f"{missing}: can't be read: No such file or directory")):
        load_config(missing)
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path)


def test_bytes_that_are_no_text_are_said_to_be_none(tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.toml"
    rubbish.write_bytes(bytes(range(128, 256)))
    with pytest.raises(ConfigError, match=re.escape(f"{rubbish}: can't be read: it is not UTF-8 text")):
        load_config(rubbish)


def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    for each in (pipe, Path("/dev/zero")):
        with pytest.raises(ConfigError, match=re.escape(f"{each}: can't be read: it is no regular file")):
            load_config(each)


def test_a_file_that_is_larger_than_any_configuration_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * config_module.LARGEST)
    assert load_config(large).path == str(large)
    large.write_bytes(b"#" * (config_module.LARGEST + 1))
    with pytest.raises(ConfigError, match=re.escape(f"{large}: can't be read: it has more than 1024 KiB")):
        load_config(large)


def test_places_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    (tmp_path / "c.toml").write_text("[slaqd]\nstate_dir = 'state'\nsocket = '~/s.sock'\n", encoding="utf-8")
    config = load_config(Path("c.toml"))
    assert config.slaqd.state_dir == str(tmp_path / "state")
    assert config.slaqd.socket == "/home/ada/s.sock"


def test_a_user_has_the_xdg_places() -> None:
    places = default_places({"HOME": "/home/ada", "XDG_RUNTIME_DIR": "/run/user/7"}, 7)
    assert places.config == Path("/home/ada/.config/slaqd/slaqd.toml")
    assert places.state_dir == Path("/home/ada/.local/state/slaqd")
    assert places.socket == Path("/run/user/7/slaqd/slaqd.sock")


def test_without_a_login_session_the_socket_lies_with_the_state() -> None:
    places = default_places({"HOME": "/home/ada", "XDG_STATE_HOME": "/s"}, 7)
    assert places.socket == Path("/s/slaqd/slaqd.sock")
    assert places.state_dir == Path("/s/slaqd")


def test_root_has_the_places_of_the_service() -> None:
    places = default_places({"HOME": "/root"}, 0)
    assert places.config == Path("/etc/slaqd/slaqd.toml")
    assert places.state_dir == Path("/var/lib/slaqd")
    assert places.socket == Path("/run/slaqd/slaqd.sock")


def test_systemd_says_where_the_service_has_its_directories() -> None:
    places = default_places({"STATE_DIRECTORY": "/v/s", "RUNTIME_DIRECTORY": "/r/s"}, 0)
    assert places.state_dir == Path("/v/s")
    assert places.socket == Path("/r/s/slaqd.sock")
    assert default_places({"STATE_DIRECTORY": "/v/s", "RUNTIME_DIRECTORY": "/r/s"}, 7).socket == places.socket
    assert default_places({"STATE_DIRECTORY": "/v/s", "RUNTIME_DIRECTORY": "/r/s"}, 7).state_dir == Path(
        "/v/s"
    )


def test_a_place_in_the_file_is_said_with_its_line() -> None:
    config = parse_config("\n[policy]\nname = 'x'\n", "here.toml")
    assert place(config, "policy", "name") == "here.toml:3: policy.name"
    assert place(parse_config("", ""), "policy", "name") == "the defaults: policy.name"


@pytest.mark.parametrize("key", ["state_dir", "socket"])
def test_the_home_of_nobody_is_named_with_its_line(tmp_path: Path, key: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"[slaqd]\n{key} = '~no-such-user/x'\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}:2: slaqd.{key}: ")


@pytest.mark.parametrize(
    ("text", "line", "key", "why"),
    [
        ("[slaqd]\nstate_dir = '/a\\u0000b'", 2, "slaqd.state_dir", "NUL"),
        ("[slaqd]\nsocket = '/a\\u0000b'", 2, "slaqd.socket", "NUL"),
        (f"[slaqd]\nsocket = '/{'x' * 107}'", 2, "slaqd.socket", "at most 107 bytes"),
        (f"[slaqd]\nsocket = '/{'é' * 54}'", 2, "slaqd.socket", "at most 107 bytes"),
        ("[slaqd]\nsocket = '/etc'", 2, "slaqd.socket", "is a directory"),
        ("[agent]\nuser = 'a'\nsocket = '/a\\u0000b'", 3, "agent.socket", "not an absolute path"),
        ("[agent]\nsocket = 'agent.sock'", 2, "agent.socket", "not an absolute path"),
        (f"[agent]\nsocket = '/{'x' * 107}'", 2, "agent.socket", "at most 107 bytes"),
        ("[agent]\nsocket = '/etc'", 2, "agent.socket", "is a directory"),
        ("[metrics]\nlisten = 'unix:/etc'", 2, "metrics.listen", "is a directory"),
        ("slaqd.socket = '/a/s'\n\nmetrics.listen = 'unix:/a/b/../s'", 3, "metrics.listen", "slaqd.socket"),
        ("slaqd.socket = '/a/s'\nagent.socket = '/a/s'", 2, "agent.socket", "is the same as slaqd.socket"),
    ],
)
def test_a_place_where_nothing_could_start_is_an_error_with_its_line(
    tmp_path: Path, text: str, line: int, key: str, why: str
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text.replace("'", '"') + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(why)) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}:{line}: {key}: ")


def test_the_longest_path_that_a_socket_can_have_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"slaqd.socket = '/{'x' * 106}'\n", encoding="utf-8")
    assert len(load_config(path).slaqd.socket) == 107


@pytest.mark.parametrize("missing", ["nothing there", "a file in the way"])
def test_without_a_file_in_the_default_place_the_defaults_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    where = tmp_path / "slaqd" / "slaqd.toml"
    if missing == "a file in the way":
        where.parent.write_text("", encoding="utf-8")
    monkeypatch.setattr(config_module, "default_places", lambda *_: Places(where, tmp_path, tmp_path / "s"))
    assert load_config().slaqd.mode is Mode.OBSERVE


def test_a_default_place_that_cant_be_entered_is_an_error_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "slaqd.toml"
    where.symlink_to(where)  # stands for a folder of somebody else's: root may enter those
    monkeypatch.setattr(config_module, "default_places", lambda *_: Places(where, tmp_path, tmp_path / "s"))
    with pytest.raises(ConfigError, match=f"{where}: can't be read"):
        load_config()
