"""The admin's brakes: whose jobs, which jobs, and the file that halts every act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from put_together import MYSELF, Daemon, Make

from slaqd.config import EnforceSection
from slaqd.daemon.brakes import braked, halted, observed
from slaqd.testing import FakeAdapter
from slaqd.types import Mode, Owner, Refused, Snapshot
from slaqd.wire import JobArgs, JobView, StatusView, Verb

EVE = Owner(uid=MYSELF.uid + 1, name="eve", account="physics")
WAYS_IN = (
    EnforceSection(pools=("fake",)),
    EnforceSection(accounts=("physics",)),
    EnforceSection(users=("eve",)),
    EnforceSection(pools=("other",), users=("eve", "bob")),
)
NO_WAY = (
    EnforceSection(),
    EnforceSection(pools=("other",), accounts=("chemistry",), users=("adam",)),
    EnforceSection(users=("Eve", "ev", "eve ")),
    EnforceSection(accounts=("",), users=(str(EVE.uid),)),
)


def stop(daemon: Daemon) -> Path:
    return Path(daemon.loop.config.path).parent / "stop"


@pytest.mark.parametrize("lists", NO_WAY)
def test_a_job_outside_the_lists_is_observed_only_with_the_reason(make: Make, lists: EnforceSection) -> None:
    daemon = make(enforce=lists)
    hers = daemon.start(1, owner=EVE)
    daemon.cycle()
    daemon.cycle()
    assert daemon.manager.acts == []
    said = daemon.loop.view.jobs[hers].reason
    assert said == (
        "observed only: neither its pool fake, its account physics nor its user eve is in [enforce]"
    )


@pytest.mark.parametrize("lists", WAYS_IN)
def test_each_list_is_a_way_in(make: Make, lists: EnforceSection) -> None:
    daemon = make(enforce=lists)
    daemon.start(1, owner=EVE)
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_ones_own_jobs_need_no_entry(make: Make) -> None:
    daemon = make(enforce=EnforceSection(users=("eve",)))
    daemon.start(1)
    daemon.start(2, owner=EVE)
    daemon.start(3, owner=Owner(uid=EVE.uid + 1, name="bob"))
    daemon.cycle()
    assert set(daemon.held()) == {"1", "2"}


def test_an_empty_account_is_in_no_list(make: Make) -> None:
    daemon = make(enforce=EnforceSection(accounts=("physics",)))
    key = daemon.start(1, owner=Owner(uid=EVE.uid, name="eve"))
    daemon.cycle()
    assert daemon.held() == {}
    assert "neither its pool fake nor its user eve" in daemon.loop.view.jobs[key].reason


def test_observing_shows_for_everybody_what_would_be(make: Make) -> None:
    daemon = make(mode=Mode.OBSERVE)
    hers = daemon.start(1, owner=EVE)
    daemon.cycle()
    assert daemon.loop.view.jobs[hers].plan == 8


def test_a_command_outside_the_lists_doesnt_wait_for_an_admission_that_cant_come(make: Make) -> None:
    daemon = make()
    hers = daemon.start(1, owner=EVE, waits=True)
    daemon.start(2, waits=True)
    daemon.cycle()
    assert not daemon.loop.view.jobs[hers].wait
    assert set(daemon.held()) == {"2"}
    daemon.cycle()
    assert daemon.loop.view.jobs[hers].state == "running"
    assert set(daemon.held()) == {"2"}


def test_what_an_observed_job_holds_is_not_given_to_others(make: Make) -> None:
    first = make(enforce=EnforceSection(users=("eve",)), units=10)
    first.start(1, owner=EVE)
    first.cycle()
    second = make(units=10, manager=first.manager)
    second.start(2)
    second.cycle()
    assert second.held() == {"1": 8, "2": 2}


@pytest.mark.parametrize(
    ("overhead", "said"),
    [
        ({"gres/gpu": 1}, "holds gres/gpu: observed only"),
        (
            {"cpu_milli": 100, "license/matlab": 2, "gres/gpu": 4},
            "holds gres/gpu, license/matlab: observed only",
        ),
    ],
)
def test_a_job_that_holds_what_slaqd_doesnt_hand_out_is_observed_only(
    make: Make, overhead: dict[str, int], said: str
) -> None:
    daemon = make()
    strange, plain = daemon.start(1), daemon.start(2)
    daemon.manager.overheads[strange] = overhead
    daemon.cycle()
    assert set(daemon.held()) == {"2"}
    assert daemon.loop.view.jobs[strange].reason == said
    assert daemon.loop.view.jobs[plain].units is None
    assert "observed only" not in daemon.loop.view.jobs[plain].reason


def test_a_strange_unit_counts_too_and_none_of_it_doesnt(make: Make) -> None:
    snapshot = of(make(), unit={"cpu_milli": 100, "gres/gpu": 0})
    assert observed(snapshot, EnforceSection(), MYSELF.uid) == {}
    snapshot = of(make(), unit={"cpu_milli": 100, "gres/gpu": 1})
    assert list(observed(snapshot, None, MYSELF.uid).values()) == ["holds gres/gpu: observed only"]


def of(daemon: Daemon, **changed: Any) -> Snapshot:
    daemon.start(1)
    snapshot = FakeAdapter.snapshot(daemon.adapter, daemon.clock.monotonic() + 10)
    jobs = tuple(msgspec.structs.replace(job, **changed) for job in snapshot.jobs)
    return msgspec.structs.replace(snapshot, jobs=jobs)


def test_what_the_adapter_cant_read_keeps_the_adapters_reason(make: Make) -> None:
    daemon = make()
    key = daemon.start(1, owner=EVE)
    daemon.manager.job_gaps[key] = "het component 1 can't be read"
    daemon.cycle()
    assert daemon.manager.acts == []
    assert daemon.loop.view.jobs[key].reason == "het component 1 can't be read"


def test_braking_changes_nothing_but_gaps(make: Make) -> None:
    snapshot = of(make())
    (job,) = snapshot.jobs
    assert braked(snapshot, (), {}) is snapshot
    (after,) = braked(snapshot, {job.key}, {}).jobs
    assert msgspec.structs.replace(after, gap=None) == job
    assert after.gap == "paused by request: it keeps what it has"


# the file


def test_the_stop_file_halts_every_act_and_is_shown(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.cycle()
    daemon.start(2)
    stop(daemon).touch()
    said = daemon.cycle()
    assert said == f"2 jobs running; 10 of 10 units planned; halted by the file {stop(daemon)}"
    assert daemon.ask(Verb.STATUS, StatusView).halted == f"halted by the file {stop(daemon)}"
    assert daemon.held() == {"1": 8}
    stop(daemon).unlink()
    daemon.cycle()
    assert daemon.held() == {"1": 5, "2": 5}
    assert daemon.ask(Verb.STATUS, StatusView).halted == ""


def test_a_stop_file_that_comes_between_the_intents_and_the_act_halts_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = make()
    daemon.start(1)
    intend = daemon.journal.intend

    def intends(*args: Any) -> None:
        intend(*args)
        stop(daemon).touch()

    monkeypatch.setattr(daemon.journal, "intend", intends)
    daemon.cycle()
    assert daemon.manager.acts == []
    (row,) = daemon.journal.actions()
    assert (row.kind, row.outcome) == ("Adopt", "Refused")
    assert row.outcome_why == f"halted by the file {stop(daemon)}"


@pytest.mark.parametrize("kind", ["directory", "dangling link", "link in a circle"])
def test_whatever_stands_there_halts(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "stop"
    if kind == "directory":
        file.mkdir()
    else:
        file.symlink_to(file if "circle" in kind else tmp_path / "nothing")
    assert halted(file) == f"halted by the file {file}"


def test_a_place_that_cant_be_looked_at_halts_too(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    assert "can't be told" in halted(circle / "stop")
    (tmp_path / "file").touch()
    assert halted(tmp_path / "file" / "stop") == ""
    assert halted(tmp_path / "nothing" / "stop") == ""


def test_while_halted_a_command_starts_at_once_and_is_a_running_job_after(make: Make) -> None:
    daemon = make(units=4)
    daemon.start(1, min=3)
    waits = daemon.start(2, min=3, waits=True)
    daemon.cycle()
    assert daemon.loop.view.jobs[waits].wait
    stop(daemon).touch()
    daemon.cycle()
    assert not daemon.loop.view.jobs[waits].wait
    stop(daemon).unlink()
    daemon.cycle()
    assert daemon.loop.view.jobs[waits].state == "running"


def test_a_restore_that_a_person_asks_for_works_while_halted(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.cycle()
    stop(daemon).touch()
    assert "has back what it had" in daemon.ask(Verb.RESTORE, str, JobArgs(job="1"))
    assert daemon.held() == {}


# drop


def test_a_dropped_job_runs_on_free_and_slaqd_knows_it_no_more(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.start(2)
    daemon.cycle()
    assert daemon.ask(Verb.DROP, str, JobArgs(job="1")) == (
        "job 1 has back what it had, and slaqd knows it no more"
    )
    assert one in daemon.manager.restored
    assert [view.job for view in daemon.ask(Verb.JOBS, list[JobView])] == ["2"]
    assert daemon.ask(Verb.SHOW, JobView, JobArgs(job="1")).code == "not_found"
    daemon.cycle()
    daemon.cycle()
    assert daemon.held() == {"2": 8}
    assert daemon.journal.notes(one) == {}
    assert [row.kind for row in daemon.journal.actions() if row.key == one] == ["Adopt", "Restore"]


def test_a_dropped_job_can_be_registered_again(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.cycle()
    daemon.ask(Verb.DROP, str, JobArgs(job="1"))
    daemon.start(1)
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_a_job_that_cant_be_restored_is_not_forgotten(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = make()
    key = daemon.start(1)
    daemon.cycle()
    with monkeypatch.context() as patch:
        patch.setattr(daemon.adapter, "apply", lambda actions, _deadline: [Refused("no")] * len(actions))
        assert daemon.ask(Verb.DROP, str, JobArgs(job="1")).code == "refused"
    daemon.cycle()
    assert daemon.loop.view.jobs[key].paused


@pytest.mark.parametrize("args", [{}, {"job": None}])
def test_a_drop_needs_a_name(make: Make, args: dict[str, None]) -> None:
    daemon = make()
    daemon.start(1)
    assert daemon.ask(Verb.DROP, str, args).code == "bad_request"
    assert len(daemon.journal.registrations()) == 1
