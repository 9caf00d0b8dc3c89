"""What a start makes of its journal, and what it says when even setting that aside fails."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from modelled import key, registration

from slaqd.act import Journal, open_journal, schema, wal
from slaqd.act import recover as room
from slaqd.act.past import Ask, read_past
from slaqd.errors import StateError, StateRefused

NOW = 1_772_424_000.0
NAME = "journal.sqlite"
ASIDE = f"{NAME}.corrupt-20260302T040000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a journal of three jobs, of which one has ended."""
    with closing(open_journal(tmp_path / NAME, NOW)) as journal:
        for number in (1, 2, 3):
            journal.register(registration(number))
            journal.note(key(number), "hold", "x")
        journal.end(key(3), NOW, "{}")
    return tmp_path / NAME


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        schema.teach(db)
        for statement in statements:
            db.execute(statement)


def failing(_path: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_log_that_cant_be_read_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "look", failing)
    with pytest.raises(StateError, match="the journal can't be read: Input/output error") as caught:
        open_journal(path, NOW)
    assert not isinstance(caught.value, StateRefused)
    assert path.exists()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("makes a device")
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero, of which there is no end


def socket_file(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock, contextlib.chdir(path.parent):
        sock.bind(path.name)  # its whole path may be too long for one


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


ODD = (Path.mkdir, pipe, device, socket_file, link)


# A pipe that is opened all the same would hang in SQLite, which no signal gets out of: hence the thread.


def refusal(path: Path) -> str:
    with pytest.raises(StateRefused) as caught:
        open_journal(path, NOW)
    return str(caught.value)


@pytest.mark.timeout(60, method="thread")
@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".new", ".new-wal"])
def test_what_is_no_regular_file_is_refused_and_neither_opened_nor_renamed(
    path: Path, make: Callable[[Path], None], end: str
) -> None:
    odd = path.with_name(NAME + end)
    odd.unlink(missing_ok=True)
    make(odd)
    before = {each.name: each.lstat().st_ino for each in path.parent.iterdir()}
    for _ in range(2):
        assert refusal(path) == f"{odd}: no regular file, as the journal's all are; move it away"
    assert {each.name: each.lstat().st_ino for each in path.parent.iterdir()} == before


@pytest.mark.timeout(60, method="thread")
@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("end", ["", "-wal"])
def test_nor_is_such_a_thing_read_for_jobs_where_a_damaged_journal_was_set_aside(
    path: Path, make: Callable[[Path], None], end: str
) -> None:
    path.unlink()
    make(path.with_name(f"{ASIDE}{end}"))
    before = path.with_name(f"{ASIDE}{end}").lstat()
    for _ in range(2):
        assert refusal(path).startswith(f"{path.parent / ASIDE}{end}: no regular file")
    after = path.with_name(f"{ASIDE}{end}").lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not path.exists()


@pytest.mark.timeout(60, method="thread")
@pytest.mark.parametrize("make", ODD)
def test_who_only_looks_refuses_it_too(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)
    looks: list[Callable[[], object]] = [
        lambda: room.flaw_of(path),
        lambda: room.kept(path),
        lambda: Journal(path),
    ]
    for look in looks:
        with pytest.raises(StateRefused, match="no regular file"):
            look()
    with pytest.raises(StateError):  # where a link leads to nothing, there is no journal to tell from
        read_past(path, Ask())


def test_an_empty_file_is_never_taken_for_a_new_journal(path: Path) -> None:
    path.write_bytes(b"")
    with closing(open_journal(path, NOW)) as journal:
        assert journal.unconfirmed == (
            f"the journal was damaged (it is empty) and set aside as {ASIDE}; saved from it: jobs 0, notes 0"
        )


def test_a_name_of_a_table_that_is_no_text_is_damage(path: Path) -> None:
    data = path.read_bytes()
    data = data.replace(b"jobsjobs", b"jo\xffsjo\xffs").replace(b"CREATE TABLE jobs", b"CREXTE TABLE jobs")
    path.write_bytes(data)
    with closing(open_journal(path, NOW)) as journal:
        assert "was damaged (texts in it are no texts)" in journal.unconfirmed
        assert journal.registrations() == []


def test_a_journal_that_is_no_longer_written_ahead_is_damage(path: Path) -> None:
    change(path, "PRAGMA journal_mode = DELETE")
    with closing(open_journal(path, NOW)) as journal:
        assert "it is no longer in the mode in which slaqd writes it" in journal.unconfirmed
        assert [each.key for each in journal.registrations()] == [key(1), key(2)]


def test_what_sqlite_itself_finds_wrong_is_said_in_its_words(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[39] += 5  # how many free pages there are (fileformat2, section 1.3)
    path.write_bytes(data)
    with closing(open_journal(path, NOW)) as journal:
        assert "size is 0 but should be 5) and set aside" in journal.unconfirmed
        assert [each.key for each in journal.registrations()] == [key(1), key(2)]


def test_a_registration_of_the_first_form_that_cant_be_read_is_damage(tmp_path: Path) -> None:
    path = tmp_path / NAME
    change(
        path,
        "PRAGMA journal_mode = WAL",
        "CREATE TABLE jobs (registration TEXT)",
        "INSERT INTO jobs VALUES ('{}')",
        "PRAGMA user_version = 1",
    )
    with closing(open_journal(path, NOW)) as journal:
        assert "a registration in it can't be read: " in journal.unconfirmed
        assert "missing required field" in journal.unconfirmed


def test_a_file_without_any_table_is_a_journal_that_was_never_finished(tmp_path: Path) -> None:
    path = tmp_path / NAME
    change(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (x)", "DROP TABLE t")
    with closing(open_journal(path, NOW)) as journal:
        assert journal.unconfirmed == ""
    assert not path.with_name(ASIDE).exists()


def test_an_ended_job_is_not_brought_back_to_life_from_a_damaged_journal(path: Path) -> None:
    change(path, "UPDATE notes SET sum = sum + 1 WHERE job = '2'")
    with closing(open_journal(path, NOW)) as journal:
        assert [each.key for each in journal.registrations()] == [key(1), key(2)]
        assert "saved from it: jobs 2, notes 1" in journal.unconfirmed


def test_what_cant_be_set_aside_is_named_and_no_new_journal_is_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"no journal at all")
    monkeypatch.setattr(room, "_sync", failing)
    with pytest.raises(StateError, match="the damaged journal can't be set aside: Input/output error"):
        open_journal(path, NOW)
    assert not path.exists()
    assert path.with_name(ASIDE).read_bytes() == b"no journal at all"


def test_a_disk_that_takes_no_new_journal_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_check_settled", failing)
    with pytest.raises(StateError, match="the journal can't be made: Input/output error"):
        open_journal(tmp_path / NAME, NOW)
    assert not (tmp_path / NAME).exists()


def test_a_new_journal_whose_log_is_still_beside_it_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with closing(Journal(path)), pytest.raises(OSError, match="its log could not be brought into it"):
        room._check_settled(path)
    room._check_settled(path)


def test_the_newest_that_was_set_aside_tells_of_the_jobs(path: Path) -> None:
    path.rename(path.with_name(f"{NAME}.corrupt-20260302T040000Z"))
    path.with_name(f"{NAME}.corrupt-20250101T000000Z").write_bytes(b"older")
    path.with_name(f"{NAME}.corrupt-20270101T000000Z-wal").write_bytes(b"its main file was never there")
    with closing(open_journal(path, NOW)) as journal:
        assert f"(it is gone) and set aside as {ASIDE}; saved from it: jobs 2" in journal.unconfirmed


def test_tables_in_a_file_that_has_no_number_are_not_slaqds(tmp_path: Path) -> None:
    path = tmp_path / NAME
    change(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (x)")
    with closing(open_journal(path, NOW)) as journal:
        assert "was damaged (the number of its schema is wrong)" in journal.unconfirmed


def test_a_row_that_cant_be_read_though_its_sum_is_right_is_lost_alone(path: Path) -> None:
    change(path, f"UPDATE jobs SET registration = '{{}}' WHERE job = '{key(1).id}'")  # noqa: S608 - our own
    assert room.flaw_of(path) is None
    with pytest.raises(StateError, match=r"the journal can't be read: .* missing required field"):
        room.kept(path)
    change(path, f"UPDATE notes SET sum = sum + 1 WHERE job = '{key(2).id}'")  # noqa: S608 - our own
    with closing(open_journal(path, NOW)) as journal:
        assert [each.key for each in journal.registrations()] == [key(2)]
        assert "saved from it: jobs 1, notes 0" in journal.unconfirmed


def test_what_somebody_keeps_under_a_like_name_is_not_taken_for_what_was_set_aside(path: Path) -> None:
    path.with_name(f"{NAME}.corrupt-old").mkdir()
    path.with_name(f"{NAME}.corrupt-backup.tar.gz").write_bytes(b"a backup")
    path.write_bytes(b"damaged " * 1000)
    open_journal(path, NOW).close()
    assert path.with_name(ASIDE).read_bytes() == b"damaged " * 1000
    journal = open_journal(path, NOW)
    assert ASIDE in journal.unconfirmed
    journal.close()


def test_what_was_set_aside_before_and_is_no_file_is_named_before_anything_is_renamed(path: Path) -> None:
    os.mkfifo(path.with_name(f"{NAME}.corrupt-20270101T000000Z"))
    path.write_bytes(b"damaged " * 1000)
    with pytest.raises(StateRefused, match="20270101T000000Z"):
        open_journal(path, NOW)
    assert path.read_bytes() == b"damaged " * 1000
