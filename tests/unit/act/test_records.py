"""What the journal keeps for people: bounded, and only what is news."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from modelled import job, key, registration, snapshot

from slaqd.act import Journal
from slaqd.act.pruning import Limits
from slaqd.act.records import Change, Observation, Plans
from slaqd.types import Allocation, Plan, SetUnits, Snapshot, State

DAY = 86_400.0
FEW = Limits(actions=50, plans=40, events=30, ended=20, observations=10)
TABLES = ("actions", "plans", "events", "observations")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite", FEW)
    yield made
    made.close()


def count(journal: Journal, table: str) -> int:
    return int(journal._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - our own tables


def act(journal: Journal, turn: int, now: float) -> None:
    """Do in one turn more of everything than a limit lets in."""
    numbers = range(turn * 25, turn * 25 + 25)
    actions = [SetUnits(f"{number}", key(number), "one", 3, "gain") for number in numbers]
    journal.intend(actions, {}, now, {})
    changes = [Change(key(number), 1000, 3, "gain", 0.1) for number in numbers]
    journal.keep_seen(changes, [Observation(key(f"o{number}"), 1000, "log") for number in numbers], now)
    for number in numbers:
        journal.tell("paused", "asked", now, job=str(number))
        journal.register(registration(number))
        journal.end(key(number), now, "{}")


def test_however_much_is_done_no_table_grows_past_its_limit(journal: Journal) -> None:
    pages = []
    for turn in range(20):
        act(journal, turn, 1000.0 + turn)
        assert all(count(journal, table) <= getattr(FEW, table) for table in TABLES)
        assert count(journal, "jobs") <= FEW.ended
        pages.append(journal._db.execute("PRAGMA page_count").fetchone()[0])
    assert [count(journal, table) for table in TABLES] == [50, 40, 30, 10]
    assert count(journal, "jobs") == FEW.ended
    assert max(pages[4:]) <= pages[4] + 2
    assert [row.id for row in journal.actions()][-1] == "499"
    assert len(journal.ended(1019.0)) == FEW.ended


def test_a_running_daemon_drops_what_is_a_month_old(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    act(journal, 0, 0.0)
    act(journal, 1, 20 * DAY)
    act(journal, 2, 31 * DAY)
    for table in TABLES:
        assert count(journal, table) == 50, table
    assert count(journal, "jobs") == 50
    journal.close()


def kept(journal: Journal) -> dict[str, int]:
    return {table: count(journal, table) for table in (*TABLES, "jobs")}


def test_a_start_and_a_write_with_a_clock_that_is_far_ahead_cost_two_rows_for_each_that_is_written(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    act(journal, 0, 0.0)
    before = kept(journal)
    ahead = 400 * DAY
    journal.begin_run(ahead)
    assert kept(journal) == {**before, "events": 25 + 1 - 2}
    journal.intend([SetUnits("one", key(1), "one", 3, "gain")], {}, ahead, {})
    journal.keep_seen([Change(key(1), 1000, 3, "gain")], [Observation(key(1), 1000, "log")], ahead)
    journal.register(registration(99))
    journal.end(key(99), ahead, "{}")
    assert kept(journal) == {"actions": 24, "plans": 24, "observations": 24, "jobs": 24, "events": 24}
    assert [row.id for row in journal.actions()][:2] == ["2", "3"]
    journal.close()


def test_much_at_once_drops_no_more_than_a_hundred_of_what_is_too_old(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    for turn in range(6):
        act(journal, turn, 0.0)
    many = [SetUnits(f"n{number}", key(number), "one", 3, "gain") for number in range(90)]
    journal.intend(many, {}, 400 * DAY, {})
    assert count(journal, "actions") == 150 + 90 - 100
    journal.close()


def test_live_jobs_are_never_dropped(journal: Journal) -> None:
    for number in range(1000, 1000 + 3 * FEW.ended):
        journal.register(registration(number, submitted=0.0))
    act(journal, 0, 100 * DAY)
    journal.begin_run(200 * DAY)
    assert len(journal.registrations()) == 3 * FEW.ended


def plan(*rows: tuple[int, int, str]) -> Plan:
    allocations = tuple(Allocation(key(number), units, reason) for number, units, reason in rows)
    return Plan(taken_at=5.0, incarnation="one", policy="slaq", allocations=allocations)


def seen(*numbers: int) -> Snapshot:
    return snapshot(*(job(number) for number in numbers))


def test_a_plan_is_news_where_its_units_or_its_words_change() -> None:
    plans = Plans({})
    first = plans.changes(plan((1, 3, "gain 0.031 for the next unit"), (2, 1, "fair share")), seen(1, 2))
    assert [one.key for one in first] == [key(1), key(2)]
    plans.kept(first)
    same = plan((1, 3, "gain 1.2e-05 for the next unit"), (2, 1, "fair share"))
    assert plans.changes(same, seen(1, 2)) == []
    other = plans.changes(plan((1, 4, "gain 0.03 for the next unit"), (2, 1, "at its maximum")), seen(1, 2))
    assert [(one.key, one.units, one.reason) for one in other] == [
        (key(1), 4, "gain 0.03 for the next unit"),
        (key(2), 1, "at its maximum"),
    ]


def test_what_could_not_be_kept_stays_news() -> None:
    plans = Plans({})
    assert len(plans.changes(plan((1, 3, "gain")), seen(1))) == 1
    assert len(plans.changes(plan((1, 3, "gain")), seen(1))) == 1


def test_a_restart_makes_no_news_of_what_was_kept(journal: Journal) -> None:
    journal.keep_seen([Change(key(1), 1000, 2, "old", None)], [], 1.0)
    journal.keep_seen([Change(key(1), 1000, 3, "gain 0.5", None)], [], 2.0)
    plans = Plans(journal.last_plans())
    assert plans.changes(plan((1, 3, "gain 0.4")), seen(1)) == []
    assert len(plans.changes(plan((1, 2, "old")), seen(1))) == 1


def test_an_ended_job_has_no_plan() -> None:
    over = snapshot(job(1, state=State.ENDED))
    assert Plans({}).changes(plan((1, 0, "ended")), over) == []


def test_nothing_new_writes_nothing(journal: Journal) -> None:
    before = journal._db.execute("PRAGMA data_version").fetchone(), journal._db.total_changes
    journal.keep_seen([], [], 1.0)
    assert (journal._db.execute("PRAGMA data_version").fetchone(), journal._db.total_changes) == before


def test_what_was_observed_comes_back_and_goes_with_the_job(journal: Journal) -> None:
    one = Observation(key(1), 1000, "log", 12, 11.0, 0.5, (1.0, 2.0, 3.0, 4.0, 5.0))
    two = Observation(key(2), 1000, "log")
    journal.keep_seen([], [Observation(key(1), 1000, "log"), two], 1.0)
    journal.keep_seen([], [one], 2.0)
    assert sorted(journal.observations(), key=lambda each: each.key) == [one, two]
    journal.register(registration(1))
    journal.end(key(1), 3.0, "{}")
    journal.drop(key(2))
    assert journal.observations() == []


def test_an_observation_of_another_version_is_left_out(journal: Journal) -> None:
    journal.keep_seen([], [Observation(key(1), 1000, "log"), Observation(key(2), 1000, "log")], 1.0)
    journal._db.execute("UPDATE observations SET value = '{\"key\":7}' WHERE job = '1'")
    assert [each.key for each in journal.observations()] == [key(2)]
