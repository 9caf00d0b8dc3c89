"""The numbers say what the loop did, and nothing of whose jobs they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import registry as global_registry
from prometheus_client.parser import text_string_to_metric_families
from put_together import Daemon

from slaqd.daemon.metrics import registry
from slaqd.daemon.tally import BOUNDS_S, Result
from slaqd.types import Mode, Snapshot

Make = Callable[..., "Seen"]


class Seen:
    """A daemon, and its numbers as a reader gets them."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.registry: CollectorRegistry = registry(lambda: daemon.loop.config, lambda: daemon.loop.view)

    def now(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def cycles(self) -> dict[str, float | None]:
        return {result.value: self.now("slaqd_cycles_total", result=result.value) for result in Result}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Daemon] = []

    def one(**said: Any) -> Seen:
        made.append(Daemon(tmp_path, **said))
        return Seen(made[-1])

    yield one
    for daemon in made:
        daemon.journal.close()


def test_a_good_cycle_is_counted_with_its_time(make: Make) -> None:
    seen = make()
    assert seen.now("slaqd_cycle_last_success_timestamp_seconds") == 0.0
    seen.daemon.cycle()
    seen.daemon.cycle()
    assert seen.cycles() == {"ok": 2, "journal": 0, "manager": 0, "fault": 0}
    assert seen.now("slaqd_cycle_last_success_timestamp_seconds") == seen.daemon.clock.wall()
    assert seen.now("slaqd_cycle_seconds_count") == 2
    assert seen.now("slaqd_cycle_seconds_bucket", le="0.01") == 2  # a manual clock stands still


def test_a_cycle_falls_into_the_buckets_that_it_fits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = make()
    look = seen.daemon.adapter.snapshot

    def slow(deadline: float) -> Snapshot:
        seen.daemon.clock.advance(2.0)  # type: ignore[attr-defined]
        return look(deadline)

    monkeypatch.setattr(seen.daemon.adapter, "snapshot", slow)
    seen.daemon.cycle()
    fits = {bound: seen.now("slaqd_cycle_seconds_bucket", le=str(bound)) for bound in BOUNDS_S}
    assert fits == {bound: float(bound >= 2.0) for bound in BOUNDS_S}
    assert seen.now("slaqd_cycle_seconds_bucket", le="+Inf") == 1
    assert seen.now("slaqd_cycle_seconds_sum") == pytest.approx(2.0)


@pytest.mark.parametrize("how", ["silent", "partial"])
def test_a_manager_that_gives_no_whole_answer_is_down(make: Make, how: str) -> None:
    seen = make()
    seen.daemon.cycle()
    before = seen.now("slaqd_cycle_last_success_timestamp_seconds")
    if how == "silent":
        seen.daemon.manager.down = "no answer"
    else:
        seen.daemon.manager.gaps = ("half of it is missing",)
    seen.daemon.cycle()
    assert (seen.now("slaqd_manager_up"), seen.now("slaqd_journal_writable")) == (0, 1)
    assert seen.cycles() == {"ok": 1, "journal": 0, "manager": 1, "fault": 0}
    assert seen.now("slaqd_cycle_last_success_timestamp_seconds") == before
    seen.daemon.manager.down, seen.daemon.manager.gaps = None, ()
    seen.daemon.cycle()
    assert seen.now("slaqd_manager_up") == 1


def test_a_journal_that_takes_nothing_is_not_writable(make: Make) -> None:
    seen = make()
    seen.daemon.start(1)
    seen.daemon.journal._db.execute("PRAGMA query_only = ON")
    seen.daemon.cycle()
    assert (seen.now("slaqd_manager_up"), seen.now("slaqd_journal_writable")) == (1, 0)
    assert seen.cycles() == {"ok": 0, "journal": 1, "manager": 0, "fault": 0}
    seen.daemon.journal._db.execute("PRAGMA query_only = OFF")
    seen.daemon.cycle()
    assert seen.now("slaqd_journal_writable") == 1


def test_a_fault_of_ones_own_is_nobody_elses(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = make()

    def broken(_deadline: float) -> Snapshot:
        raise ZeroDivisionError

    monkeypatch.setattr(seen.daemon.adapter, "snapshot", broken)
    seen.daemon.cycle()
    assert seen.cycles() == {"ok": 0, "journal": 0, "manager": 0, "fault": 1}
    assert (seen.now("slaqd_manager_up"), seen.now("slaqd_journal_writable")) == (1, 1)


def test_a_journal_that_was_damaged_shows_until_an_admin_confirms(make: Make) -> None:
    seen = make()
    seen.daemon.journal.keep_fact("unconfirmed", "two rows are lost")
    seen.daemon.cycle()
    assert (seen.now("slaqd_journal_whole"), seen.now("slaqd_journal_writable")) == (0, 1)
    seen.daemon.journal.keep_fact("unconfirmed", "")
    seen.daemon.cycle()
    assert seen.now("slaqd_journal_whole") == 1


def test_actions_are_counted_by_kind_and_outcome(make: Make) -> None:
    seen = make()
    one = seen.daemon.start(1)
    seen.daemon.manager.refuses[one] = "not now"
    seen.daemon.cycle()
    del seen.daemon.manager.refuses[one]
    seen.daemon.cycle()
    seen.daemon.loop.restore([one], "asked by a test")
    seen.daemon.cycle()
    assert seen.now("slaqd_actions_total", kind="adopt", outcome="refused") == 1
    assert seen.now("slaqd_actions_total", kind="adopt", outcome="accepted") == 2
    assert seen.now("slaqd_actions_total", kind="restore", outcome="accepted") == 1


def test_jobs_logs_and_units_are_what_the_view_shows(make: Make) -> None:
    seen = make()
    seen.daemon.start(1, min=3)
    seen.daemon.start(2, min=9, waits=True)
    seen.daemon.cycle()
    seen.daemon.cycle()
    assert seen.now("slaqd_jobs", state="running") == 1
    assert seen.now("slaqd_jobs", state="waiting") == 1
    assert seen.now("slaqd_logs", health="missing") == 2
    assert seen.now("slaqd_logs", health="ok") == 0
    assert [seen.now("slaqd_units", kind=kind) for kind in ("target", "planned", "room")] == [8, 8, 10]


@pytest.mark.parametrize(
    ("brake", "enforcing", "paused", "halted"),
    [("none", 1, 0, 0), ("pause", 0, 1, 0), ("observe", 0, 0, 0), ("stop", 0, 0, 1)],
)
def test_the_brakes_show(
    make: Make, monkeypatch: pytest.MonkeyPatch, brake: str, enforcing: int, paused: int, halted: int
) -> None:
    seen = make(mode=Mode.OBSERVE if brake == "observe" else Mode.ENFORCE)
    if brake == "pause":
        seen.daemon.journal.keep_fact("paused", "1")
    if brake == "stop":
        monkeypatch.setattr("slaqd.daemon.loop.halted", lambda _path: "halted by a file")
    seen.daemon.cycle()
    said = [seen.now(f"slaqd_{name}") for name in ("enforcing", "paused", "halted")]
    assert said == [enforcing, paused, halted]


def test_a_refused_configuration_shows_until_a_good_one_comes(make: Make) -> None:
    seen = make()
    seen.daemon.cycle()
    assert seen.now("slaqd_config_last_reload_successful") == 1
    seen.daemon.loop.config_error = "slaqd.toml:3: no"
    seen.daemon.cycle()
    assert seen.now("slaqd_config_last_reload_successful") == 0


def test_before_the_first_cycle_nothing_is_said_that_only_a_cycle_knows(make: Make) -> None:
    seen = make()
    for name in ("slaqd_manager_up", "slaqd_journal_writable", "slaqd_enforcing", "slaqd_paused"):
        assert seen.now(name) is None
    assert seen.now("slaqd_epoch_seconds") == 3.0


def test_no_label_comes_from_a_user(make: Make) -> None:

    seen = make()
    for number in range(1, 20):
        seen.daemon.start(number, name=f"secret-{number}\n\x1b[2J", log=f"/secret/{number}.csv")
    seen.daemon.cycle()
    few = len(generate_latest(seen.registry).splitlines())
    assert b"secret" not in generate_latest(seen.registry)
    for number in range(20, 60):
        seen.daemon.start(number, name=f"secret-{number}")
    seen.daemon.cycle()
    assert len(generate_latest(seen.registry).splitlines()) == few


def test_every_family_reads_back_as_what_it_is_in_base_units(make: Make) -> None:

    seen = make()
    seen.daemon.cycle()
    families = list(text_string_to_metric_families(generate_latest(seen.registry).decode()))
    assert len(families) >= 20
    for family in families:
        assert family.name.startswith("slaqd_")
        assert family.documentation.endswith(".")
        assert not family.name.endswith(("_ms", "_minutes", "_kb", "_mb", "_percent"))
    assert len({family.name for family in families}) == len(families)


def test_the_librarys_own_registry_stays_as_it_was(make: Make) -> None:
    before = set(global_registry.REGISTRY._names_to_collectors)
    make().daemon.cycle()
    assert set(global_registry.REGISTRY._names_to_collectors) == before
    assert not [name for name in before if name.startswith("slaqd")]
