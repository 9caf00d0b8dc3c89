"""A job's row in the snapshot, its notes, and the adapter's section of the configuration."""

from __future__ import annotations

import msgspec
import pytest
from slaqd_local import Config, processes, rows
from slaqd_local.means import LEAST_US, Seen, job_directory, period_us, quota_us
from slaqd_local.notes import Notes
from slaqd_local.rows import Facts

from slaqd.adapter import Registration
from slaqd.tag import MOST_UNITS
from slaqd.testing import MemoryStore
from slaqd.types import JobKey, Lever, Owner, State, Tag

KEY = JobKey("local", "42", 1000)


def registration(**tag: object) -> Registration:
    return Registration(KEY, Owner(1, "me"), Tag(**tag), "job", "/", 0.0)


def test_a_quota_that_is_no_whole_number_of_units_is_not_a_target() -> None:
    assert rows.target(Seen(200), 100) == 2
    assert rows.target(Seen(150), 100) is None
    assert rows.target(Seen(None), 100) is None
    assert rows.target(None, 100) is None


def test_a_job_without_bounds_has_the_machine() -> None:
    assert rows.sizes(registration(), 20).max == 20
    bounds = rows.sizes(registration(min=4, max=2), 20)
    assert (bounds.min, bounds.max) == (4, 4)


@pytest.mark.parametrize("said", [{"min": 10**30}, {"min": 10**30, "max": 10**30}, {"max": 10**30}])
def test_no_bound_is_above_the_most_units_that_are_planned(said: dict[str, int]) -> None:
    row = rows.row(registration(**said), Facts(State.RUNNING, Seen(200), spares=0.1), 100, 20)
    assert (row.sizes.min, row.sizes.max) == (MOST_UNITS if "min" in said else 1, MOST_UNITS)


def test_a_job_that_is_partly_outside_its_quota_may_shrink_and_not_grow() -> None:
    row = rows.row(registration(), Facts(State.RUNNING, Seen(200), escapes="process 7"), 100, 20)
    assert (row.target, row.gap, row.cannot_shrink, row.cannot_grow) == (2, None, None, "process 7")


def test_a_lever_of_another_manager_is_named() -> None:
    job = rows.row(registration(lever=Lever.ARRAY), Facts(State.RUNNING), 100, 20)
    assert job.lever is Lever.NONE
    assert job.cannot_grow == "lever array is not one of this machine's"


def test_a_job_that_follows_a_file_has_units_and_no_quota() -> None:
    job = rows.row(
        registration(lever=Lever.FILE, dir="ctl", min=2, max=6), Facts(State.RUNNING, uses=0.31), 100, 20
    )
    assert (job.lever, job.sizes.min, job.sizes.max, dict(job.unit)) == (Lever.FILE, 2, 6, {"cpu_milli": 100})
    assert (job.held, job.target, job.cannot_grow, job.cannot_shrink) == (3, None, None, None)


def test_a_lever_of_files_without_a_place_for_them_is_none() -> None:
    job = rows.row(registration(lever=Lever.FILE), Facts(State.RUNNING), 100, 20)
    assert (job.lever, job.cannot_grow, job.cannot_shrink) == (Lever.NONE, *["lever=file needs dir="] * 2)


@pytest.mark.parametrize(
    ("seen", "uses", "units"),
    [(Seen(500), 0.1, 5), (Seen(450), 0.1, 5), (Seen(None), 0.31, 3), (Seen(None), 0.0, 1), (None, 0.0, 1)],
    ids=["whole", "of other units", "lifted or half done", "idle", "in one hierarchy alone"],
)
@pytest.mark.parametrize("said", [{"lever": Lever.NONE}, {"lever": Lever.FILE, "dir": "ctl"}])
def test_a_job_whose_lever_is_another_is_shown_held_while_anything_of_its_hold_is_there(
    said: dict[str, object], seen: Seen | None, uses: float, units: int
) -> None:
    facts = Facts(State.RUNNING, seen, in_hold=True, uses=uses)
    job = rows.row(registration(**said), facts, 100, 20)
    assert (job.lever, job.held, job.target) == (said["lever"], units, units)
    free = rows.row(registration(**said), facts._replace(in_hold=False, seen=None), 100, 20)
    assert free.target is None
    over = rows.row(registration(**said), facts._replace(state=State.ENDED), 100, 20)
    assert (over.held, over.target) == (0, None)


def test_an_ended_job_holds_nothing() -> None:
    job = rows.row(registration(), Facts(State.ENDED, Seen(200), spares=0.1, cpu_seconds=3.5), 100, 20)
    assert (job.held, job.target, job.wants, job.cpu_seconds) == (0, None, None, 3.5)


def test_what_a_job_wants_is_told_in_units() -> None:
    assert rows.row(registration(max=8), Facts(State.RUNNING, Seen(800), spares=0.25), 100, 20).wants == 4


@pytest.fixture
def all_live(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    dead = set[str]()
    monkeypatch.setattr(processes, "read", lambda pid: None if str(pid) in dead else object())
    return dead


@pytest.mark.usefixtures("all_live")
def test_the_first_origin_is_the_truth() -> None:
    notes = Notes(MemoryStore(), KEY)
    notes.set_hold("cgroup1", {"cpu": {"1": "/a", "2": "/a", "3": "/b"}})
    notes.set_hold("cgroup1", {"cpu": {"1": "/slaqd/job", "4": "/c", "5": "/a"}})
    assert notes.hold is not None
    assert notes.hold.origins == {"cpu": {"": "/a", "3": "/b", "1": "/slaqd/job", "4": "/c"}}


def test_origins_of_the_dead_are_forgotten(all_live: set[str]) -> None:
    notes = Notes(MemoryStore(), KEY)
    notes.set_hold("cgroup1", {"cpu": {"1": "/a", "2": "/a", "3": "/b", "4": "/c"}})
    all_live |= {"3", "5"}
    notes.set_hold("cgroup1", {"cpu": {"5": "/d", "6": "/e"}})
    assert notes.hold is not None
    assert notes.hold.origins == {"cpu": {"": "/a", "4": "/c", "6": "/e"}}


@pytest.mark.usefixtures("all_live")
def test_no_job_has_more_than_256_origins_beside_the_usual_one_nor_one_longer_than_a_path() -> None:
    notes = Notes(MemoryStore(), KEY)
    notes.set_hold("cgroup1", {"cpu": {"1": "/a", "2": "/a", "3": f"/{'x' * 4095}", "4": f"/{'ü' * 2048}"}})
    for first in (1000, 2000):
        more = {str(pid): f"/from/{pid}" for pid in range(first, first + 200)}
        notes.set_hold("cgroup1", {"cpu": more})
    assert notes.hold is not None
    found = notes.hold.origins["cpu"]
    assert (found[""], found["3"], len(found)) == ("/a", f"/{'x' * 4095}", 257)
    assert "4" not in found
    assert [str(pid) in found for pid in (1000, 1199, 2000, 2054, 2055)] == [True] * 4 + [False]


@pytest.mark.usefixtures("all_live")
def test_a_jobs_origins_are_no_more_than_64_kib_however_long_their_names() -> None:
    notes = Notes(MemoryStore(), KEY)
    notes.set_hold("cgroup1", {"cpu": {"1": "/a", "2": "/a"}})
    notes.set_hold("cgroup1", {"cpu": {str(pid): f"/{pid}{'x' * 4091}" for pid in range(1000, 1100)}})
    assert notes.hold is not None
    assert list(notes.hold.origins["cpu"]) == ["", *(str(pid) for pid in range(1000, 1016))]


def test_a_usual_origin_that_is_not_known_is_not_written_down() -> None:
    notes = Notes(MemoryStore(), KEY)
    notes.set_hold("cgroup1", {"cpu": {"1": f"/{'x' * 4096}"}})
    assert notes.hold is not None
    assert notes.hold.origins == {"cpu": {}}


def test_origins_under_another_means_are_others() -> None:
    notes = Notes(MemoryStore(), KEY)
    notes.set_hold("cgroup1", {"cpu": {"1": "/a"}})
    notes.set_hold("keeper", {})
    assert notes.hold is not None
    assert (notes.hold.means, notes.hold.origins) == ("keeper", {})


def test_a_job_held_to_nothing_holds_what_it_uses() -> None:
    seen = Facts(State.RUNNING, uses=0.52)
    assert (rows.row(registration(), seen, 100, 20).held, rows.row(registration(), seen, 100, 20).target) == (
        5,
        None,
    )
    given_back = Facts(State.RUNNING, uses=0.52, restored=True)
    assert rows.row(registration(), given_back, 100, 20).held == 0


def test_notes_are_there_for_the_next_slaqd() -> None:
    store = MemoryStore()
    old = Notes(store, KEY)
    old.set_hold("cgroup2", {"": {"7": "/x"}})
    old.admit()
    old.set_restored(1.5)
    new = Notes(store, KEY)
    assert (new.hold, new.admitted, new.restored, new.cpu) == (None, True, True, 1.5)
    new.take_back()
    assert not Notes(store, KEY).restored


def test_a_group_is_named_by_numbers_alone() -> None:
    assert job_directory(KEY) == "job-42-1000"
    with pytest.raises(ValueError, match="invalid literal"):
        job_directory(JobKey("local", "../../etc", 1))


def test_the_kernel_takes_no_quota_below_a_millisecond() -> None:
    assert [quota_us(milli, 100_000) for milli in (1, 10, 20, 1500)] == [1000, 1000, 2000, 150_000]


@pytest.mark.parametrize("unit_milli", [10, 20, 50, 100, 1000])
def test_one_unit_is_a_quota_that_the_kernel_takes_as_it_is(unit_milli: int) -> None:
    period = period_us(unit_milli)
    assert quota_us(unit_milli, period) == unit_milli * period / 1000 >= LEAST_US


@pytest.mark.parametrize(
    "text",
    [
        '{"unit": 1}',
        '{"unit_milli": 0}',
        '{"cgroup": "../x"}',
        '{"cgroup": "a/b"}',
        '{"means": "nice"}',
        '{"cores": 0}',
    ],
)
def test_a_wrong_section_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Config)
