"""A new configuration while slaqd runs: the new one, or the old one with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from put_together import Daemon

from slaqd.config import Config, parse_config
from slaqd.daemon.renew import renewed
from slaqd.errors import ConfigError
from slaqd.types import Mode
from slaqd.wire import JobArgs, StatusView, Verb

OLD = "[slaqd]\nmode = 'enforce'\nstate_dir = '/a'\nsocket = '/b'\n[adapter.local]\nunit_milli = 50\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    made.journal.close()


def of(text: str) -> Config:
    return parse_config(text, "c.toml")


def fails(text: str) -> Callable[[], Config]:
    def read() -> Config:
        return of(text)

    return read


@pytest.mark.parametrize(
    ("change", "to", "said"),
    [
        ("state_dir = '/a'", "state_dir = '/c'", "c.toml:3: slaqd.state_dir: "),
        ("socket = '/b'", "socket = '/c'", "c.toml:4: slaqd.socket: "),
        ("unit_milli = 50", "unit_milli = 60", "c.toml:6: adapter.local.unit_milli: "),
        ("unit_milli = 50", "", "adapter.local.unit_milli: "),
        ("unit_milli = 50", "unit_milli = 50\ncores = 1.0", "c.toml:7: adapter.local.cores: "),
    ],
)
def test_what_cant_change_at_run_time_is_refused_with_its_place(change: str, to: str, said: str) -> None:
    with pytest.raises(ConfigError, match="can't change while slaqd runs; restart it for that") as caught:
        renewed(of(OLD), of(OLD.replace(change, to)))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("mode = 'enforce'", "mode = 'observe'"),
        ("mode = 'enforce'", "mode = 'enforce'\nepoch_s = 7.5"),
        ("[adapter.local]", "[policy]\nname = 'fair'\n[adapter.local]"),
        ("[adapter.local]", "[enforce]\nusers = ['ada']\n[adapter.local]"),
        ("unit_milli = 50", "unit_milli = 50\nreserve_milli = 200"),  # that is the default
        ("[adapter.local]", "# a word\n[adapter.local]"),
    ],
)
def test_what_can_change_is_taken_over(change: str, to: str) -> None:
    new = of(OLD.replace(change, to))
    assert renewed(of(OLD), new) is new


def test_every_other_key_of_every_section_needs_a_restart() -> None:
    """Also those that later versions add: nothing is taken over by halves."""
    old, new = of(OLD), of(OLD.replace("'enforce'", "'enforce'\nadapter = 'other'"))
    with pytest.raises(ConfigError, match=r"slaqd\.adapter"):
        renewed(old, new)


def test_a_bad_configuration_leaves_the_old_one_and_says_why(daemon: Daemon) -> None:
    before = daemon.loop.config
    daemon.loop.reload(fails("[slaqd]\nmod = 'observe'\n"))
    daemon.loop.renew()
    assert daemon.loop.config is before
    view = daemon.ask(Verb.STATUS, StatusView)
    assert view.config_error.startswith("c.toml:2: unknown key 'mod'")
    assert view.mode is Mode.ENFORCE
    daemon.start(1)
    daemon.cycle()
    assert daemon.held() == {"1": 8}
    daemon.loop.reload(lambda: before)
    daemon.loop.renew()
    assert daemon.ask(Verb.STATUS, StatusView).config_error == ""


def test_a_new_configuration_holds_from_the_next_cycle_on(daemon: Daemon) -> None:
    daemon.start(1)
    new = of("[slaqd]\nmode = 'observe'\nadapter = 'fake'\n[policy]\nname = 'fair'\n")
    daemon.loop.reload(lambda: new)
    assert daemon.loop.config is not new
    daemon.loop.renew()
    assert daemon.cycle().endswith("observing only")
    assert daemon.manager.acts == []
    view = daemon.ask(Verb.STATUS, StatusView)
    assert (view.mode, view.policy) == (Mode.OBSERVE, "fair")


def test_without_a_wish_nothing_is_read(daemon: Daemon) -> None:
    before = daemon.loop.config
    daemon.loop.renew()
    assert daemon.loop.config is before


def test_pauses_outlive_a_new_configuration_and_a_restart(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start(1)
    daemon.start(2)
    daemon.ask(Verb.PAUSE, str, JobArgs(job="1"))
    daemon.ask(Verb.PAUSE, str, JobArgs())
    daemon.loop.reload(lambda: daemon.loop.config)
    daemon.loop.renew()
    daemon.cycle()
    assert daemon.held() == {}
    daemon.journal.close()
    again = Daemon(tmp_path, manager=daemon.manager)
    again.cycle()
    assert again.held() == {}
    again.ask(Verb.RESUME, str, JobArgs())
    again.cycle()
    assert again.held() == {"2": 8}
    again.journal.close()
