"""The commented default configuration and its page say what the code says."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from slaqd_local import Config as LocalSection

from slaqd.config import (
    AgentSection,
    EnforceSection,
    MetricsSection,
    PolicySection,
    SlaqdSection,
    adapter_config,
    parse_config,
)
from slaqd.errors import ConfigError

REPO = Path(__file__).parents[2]
SHOWN = (REPO / "conf" / "slaqd.toml").read_text(encoding="utf-8")
PAGE = (REPO / "docs" / "configure.md").read_text(encoding="utf-8")
SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "slaqd": SlaqdSection,
    "policy": PolicySection,
    "enforce": EnforceSection,
    "metrics": MetricsSection,
    "agent": AgentSection,
    "adapter.local": LocalSection,
}
NOT_SET = "not set"


def uncommented(text: str) -> str:
    """Take the comment sign off each key, as a user would."""
    return re.sub(r"^# (?=[a-z_]+ = )", "", text, flags=re.MULTILINE)


def keys() -> Iterator[tuple[str, str, object]]:
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            yield section, field.name, field.default


def shown_in(text: str, section: str) -> Mapping[str, Any]:
    table = tomllib.loads(text)
    for part in section.split("."):
        table = table[part]
    return table


def described(section: str) -> Mapping[str, str]:
    """Read the rows of the page's table for one section: key and default."""
    part = PAGE.partition(f"## `[{section}]`\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]+?) \|", part, re.MULTILINE))


def test_the_file_as_it_is_means_the_defaults() -> None:
    config = parse_config(SHOWN, "slaqd.toml")
    assert config.slaqd == SlaqdSection()
    assert config.policy == PolicySection()
    assert config.enforce == EnforceSection()
    assert config.metrics == MetricsSection()
    assert config.agent == AgentSection()
    assert adapter_config(config, "local", LocalSection) == LocalSection()


def test_the_file_is_good_with_every_key_uncommented() -> None:
    config = parse_config(uncommented(SHOWN), "slaqd.toml")
    adapter_config(config, "local", LocalSection)


@pytest.mark.parametrize(("section", "key", "default"), list(keys()))
def test_a_key_is_shown_with_its_real_default(section: str, key: str, default: object) -> None:
    shown = shown_in(uncommented(SHOWN), section)
    assert key in shown
    if default is not None:  # TOML has no word for it: such a key shows an example
        assert msgspec.convert(shown[key], type(default)) == default


@pytest.mark.parametrize("section", SECTIONS)
def test_no_key_is_shown_that_does_not_exist(section: str) -> None:
    assert set(shown_in(uncommented(SHOWN), section)) == set(SECTIONS[section].__struct_fields__)
    assert set(described(section)) == set(SECTIONS[section].__struct_fields__)


@pytest.mark.parametrize(("section", "key", "default"), list(keys()))
def test_the_page_names_a_key_with_its_real_default(section: str, key: str, default: object) -> None:
    said = described(section)[key]
    assert said == (NOT_SET if default is None else f"`{msgspec.json.encode(default).decode()}`")


def test_a_key_that_is_none_is_an_error_that_names_it() -> None:
    spoilt = SHOWN.replace("[policy]\n", "[policy]\nnme = 'fair'\n")
    with pytest.raises(ConfigError, match=r"slaqd\.toml:\d+: unknown key 'nme' in \[policy\]; known: name"):
        parse_config(spoilt, "slaqd.toml")
