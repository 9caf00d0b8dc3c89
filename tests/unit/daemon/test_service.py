"""Putting the daemon together, and taking it apart."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MethodType

import msgspec
import pytest
from put_together import Daemon
from structlog.testing import capture_logs

from slaqd.act import Journal
from slaqd.act.past import Ask, read_past
from slaqd.clock import SystemClock
from slaqd.config import Config, SlaqdSection
from slaqd.daemon.offline import restore_offline
from slaqd.daemon.service import _serve
from slaqd.errors import StateError
from slaqd.types import Snapshot

ENDINGS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, clock=SystemClock())
    section = msgspec.structs.replace(made.parts.config.slaqd, socket=str(tmp_path / "s.sock"))
    made.parts = replace(made.parts, config=msgspec.structs.replace(made.parts.config, slaqd=section))
    yield made
    made.journal.close()


@pytest.mark.parametrize("number", ENDINGS)
def test_a_second_signal_doesnt_keep_the_jobs_from_being_let_go(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = [signal.getsignal(each) for each in ENDINGS]
    look, close = daemon.adapter.snapshot, daemon.adapter.close

    def looks(_self: object, deadline: float) -> Snapshot:
        signal.raise_signal(number)
        return look(deadline)

    def closes(_self: object, *, restore: bool) -> None:
        during: Sequence[object] = [signal.getsignal(each) for each in ENDINGS]
        assert not set(during) & set(before)
        signal.raise_signal(number)
        close(restore=restore)

    monkeypatch.setattr(daemon.adapter, "snapshot", MethodType(looks, daemon.adapter))
    monkeypatch.setattr(daemon.adapter, "close", MethodType(closes, daemon.adapter))
    _serve(daemon.parts, once=False)
    assert daemon.adapter.closed is True
    assert [signal.getsignal(each) for each in ENDINGS] == before


def test_a_configuration_that_others_can_change_and_a_name_that_nobody_has_are_warnings_at_the_start(
    daemon: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "slaqd.toml").touch()
    (tmp_path / "slaqd.toml").chmod(0o666)
    section = msgspec.structs.replace(daemon.parts.config.slaqd, admin_group="nosuchgroup")
    config = msgspec.structs.replace(daemon.parts.config, slaqd=section)
    with capture_logs() as said:
        _serve(replace(daemon.parts, config=config), once=True)
    warnings = [each["event"] for each in said if each["log_level"] == "warning"]
    assert [words for words in warnings if "slaqd.toml" in words] == [
        f"{tmp_path / 'slaqd.toml'}: others can change it (mode 0666)",
        f"{tmp_path / 'slaqd.toml'}:1: slaqd.admin_group: no group is called 'nosuchgroup' here",
    ]


@pytest.mark.parametrize("below", ["nothing", "file/nothing"])
def test_without_a_journal_there_is_nothing_to_restore(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("my thesis", encoding="utf-8")
    assert restore_offline(of(str(tmp_path / below)), None) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_restores_without_a_daemon_is_no_start_and_yet_writes_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    tmp_path.chmod(0o700)
    with closing(Journal(path)) as left:
        left.begin_run(SystemClock().wall())
        assert restore_offline(of(str(tmp_path)), None) == 0
        told = [(one.what, one.why) for one in read_past(path, Ask())]
        assert told == [("started", "start 1"), ("taken over", "slaqctl restore, without a slaqd")]
        with pytest.raises(StateError, match="another slaqd has taken this journal over"):
            left.keep_fact("a", "1")


@pytest.mark.parametrize("job", [None, "1"])
def test_a_state_that_cant_be_looked_into_is_not_taken_for_empty(job: str | None) -> None:
    with pytest.raises(StateError, match="can't be looked for: File name too long"):
        restore_offline(of("/" + "x" * 300), job)


def of(state_dir: str) -> Config:
    return Config(slaqd=SlaqdSection(state_dir=state_dir))
