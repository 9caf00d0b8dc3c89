"""A damaged journal: found, set aside, begun anew in doubt, with what can be saved of it."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from modelled import key, registration

from slaqd.act import Journal, open_journal, schema
from slaqd.act import recover as room
from slaqd.errors import StateError, StateRefused
from slaqd.types import Accepted, SetUnits

NOW = 1_772_424_000.0
NAME = "journal.sqlite"
JOBS = 20
FLIPS = 150
CUTS = 40

Truth = tuple[object, ...]


def truth(journal: Journal) -> Truth:
    """Read all that slaqd acts on."""
    notes = [dict(journal.notes(key(number))) for number in range(JOBS)]
    facts = [journal.fact(name) for name in ("paused", "runs")]
    return list(journal.registrations()), notes, facts, journal.paused()


def fill(folder: Path) -> tuple[Journal, Truth]:
    folder.mkdir()
    journal = open_journal(folder / NAME, NOW)
    journal.begin_run(NOW)
    for number in range(JOBS):
        journal.register(registration(number))
        journal.note(key(number), "hold", "cgroup1 " * 20)
    for number in range(60):
        journal.intend([SetUnits(f"{number}", key(number % JOBS), "one", 3, "gain")], {}, NOW, {})
        journal.record([(f"{number}", Accepted())], NOW)
    journal.pause(key(3), paused=True)
    journal.pause_all(paused=True)
    for number in range(JOBS):
        journal.note(key(number), "hold", "cgroup2 " * 20)
    was = truth(journal)
    journal.keep_fact("last", "may be lost: a damaged end of a log looks like one that was never finished")
    return journal, was


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """Make a journal as a graceful stop leaves it."""
    folder = tmp_path_factory.mktemp("clean") / "state"
    journal, was = fill(folder)
    journal.close()
    return folder, was


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """Make a journal as a kill leaves it: most of it still in the log."""
    folder = tmp_path_factory.mktemp("killed")
    journal, was = fill(folder / "live")
    shutil.copytree(folder / "live", folder / "state")
    journal.close()
    (folder / "state" / f"{NAME}-shm").unlink()
    return folder / "state", was


def flip(data: bytearray, moments: random.Random) -> None:
    data[moments.randrange(len(data))] ^= 1 << moments.randrange(8)


def cut(data: bytearray, moments: random.Random) -> None:
    places = [0, 1, 100, 512, 4096, 8192, moments.randrange(len(data)), len(data) - 1, len(data) - 4096]
    del data[max(moments.choice(places), 0) :]


def outcomes(
    folder: Path,
    was: Truth,
    end: str,
    harm: Callable[[bytearray, random.Random], None],
    times: int,
    out: Path,
) -> Mapping[str, int]:
    """Harm the same journal again and again; count what an opening makes of it."""
    moments, counts = random.Random(times), {"whole": 0, "set aside": 0}  # noqa: S311 - places, no secret
    for turn in range(times):
        place = out / f"{turn}"
        shutil.copytree(folder, place)
        victim = place / f"{NAME}{end}"
        data = bytearray(victim.read_bytes())
        harm(data, moments)
        victim.write_bytes(data)
        journal = open_journal(place / NAME, NOW)
        if journal.unconfirmed:
            counts["set aside"] += 1
            assert (place / f"{NAME}.corrupt-20260302T040000Z{end}").read_bytes() == data, "it was changed"
            known = {each.key: each for each in was[0]}  # type: ignore[attr-defined]
            assert all(known[each.key] == each for each in journal.registrations())
        else:
            counts["whole"] += 1
            assert truth(journal) == was, f"damage at turn {turn} was not seen"
        journal.close()
        shutil.rmtree(place)
    return counts


@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_flipped_bit_is_found_or_harms_nothing_that_slaqd_acts_on(
    killed: tuple[Path, Truth], clean: tuple[Path, Truth], end: str, tmp_path: Path
) -> None:
    counts = outcomes(*(killed if end else clean), end, flip, FLIPS, tmp_path)
    assert counts["set aside"] > FLIPS / 20
    assert sum(counts.values()) == FLIPS


def test_a_truncated_file_is_found_or_harms_nothing(clean: tuple[Path, Truth], tmp_path: Path) -> None:
    counts = outcomes(*clean, "", cut, CUTS, tmp_path)
    assert counts["set aside"] > CUTS / 2


@pytest.mark.soak
@pytest.mark.parametrize("end", ["", "-wal"])
def test_ten_thousand_flipped_bits(
    killed: tuple[Path, Truth], clean: tuple[Path, Truth], end: str, tmp_path: Path
) -> None:
    counts = outcomes(*(killed if end else clean), end, flip, 10_000, tmp_path)
    assert counts["set aside"] > 0


def mains(folder: Path) -> list[str]:
    """List the main files that were set aside."""
    names = sorted(each.name for each in folder.glob("*.corrupt-*"))
    return [name for name in names if not name.endswith(("-wal", "-shm"))]


@pytest.fixture
def damaged(clean: tuple[Path, Truth], tmp_path: Path) -> Path:
    """Give a journal with one note changed behind slaqd's back."""
    place = tmp_path / "state"
    shutil.copytree(clean[0], place)
    with closing(sqlite3.connect(place / NAME, isolation_level=None)) as db:
        db.execute("DROP TRIGGER notes_update")
        db.execute("UPDATE notes SET value = 'a stranger' WHERE job = '5'")
        db.execute(next(each for each in schema.CREATE if "notes_update" in each))
    return place / NAME


def test_what_can_be_saved_is_saved_and_the_rest_is_said(damaged: Path) -> None:
    journal = open_journal(damaged, NOW)
    assert journal.unconfirmed == (
        "the journal was damaged (1 of its rows in 'notes' were not written by slaqd) and set aside as"
        f" {NAME}.corrupt-20260302T040000Z; saved from it: jobs {JOBS}, notes {JOBS - 1}"
    )
    assert len(journal.registrations()) == JOBS
    assert journal.notes(key(4)) == {"hold": "cgroup2 " * 20}
    assert journal.notes(key(5)) == {}
    journal.close()


def test_the_doubt_lasts_over_starts_until_everything_may_go_on(damaged: Path) -> None:
    open_journal(damaged, NOW).close()
    for _ in range(2):
        journal = open_journal(damaged, NOW + 60)
        journal.pause_all(paused=True)
        assert journal.unconfirmed
        journal.close()
    journal = open_journal(damaged, NOW + 120)
    journal.pause_all(paused=False)
    journal.close()
    journal = open_journal(damaged, NOW + 180)
    assert journal.unconfirmed == ""
    journal.close()
    assert mains(damaged.parent) == [f"{NAME}.corrupt-20260302T040000Z"]


def test_two_damaged_journals_of_one_second_are_both_kept(damaged: Path) -> None:
    bad = damaged.read_bytes()
    open_journal(damaged, NOW).close()
    damaged.write_bytes(bad)
    journal = open_journal(damaged, NOW)
    assert journal.unconfirmed
    journal.close()
    kept = mains(damaged.parent)
    assert kept == [f"{NAME}.corrupt-20260302T040000Z", f"{NAME}.corrupt-20260302T040000Z-2"]
    assert {(damaged.parent / name).read_bytes() for name in kept} == {bad}


@pytest.mark.parametrize("left", ["renamed", "half renamed", "nothing made", "half made"])
def test_a_kill_while_it_is_set_aside_doesnt_take_the_doubt_away(damaged: Path, left: str) -> None:
    aside = damaged.with_name(f"{NAME}.corrupt-20260302T040000Z")
    damaged.rename(aside)
    if left == "half renamed":
        damaged.with_name(f"{NAME}-wal").write_bytes(b"")
        damaged.with_name(f"{NAME}-shm").write_bytes(b"")
    elif left == "half made":
        damaged.with_name(f"{NAME}.new").write_bytes(b"")
    journal = open_journal(damaged, NOW + 60)
    assert "set aside as" in journal.unconfirmed
    assert len(journal.registrations()) == JOBS
    journal.close()
    assert not damaged.with_name(f"{NAME}.new").exists()


def test_a_log_without_its_main_file_is_never_played_into_a_new_one(
    killed: tuple[Path, Truth], tmp_path: Path
) -> None:
    place = tmp_path / "state"
    shutil.copytree(killed[0], place)
    (place / NAME).unlink()
    journal = open_journal(place / NAME, NOW)
    assert "its main file is gone" in journal.unconfirmed
    assert journal.registrations() == []
    journal.close()


@pytest.mark.parametrize("byte", [4, 8, 12, 16, 24, 4000])
def test_damage_before_the_last_transaction_of_a_log_is_found_wherever_it_strikes(
    killed: tuple[Path, Truth], tmp_path: Path, byte: int
) -> None:
    place = tmp_path / "state"
    shutil.copytree(killed[0], place)
    data = bytearray((place / f"{NAME}-wal").read_bytes())
    frame = 24 + 4096
    ends = [at for at in range(32, len(data), frame) if any(data[at + 4 : at + 8])]
    data[ends[-2] + byte] ^= 0x40
    (place / f"{NAME}-wal").write_bytes(data)
    journal = open_journal(place / NAME, NOW)
    assert "its log breaks off in the middle" in journal.unconfirmed
    journal.close()


def test_a_fresh_start_is_not_in_doubt(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / NAME, NOW)
    assert journal.unconfirmed == ""
    journal.close()
    assert [each.name for each in tmp_path.iterdir()] == [NAME]
    assert oct((tmp_path / NAME).stat().st_mode)[-3:] == "600"


def test_a_journal_of_a_newer_slaqd_is_neither_opened_nor_set_aside(tmp_path: Path) -> None:
    path = tmp_path / NAME
    open_journal(path, NOW).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE of_tomorrow (x)")
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StateRefused, match="written by a newer slaqd"):
        open_journal(path, NOW)
    assert path.read_bytes() == before
    assert mains(tmp_path) == []


@pytest.mark.parametrize("number", [0, 1, 99, -3])
def test_a_wrong_schema_number_is_damage_and_no_newer_slaqd(damaged: Path, number: int) -> None:
    with closing(sqlite3.connect(damaged, isolation_level=None)) as db:
        db.execute("DELETE FROM notes WHERE job = '5'")
        db.execute(f"PRAGMA user_version = {number}")
    journal = open_journal(damaged, NOW)
    assert "the number of its schema is wrong" in journal.unconfirmed
    journal.close()


def test_what_is_no_journal_is_set_aside_and_not_deleted(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"my thesis " * 1000)
    journal = open_journal(tmp_path / NAME, NOW)
    assert "file is not a database" in journal.unconfirmed
    journal.close()
    assert (tmp_path / f"{NAME}.corrupt-20260302T040000Z").read_bytes() == b"my thesis " * 1000


def test_a_disk_that_fails_is_no_damage(
    clean: tuple[Path, Truth], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "state"
    shutil.copytree(clean[0], place)

    def fails(_path: Path) -> sqlite3.Connection:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error

    monkeypatch.setattr(room, "_read_only", fails)
    with pytest.raises(StateError, match="disk I/O error"):
        open_journal(place / NAME, NOW)
    assert [each.name for each in place.iterdir()] == [NAME]


def test_an_interrupt_while_it_is_looked_at_is_no_damage(
    clean: tuple[Path, Truth], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "state"
    shutil.copytree(clean[0], place)

    def interrupted(*_values: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(schema, "row_sum", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_journal(place / NAME, NOW)
    assert mains(place) == []


def test_a_torn_last_write_is_no_damage(killed: tuple[Path, Truth], tmp_path: Path) -> None:
    """A kill in the middle of a write: nobody was told that it is on disk."""
    for cut_off in range(1, 4000, 500):
        place = tmp_path / f"{cut_off}"
        shutil.copytree(killed[0], place)
        wal = place / f"{NAME}-wal"
        os.truncate(wal, wal.stat().st_size - cut_off)
        journal = open_journal(place / NAME, NOW)
        assert journal.unconfirmed == ""
        assert len(journal.registrations()) == JOBS
        journal.close()


def test_one_that_has_been_followed_by_another_writes_no_more(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / NAME), Journal(tmp_path / NAME)
    first.begin_run(NOW)
    first.keep_fact("a", "1")
    second.begin_run(NOW)
    with pytest.raises(StateError, match="another slaqd has taken this journal over"):
        first.keep_fact("a", "2")
    with pytest.raises(StateError, match="taken this journal over"):
        first.intend([SetUnits("x", key(1), "one", 3)], {}, NOW, {})
    assert second.fact("a") == "1"
    assert list(second.actions()) == []
    first.close()
    second.close()


def test_damage_found_while_running_stops_all_writing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / NAME)
    for number in range(200):
        journal.register(registration(number))
    journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = (tmp_path / NAME).stat().st_size
    with (tmp_path / NAME).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    journal._db.execute("PRAGMA shrink_memory")
    with pytest.raises(StateError):
        journal.registrations()
    assert "malformed" in journal.trouble
    with pytest.raises(StateError, match="started anew, sets it aside"):
        journal.keep_fact("paused", "0")
    journal.close()
