"""``slaqctl history``: from a daemon, and from the journal that one left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from put_together import Daemon

from slaqd.cli import main
from slaqd.daemon.server import Server

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Run a daemon that knows one job, which it took into its hands."""
    made = Daemon(tmp_path)
    made.start(1, name="train")
    made.cycle()
    yield made
    made.journal.close()


@pytest.fixture
def served(daemon: Daemon, tmp_path: Path) -> Iterator[Daemon]:
    server = Server(tmp_path / "s.sock", daemon.verbs.answer)
    yield daemon
    server.close()


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call slaqctl here, with a configuration that names the daemon's places."""
    config = tmp_path / "slaqd.toml"
    config.write_text(
        f"[slaqd]\nstate_dir = '{tmp_path}'\nsocket = '{tmp_path / 's.sock'}'\n", encoding="utf-8"
    )

    def one(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*words, "--config", str(config)])
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return one


def kinds(out: str) -> list[str]:
    return [str(each["what"]) for each in json.loads(out)]


@pytest.mark.usefixtures("served")
def test_it_tells_what_happened_as_a_table_and_as_json(call: Call) -> None:
    status, out, _err = call("history")
    assert status == 0
    header, *rows = out.splitlines()
    assert header.split() == ["TIME", "WHAT", "JOB", "FROM", "UNITS", "OUTCOME", "WHY"]
    assert sorted(row.split()[2] for row in rows) == sorted(["started", "registered", "planned", "Adopt"])
    status, out, _err = call("history", "--json")
    assert status == 0
    assert sorted(kinds(out)) == sorted(["started", "registered", "planned", "Adopt"])


@pytest.mark.usefixtures("served")
def test_of_one_job_it_tells_what_happened_to_that_one(call: Call) -> None:
    assert "started" not in kinds(call("history", "1", "--json")[1])
    status, out, err = call("history", "77")
    assert (status, out) == (0, "")
    assert "knows nothing of a job '77'" in err


@pytest.mark.usefixtures("served")
def test_since_takes_a_span_and_nothing_else(call: Call) -> None:
    for span in ("90s", "30m", "1h", "7d", "2w"):
        assert call("history", "--since", span)[0] == 0
    for span in ("1", "h", "1y", "-1h", "1h30m", "\u0663h", "1e9h", ""):
        status, _out, err = call("history", "--since", span)
        assert status == 2, span
        assert "is no time span" in err


def test_without_a_daemon_the_journal_tells_the_same(daemon: Daemon, call: Call, tmp_path: Path) -> None:
    server = Server(tmp_path / "s.sock", daemon.verbs.answer)
    _status, with_it, _err = call("history", "--json")
    server.close()
    status, left_by_a_kill, _err = call("history", "--json")
    assert (status, left_by_a_kill) == (0, with_it)
    daemon.journal.close()
    before = sorted(each.name for each in tmp_path.iterdir())
    data = (tmp_path / "journal.sqlite").read_bytes()
    status, left_by_a_stop, _err = call("history", "--json")
    assert (status, left_by_a_stop) == (0, with_it)
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    assert (tmp_path / "journal.sqlite").read_bytes() == data


def test_without_daemon_and_journal_it_says_so_with_status_4(call: Call) -> None:
    status, out, err = call("history")
    assert (status, out) == (4, "")
    assert "no slaqd is running" in err
    assert "the journal can't be read: No such file" in err


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("words", [("history",), ("restore", "--all"), ("drop", "1")])
def test_of_a_socket_that_is_not_its_configurations_no_journal_is_used(
    call: Call, tmp_path: Path, words: tuple[str, ...]
) -> None:
    other = tmp_path / "other.sock"
    status, out, err = call(*words, "--socket", str(other))
    assert (status, out) == (4, "")
    assert f"{other}: no slaqd is running there" in err
    assert "to do it without one, name its configuration: --config FILE" in err


def test_a_journal_that_cant_be_read_is_said(call: Call, tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"my thesis " * 1000)
    status, _out, err = call("history")
    assert status == 4
    assert "file is not a database" in err
