"""What doctor finds: each thing that can be wrong is said, with what to do."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from put_together import MYSELF, Daemon

from slaqd import mounts
from slaqd.act import Journal
from slaqd.adapter import Registration, load
from slaqd.config import AgentSection, Config, EnforceSection, SlaqdSection, parse_config
from slaqd.daemon import alone, checks, doctor
from slaqd.daemon.alone import of_place
from slaqd.daemon.state import refuse_network, state
from slaqd.errors import AdapterUnavailable, StateRefused
from slaqd.testing import ManualClock
from slaqd.types import Finding, JobKey, Mode, Owner, Severity, Tag
from slaqd.wire import Verb

OK, WARNING, ERROR = Severity.OK, Severity.WARNING, Severity.ERROR


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "slaqd.toml").touch(mode=0o600)
    made = Daemon(tmp_path)
    yield made
    made.journal.close()


def seen(findings: Sequence[Finding], words: str) -> list[Severity]:
    return [each.severity for each in findings if words in each.what]


def test_a_good_state_directory_is_called_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert seen(checks.of_state(tmp_path), "is slaqd's own") == [OK]
    assert len(seen(checks.of_state(tmp_path), "MiB are free")) == 1


def test_a_state_directory_that_is_not_there_is_made_later(tmp_path: Path) -> None:
    assert seen(checks.of_state(tmp_path / "no"), "not there yet") == [WARNING]


def test_a_file_or_a_circle_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert seen(checks.of_state(tmp_path / "file"), "no directory") == [ERROR]
    assert seen(checks.of_state(tmp_path / "circle"), "can't be looked at") == [ERROR]


def test_a_state_directory_open_to_others_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert seen(checks.of_state(tmp_path), "open to others (mode 0755)") == [WARNING]


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs"])
@pytest.mark.parametrize("below", ["", "not/there/yet"])
def test_a_network_file_system_is_an_error_where_the_start_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, below: str
) -> None:
    info = tmp_path / "mountinfo"
    info.write_text(f"40 27 0:50 / {tmp_path.resolve()} rw - {kind} server:/x rw\n", encoding="utf-8")
    monkeypatch.setattr(mounts, "OWN", info)
    with pytest.raises(StateRefused, match="network file system"):
        refuse_network(tmp_path / below)
    found = checks.of_state(tmp_path / below)
    assert seen(found, f"on a network file system ({kind})") == [each.severity for each in found] == [ERROR]


@pytest.mark.parametrize(("little", "severity"), [("_LITTLE", WARNING), ("_TOO_LITTLE", ERROR)])
def test_a_disk_that_is_nearly_full_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little: str, severity: Severity
) -> None:
    monkeypatch.setattr(checks, little, 1 << 62)
    assert seen(checks.of_state(tmp_path), "MiB are free") == [severity]


def test_a_socket_in_its_place_is_good_and_anything_else_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert checks.of_socket(path) == []
    path.touch()
    assert seen(checks.of_socket(path), "no socket") == [ERROR]
    path.unlink()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        assert seen(checks.of_socket(path), "the control socket, mode ") == [OK]
    assert seen(checks.of_socket(tmp_path / ("x" * 120)), "too long for a socket") == [ERROR]


def of_another_group(path: Path) -> None:
    if os.geteuid() == 0:  # anybody else's files are of a group of hers, which may be hers alone
        os.chown(path, -1, 20_001)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another group")


@pytest.mark.parametrize("mode", [pytest.param(0o620, marks=as_root), 0o602, 0o666])
@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_configuration_that_others_can_change_is_an_error(tmp_path: Path, mode: int, which: str) -> None:
    file = tmp_path / "c.toml"
    file.touch(mode=0o644)
    spoilt = file if which == "file" else tmp_path
    of_another_group(spoilt)
    spoilt.chmod(mode | 0o100)
    assert seen(checks.of_config(Config(path=str(file))), "others can change it") == [ERROR]


def test_a_directory_anywhere_above_the_configuration_that_others_can_change_is_an_error(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "open" / "sub"
    folder.mkdir(parents=True)
    (folder / "c.toml").touch(mode=0o644)
    config = Config(path=str(folder / "c.toml"))
    assert seen(checks.of_config(config), "only its owner can change it") == [OK]
    folder.parent.chmod(0o1777)
    assert seen(checks.of_config(config), "only its owner can change it") == [OK]
    folder.parent.chmod(0o777)
    assert seen(checks.of_config(config), f"{folder.parent}: others can change it (mode 0777)") == [ERROR]
    (tmp_path / "link").symlink_to(folder)
    for path in (tmp_path / "link" / "c.toml", folder.parent / ".." / "open" / "sub" / "c.toml"):
        found = checks.of_config(Config(path=str(path)))
        assert seen(found, f"{folder.parent}: others can change it") == [ERROR]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a link away")
def test_a_link_of_another_users_on_the_way_to_the_configuration_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "c.toml").touch(mode=0o644)
    (tmp_path / "hers").symlink_to(tmp_path / "mine")
    os.lchown(tmp_path / "hers", 20_001, -1)
    found = checks.of_config(Config(path=str(tmp_path / "hers" / "c.toml")))
    assert seen(found, f"{tmp_path / 'hers'}: belongs to uid 20001") == [ERROR]


def test_a_group_or_a_user_that_this_machine_doesnt_know_is_a_warning_with_its_line() -> None:
    text = "[slaqd]\nadmin_group = '{}'\n[enforce]\n\nusers = ['root', '{}']\n"
    found = checks.of_names(parse_config(text.format("nosuchgroup", "nosuchuser"), "c.toml"))
    assert [each.severity for each in found] == [WARNING, WARNING]
    assert found[0].what == "c.toml:2: slaqd.admin_group: no group is called 'nosuchgroup' here"
    assert found[1].what == "c.toml:5: enforce.users: no user is called 'nosuchuser' here"
    assert checks.of_names(parse_config(text.format("root", "root"), "c.toml")) == []


def test_a_pool_that_the_manager_doesnt_have_is_a_warning(tmp_path: Path) -> None:
    enforce = EnforceSection(pools=("typo",), users=("nosuchuser",))
    daemon = Daemon(tmp_path, enforce=enforce)
    words = "enforce.pools: the manager has no pool 'typo'"
    assert seen(daemon.ask(Verb.DOCTOR, list[Finding]), words) == []
    daemon.cycle()
    found = daemon.ask(Verb.DOCTOR, list[Finding])
    assert seen(found, words) == [WARNING]
    assert seen(found, "no user is called 'nosuchuser'") == [WARNING]
    daemon.journal.close()
    found = of_place(Config(slaqd=place(tmp_path).slaqd, enforce=EnforceSection(pools=("typo", "local"))))
    assert seen(found, "enforce.pools") == [WARNING]


@pytest.mark.parametrize("mode", [pytest.param(0o720, marks=as_root), 0o777])
def test_a_state_directory_that_others_can_change_is_an_error(tmp_path: Path, mode: int) -> None:
    of_another_group(tmp_path)
    tmp_path.chmod(mode)
    assert seen(checks.of_state(tmp_path), f"others can change the state (mode {mode:04o})") == [ERROR]


def test_without_a_configuration_the_defaults_are_said() -> None:
    assert seen(checks.of_config(Config()), "the defaults hold") == [OK]


def test_a_clock_that_was_never_set_is_an_error_and_one_that_was_turned_a_warning() -> None:
    clock = ManualClock()
    zero = clock.wall() - clock.monotonic()
    assert seen(checks.of_clock(clock, zero), "2026-03-02") == [OK]
    clock.jump(-3600)
    assert seen(checks.of_clock(clock, zero), "set by -3600 s since slaqd started") == [WARNING]
    assert seen(checks.of_clock(clock), "the wall clock says") == [OK]
    assert seen(checks.of_clock(ManualClock(wall=0.0)), "never set") == [ERROR]


def test_a_daemon_tells_of_all_that_it_stands_on(daemon: Daemon, tmp_path: Path) -> None:
    log = tmp_path / "good.jsonl"
    log.write_text("".join(json.dumps({"step": k, "loss": 1 / k}) + "\n" for k in range(1, 9)))
    daemon.start(1, log=str(log))
    daemon.start(2, log="/no/such/log")
    daemon.cycle()
    found = daemon.ask(Verb.DOCTOR, list[Finding])
    for words in ("the configuration is good", "the wall clock says", "cycle 1: ", "a manager of memory"):
        assert seen(found, words) == [OK]
    assert seen(found, f"job 1: its log {log} is ok") == [OK]
    (missing,) = [each for each in found if each.what.startswith("job 2: ")]
    assert missing.severity is WARNING
    assert missing.do == "slaqctl read /no/such/log"


def test_brakes_and_a_configuration_not_in_use_are_said(daemon: Daemon) -> None:
    daemon.loop.config_error = "c.toml:2: unknown key"
    (Path(daemon.loop.config.path).parent / "stop").touch()
    daemon.journal.keep_fact("paused", "1")
    found = daemon.ask(Verb.DOCTOR, list[Finding])
    assert seen(found, "the newest configuration is not in use: c.toml:2") == [ERROR]
    assert seen(found, "every act is halted by the file") == [WARNING]
    assert seen(found, "everything is paused") == [WARNING]
    assert seen(found, "no cycle has ended yet") == [WARNING]


def test_a_journal_that_was_damaged_and_waits_for_a_word_is_an_error_with_the_word(daemon: Daemon) -> None:
    daemon.journal.doubt("the journal was damaged (it is empty)")
    daemon.cycle()
    found = daemon.ask(Verb.DOCTOR, list[Finding])
    (said,) = [each for each in found if "nothing is acted on" in each.what]
    assert said.severity is ERROR
    assert said.what == "nothing is acted on: the journal was damaged (it is empty)"
    assert said.do.endswith("slaqctl resume")
    assert seen(found, "everything is paused") == []
    daemon.journal.pause_all(paused=False)
    assert seen(daemon.ask(Verb.DOCTOR, list[Finding]), "nothing is acted on") == []


def test_an_alarm_is_an_error_until_it_is_over(daemon: Daemon) -> None:
    daemon.start(1)
    daemon.journal._db.execute("PRAGMA query_only = ON")
    daemon.cycle()
    (said,) = [each for each in daemon.ask(Verb.DOCTOR, list[Finding]) if "the journal can't" in each.what][
        :1
    ]
    assert (said.severity, said.what) == (ERROR, daemon.loop.alarm)
    assert "free or repair the disk" in said.do
    daemon.journal._db.execute("PRAGMA query_only = OFF")
    for _ in range(2):
        daemon.cycle()
    assert seen(daemon.ask(Verb.DOCTOR, list[Finding]), "the journal can't") == []


def test_observing_is_fine_and_said(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, mode=Mode.OBSERVE)
    assert seen(daemon.ask(Verb.DOCTOR, list[Finding]), "observing only") == [OK]
    daemon.journal.close()


def test_a_manager_that_is_away_is_an_error(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.manager.down = "the manager is silent"
    daemon.cycle()

    def away() -> Sequence[Finding]:
        raise AdapterUnavailable("no answer within 30 s")

    monkeypatch.setattr(daemon.adapter, "check", away)
    found = daemon.ask(Verb.DOCTOR, list[Finding])
    assert seen(found, "cycle 1: nothing changed: the manager is silent") == [ERROR]
    assert seen(found, "the manager can't be checked: no answer within 30 s") == [ERROR]


def test_while_a_cycle_hangs_the_rest_is_told(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.1)
    holds, over = threading.Event(), threading.Event()

    def cycle() -> None:
        with daemon.loop.acting:
            holds.set()
            over.wait(60)

    thread = threading.Thread(target=cycle)
    thread.start()
    assert holds.wait(60)
    found = daemon.ask(Verb.DOCTOR, list[Finding])
    over.set()
    thread.join()
    assert seen(found, "the manager was not asked") == [WARNING]
    assert seen(found, "the wall clock says") == [OK]


def place(folder: Path) -> Config:
    return Config(slaqd=SlaqdSection(state_dir=str(folder / "state"), socket=str(folder / "s.sock")))


def test_without_a_daemon_a_place_is_looked_at_and_left_as_it_is(tmp_path: Path) -> None:
    found = of_place(place(tmp_path))
    assert seen(found, "the manager (local) answers: pools local") == [OK]
    assert seen(found, "not there yet") == [WARNING]
    assert list(tmp_path.iterdir()) == []


def test_without_a_daemon_each_registered_jobs_log_is_read(tmp_path: Path) -> None:
    config = place(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    log = tmp_path / "a.csv"
    log.write_text("step,loss\n1,2.0\n2,1.0\n3,0.5\n")
    logs = {"1": str(log), "2": str(tmp_path / "no.csv"), "3": None, "4": "{foo}"}
    for job, named in logs.items():
        tag, key = Tag(log=named), JobKey("local", job, 7)
        journal.register(Registration(key=key, owner=MYSELF, tag=tag, name="x", cwd="/", submitted=1.0))
    journal.close()
    found = of_place(config)
    assert seen(found, "the journal is whole; jobs in it: 4") == [OK]
    said = {each.what[:6]: each for each in found if each.what.startswith("job ")}
    assert [said[f"job {job}:"].severity for job in "1234"] == [OK, WARNING, WARNING, WARNING]
    assert str(log) in said["job 1:"].what
    assert "{foo} is not known" in said["job 4:"].what


def test_without_a_daemon_a_journal_in_doubt_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    journal.close()
    assert seen(of_place(place(tmp_path)), "nothing is acted on") == []
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    journal.doubt("the journal was damaged (it is gone)")
    journal.close()
    found = of_place(place(tmp_path))
    assert seen(found, "nothing is acted on: the journal was damaged (it is gone)") == [ERROR]
    assert seen(found, "the journal is whole; jobs in it: 0") == [OK]


@pytest.mark.parametrize("content", [b"no journal at all", b"SQLite format 3\0" + b"\xff" * 5000])
def test_without_a_daemon_a_broken_journal_is_an_error_and_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    file = tmp_path / "state" / "journal.sqlite"
    file.write_bytes(content)
    assert seen(of_place(place(tmp_path)), "the journal is damaged: ") == [ERROR]
    assert file.read_bytes() == content
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_an_agent_that_is_away_is_found_and_one_that_is_not_asked_for_is_not_missed(tmp_path: Path) -> None:
    assert doctor.of_agent(Config()) == []
    (finding,) = doctor.of_agent(Config(agent=AgentSection(socket=str(tmp_path / "a.sock"))))
    assert finding.severity is Severity.ERROR
    assert "slaqd-agent does not answer" in finding.what
    assert "slaqd-agent" in finding.do


def test_without_a_daemon_no_log_is_opened_with_more_rights_than_its_owners(tmp_path: Path) -> None:
    owner = Owner(uid=os.geteuid() + 1, name="eve")
    hers = Registration(
        key=JobKey("local", "4711", 7),
        owner=owner,
        tag=Tag(log=str(tmp_path / "secret")),
        name="",
        cwd="/",
        submitted=1.0,
    )
    (tmp_path / "secret").write_text("canary\n", encoding="utf-8")
    (finding,) = alone._logs([hers])
    assert "not looked at" in finding.what
    assert "canary" not in finding.what


def test_without_a_daemon_a_journal_that_the_next_start_would_set_aside_is_never_called_whole(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    file = tmp_path / "state" / "journal.sqlite"
    with closing(Journal(file)) as journal:
        key = JobKey("local", "1", 7)
        journal.register(Registration(key=key, owner=MYSELF, tag=Tag(), name="x", cwd="/", submitted=1.0))
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("UPDATE jobs SET sum = sum + 1")
    found = of_place(place(tmp_path))
    assert seen(found, "the journal is damaged: 1 of its rows in 'jobs' were not written by slaqd") == [ERROR]
    assert seen(found, "the journal is whole") == []
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_journal_that_a_slaqd_holds_is_read_and_never_called_damaged(tmp_path: Path) -> None:
    file = tmp_path / "state" / "journal.sqlite"
    with state(file.parent), closing(Journal(file)) as journal:
        journal._db.execute("DROP TABLE observations")  # as good as a log that breaks off: it would be judged
        found = of_place(place(tmp_path))
        assert seen(found, "the journal can be read, and a slaqd holds it; jobs in it: 0") == [OK]
        assert seen(found, "damaged") == []
    assert seen(of_place(place(tmp_path)), "the journal is damaged: ") == [ERROR]


def test_without_a_daemon_the_adapter_is_closed_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    def breaks(_self: object, _deadline: float) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(load("local"), "snapshot", breaks)
    monkeypatch.setattr(load("local"), "close", lambda _self, *, restore: closed.append(restore))
    with pytest.raises(ZeroDivisionError):
        of_place(place(tmp_path))
    assert closed == [False]
