"""What ``[metrics]`` may say, and what is refused with the reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slaqd.config import Config, parse_config
from slaqd.daemon.exporter import Exporter, parse_address, places
from slaqd.daemon.scrape import Address
from slaqd.daemon.service import check_config
from slaqd.daemon.view import View
from slaqd.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9101", Address(host="127.0.0.1", port=9101)),
        ("127.8.9.1:1", Address(host="127.8.9.1", port=1)),
        ("localhost:9101", Address(host="127.0.0.1", port=9101)),
        ("[::1]:9101", Address(host="::1", port=9101)),
        ("unix:/run/slaqd/metrics.sock", Address(path=Path("/run/slaqd/metrics.sock"))),
    ],
)
def test_an_address_of_this_machine_is_understood(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:9101", "[::]:9101", ":9101", "192.168.1.7:9101", "head.example:9101", "127.0.0.1.example:1"],
)
def test_an_address_that_others_can_reach_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match="not an address of this machine alone: the whole network could"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9101", "neither HOST:PORT nor unix:"),
        ("127.0.0.1", "neither"),
        ("127.0.0.1:0", "neither"),
        ("127.0.0.1:65536", "neither"),
        ("127.0.0.1:" + "9" * 5000, "neither"),
        ("127.0.0.1:٣", "neither"),
        ("http://127.0.0.1:9101/", "neither"),
        ("unix:metrics.sock", "not an absolute path"),
        ("unix:@abstract", "not an absolute path"),
        ("unix:/" + "x" * 200, "at most 107 bytes"),
    ],
)
def test_what_is_no_address_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            'listen = "0.0.0.0:9101"',
            r"f\.toml:2: metrics\.listen: '0\.0\.0\.0:9101' is not an address of this machine",
        ),
        ('textfile = "slaqd.prom"', r"f\.toml:2: metrics\.textfile: 'slaqd\.prom' is not an absolute path"),
        ('textfile = "/var/slaqd.txt"', r"metrics\.textfile: .* must end in \.prom"),
        ('listen = "[::1]:9"\ntextfile = "x"', r"f\.toml:3: metrics\.textfile"),
        ("listen = 9101", r"f\.toml:2: metrics\.listen: Expected `str`"),
    ],
)
def test_a_wrong_section_is_an_error_that_names_file_line_and_key(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_config(parse_config(f"[metrics]\n{text}", "f.toml"))


@pytest.mark.parametrize("text", ['listen = "[::1]:9101"', 'textfile = "/a.prom"'])
def test_without_the_library_a_configured_section_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    key = text.partition(" ")[0]
    with pytest.raises(
        ConfigError, match=rf"f\.toml:2: metrics\.{key}: needs .*: pip install prometheus-client"
    ):
        places(parse_config(f"[metrics]\n{text}", "f.toml"))
    check_config(parse_config("", "f.toml"))
    Exporter(Config, View).close()
