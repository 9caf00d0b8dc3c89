"""How sockets are made: with their rights from the first moment, and in nobody's place."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from slaqd.agent import service
from slaqd.config import AgentSection, Config
from slaqd.daemon import server
from slaqd.daemon.scrape import Address, Scrapes
from slaqd.errors import ConfigError, StateError
from slaqd.sockets import bound, make_way


def agent(path: Path) -> Config:
    return Config(agent=AgentSection(socket=str(path), user="root"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_second_agent_is_refused_where_one_answers_and_takes_the_place_of_a_dead_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.sock"
    first = service._listener(agent(path))
    with pytest.raises(ConfigError, match="the agent's socket can't be made: another process answers there"):
        service._listener(agent(path))
    with socket.socket(socket.AF_UNIX) as ask:
        ask.connect(str(path))  # it is the first one's still
    first.close()
    with service._listener(agent(path)):
        assert mode(path) == 0o600


def test_an_agent_replaces_no_file(tmp_path: Path) -> None:
    path = tmp_path / "thesis"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="something that is no socket is there already"):
        service._listener(agent(path))
    assert path.read_text(encoding="utf-8") == "mine"


def test_an_agents_socket_on_the_command_line_is_judged_as_in_the_file() -> None:
    with pytest.raises(ConfigError, match=r"agent\.socket: 'a\.sock' is not an absolute path"):
        service._listener(agent(Path("a.sock")))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_sockets_of_the_metrics_never_have_more_rights_than_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    path, modes = tmp_path / "m.sock", list[int]()
    make = socket.socket.bind

    def bind(self: socket.socket, where: str) -> None:
        make(self, where)
        modes.append(mode(path))

    monkeypatch.setattr(socket.socket, "bind", bind)
    before = os.umask(umask)
    try:
        scrapes = Scrapes(Address(path=path), CollectorRegistry())
        modes.append(mode(path))
        scrapes.close()
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert modes == [0o660, 0o660]


def test_a_socket_is_bound_with_its_rights_and_the_mask_is_as_before(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with bound(tmp_path / "s", closed=0o111):
            assert mode(tmp_path / "s") == 0o666
        with pytest.raises(OSError, match="in use"):
            bound(tmp_path / "s", closed=0o111)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_what_a_dead_server_left_is_removed_and_a_live_ones_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make_way(path)
    with bound(path, closed=0o177) as listener:
        listener.listen()
        with pytest.raises(FileExistsError):
            make_way(path)
        with pytest.raises(StateError, match="another process answers there"):
            server.Server(path, lambda *_: pytest.fail("asked"))
    make_way(path)
    assert not path.exists()
