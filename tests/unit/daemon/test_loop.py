"""One cycle after another: what is done, what is left, what is said."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from put_together import Daemon, Make

from slaqd.clock import SystemClock
from slaqd.errors import StateError
from slaqd.testing import ManualClock
from slaqd.types import Lever, Mode, Outcome, Refused, Restore, Snapshot
from slaqd.wire import StatusView, Verb


def test_jobs_are_taken_up_and_share_the_room(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.start(2)
    assert daemon.cycle() == "2 jobs running; 10 of 10 units planned; 2 changes"
    assert daemon.held() == {"1": 5, "2": 5}
    assert daemon.cycle() == "2 jobs running; 10 of 10 units planned; 0 changes"


def test_a_waiting_job_is_admitted_where_there_is_room_and_waits_where_there_is_none(make: Make) -> None:
    daemon = make(units=4)
    daemon.start(1, min=3)
    second = daemon.start(2, min=3, waits=True)
    assert daemon.cycle() == "1 jobs running, 1 waiting; 4 of 4 units planned; 1 change"
    assert daemon.loop.view.jobs[second].wait
    assert "needs 3 units, 1 free" in daemon.loop.view.jobs[second].reason
    daemon.manager.ended.add(next(iter(daemon.manager.held)))
    daemon.cycle()
    daemon.cycle()
    assert not daemon.loop.view.jobs[second].wait
    assert daemon.held()["2"] == 4


@pytest.mark.parametrize("brake", ["pause", "observe"])
def test_a_command_that_started_without_admission_is_a_running_job_ever_after(make: Make, brake: str) -> None:
    daemon = make(units=4)
    daemon.start(1, min=3)
    second = daemon.start(2, min=3, waits=True)
    daemon.cycle()
    assert daemon.loop.view.jobs[second].wait
    if brake == "pause":
        daemon.journal.keep_fact("paused", "1")
        daemon.cycle()
    else:
        make(mode=Mode.OBSERVE, manager=daemon.manager).cycle()
        daemon = make(units=4, manager=daemon.manager)
    daemon.journal.keep_fact("paused", "0")
    daemon.cycle()
    view = daemon.loop.view.jobs[second]
    assert (view.state, view.wait) == ("running", False)
    assert daemon.held() == {"1": 3, "2": 3}


def test_observing_plans_and_shows_and_changes_nothing(make: Make) -> None:
    daemon = make(mode=Mode.OBSERVE)
    one = daemon.start(1)
    assert daemon.cycle() == "1 jobs running; 8 of 10 units planned; observing only"
    assert daemon.manager.acts == []
    assert list(daemon.journal.actions()) == []
    assert daemon.loop.view.jobs[one].plan == 8
    assert daemon.loop.view.jobs[one].units is None


def test_without_jobs_the_sentence_says_so(make: Make) -> None:
    assert make().cycle() == "no jobs"
    assert make(mode=Mode.OBSERVE).cycle() == "no jobs; observing only"


def test_an_empty_fleet_is_forgotten_from_the_view(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.cycle()
    daemon.manager.ended.add(one)
    daemon.cycle()
    assert dict(daemon.loop.view.jobs) == {}
    assert daemon.journal.ended(0.0)[0].registration.key == one
    assert daemon.cycle() == "no jobs"


def test_a_paused_job_keeps_what_it_has_and_the_others_share_the_rest(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.cycle()
    daemon.journal.pause(one, paused=True)
    daemon.start(2)
    daemon.cycle()
    assert daemon.held() == {"1": 8, "2": 2}
    assert daemon.loop.view.jobs[one].paused
    daemon.journal.pause(one, paused=False)
    daemon.cycle()
    assert daemon.held() == {"1": 5, "2": 5}


def test_while_everything_is_paused_nothing_changes(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.journal.keep_fact("paused", "1")
    assert daemon.cycle() == "1 jobs running; 8 of 10 units planned; paused"
    assert daemon.manager.acts == []
    daemon.journal.keep_fact("paused", "0")
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_a_manager_that_is_down_changes_nothing_and_the_loop_lives(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.manager.down = "no answer from the manager"
    assert daemon.cycle() == "nothing changed: no answer from the manager"
    assert daemon.manager.acts == []
    daemon.manager.down = None
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_a_partial_answer_changes_nothing(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.manager.gaps = ("partition b is missing",)
    assert daemon.cycle() == "nothing changed: the snapshot is not whole: partition b is missing"
    assert daemon.manager.acts == []


def test_what_was_seen_last_stays_to_be_seen_while_the_manager_is_down(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.cycle()
    daemon.manager.down = "silence"
    daemon.cycle()
    assert one in daemon.loop.view.jobs
    assert daemon.loop.view.sentence == "nothing changed: silence"
    assert daemon.loop.view.cycles == 2


def test_a_fault_of_ones_own_costs_a_cycle_not_the_daemon(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = make()
    daemon.start(1)

    def broken(_deadline: float) -> Snapshot:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(daemon.adapter, "snapshot", broken)
        assert daemon.cycle() == "nothing changed: a fault of slaqd's own, its trace is in the log"
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_a_refusal_is_counted_and_asked_again(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.manager.refuses[one] = "not now"
    assert daemon.cycle().endswith("1 change, 1 of them failed")
    del daemon.manager.refuses[one]
    assert daemon.cycle().endswith("1 change")
    assert daemon.held() == {"1": 8}


def test_a_lost_answer_is_settled_by_the_next_look(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.manager.mute = True
    assert daemon.cycle().endswith("1 of them failed")
    assert daemon.cycle().endswith("0 changes")
    assert [row.outcome for row in daemon.journal.actions()] == ["Unknown"]


def test_a_journal_that_cant_be_written_makes_it_observe_and_say_so(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.journal._db.execute("PRAGMA query_only = ON")
    assert "1 jobs running; 8 of 10 units planned; nothing changed: " in daemon.cycle()
    assert daemon.manager.acts == []
    assert daemon.loop.view.jobs[one].plan == 8
    daemon.journal._db.execute("PRAGMA query_only = OFF")
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_a_job_that_ends_while_the_journal_is_full_is_closed_later(make: Make) -> None:
    daemon = make()
    one, two = daemon.start(1), daemon.start(2)
    daemon.cycle()
    daemon.manager.ended.add(one)
    daemon.journal._db.execute("PRAGMA query_only = ON")
    daemon.cycle()
    assert daemon.loop.view.jobs[one].state == "ended"
    assert two in daemon.loop.view.jobs
    daemon.journal._db.execute("PRAGMA query_only = OFF")
    daemon.cycle()
    assert [row.registration.key for row in daemon.journal.ended(0.0)] == [one]
    assert daemon.held()["2"] == 8


def test_each_action_is_journalled_with_what_was_before(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.cycle()
    daemon.start(2)
    daemon.cycle()
    shown = [(row.kind, row.key.id, row.before, row.units, row.outcome) for row in daemon.journal.actions()]
    assert shown == [
        ("Adopt", "1", None, 8, "Accepted"),
        ("SetUnits", "1", 8, 5, "Accepted"),
        ("Adopt", "2", None, 5, "Accepted"),
    ]


def test_names_of_actions_differ_from_start_to_start(make: Make) -> None:
    first = make()
    first.start(1)
    first.cycle()
    second = make()
    second.start(2)
    second.cycle()
    names = [row.id for row in second.journal.actions()]
    assert len(set(names)) == len(names) == 3


def test_a_restore_goes_through_the_journal(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.cycle()
    (done,) = daemon.loop.restore([one], "asked")
    assert isinstance(done.action, Restore)
    assert daemon.held() == {}
    assert [row.kind for row in daemon.journal.actions()] == ["Adopt", "Restore"]


def test_a_restore_before_the_first_cycle_looks_first(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    (done,) = daemon.loop.restore([one], "asked")
    assert type(done.outcome).__name__ == "Accepted"


def test_letting_go_lifts_all_and_writes_it_down(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.cycle()
    daemon.loop.let_go()
    assert daemon.adapter.closed is True
    assert daemon.held() == {}
    assert [(row.kind, row.outcome) for row in daemon.journal.actions()][-1] == ("Restore", "Accepted")


def test_letting_go_works_on_a_full_disk_and_before_any_cycle(make: Make) -> None:
    daemon = make()
    daemon.start(1)
    daemon.cycle()
    daemon.journal._db.execute("PRAGMA query_only = ON")
    daemon.loop.let_go()
    assert daemon.held() == {}
    fresh = make()
    fresh.loop.let_go()
    assert fresh.adapter.closed is True


def test_a_job_with_a_log_that_cant_be_hurts_no_other(make: Make, tmp_path: Path) -> None:
    daemon = make()
    bad = [
        daemon.start(n, log=log) for n, log in enumerate(["{foo}", "a\0b", str(tmp_path), "/no/such/log"], 1)
    ]
    (tmp_path / "good.jsonl").write_text(
        "".join(json.dumps({"step": k, "loss": 1 / k}) + "\n" for k in range(1, 9)), encoding="utf-8"
    )
    good = daemon.start(50, log=str(tmp_path / "good.jsonl"))
    assert daemon.cycle().endswith("5 changes")
    assert daemon.loop.view.jobs[good].health == "ok"
    for key in bad:
        view = daemon.loop.view.jobs[key]
        assert view.health != "ok"
        assert view.note


def test_a_job_that_learns_gets_more_than_one_that_has_ended_learning(make: Make, tmp_path: Path) -> None:
    daemon = make()
    logs = {name: tmp_path / f"{name}.jsonl" for name in ("young", "old")}
    keys = {name: daemon.start(n, log=str(logs[name])) for n, name in enumerate(logs, 1)}
    losses = {"young": lambda k: 1 + 10 / (1 + 0.1 * k), "old": lambda k: 1 + 10 / (1 + k) ** 3}
    for turn in range(12):
        for name, loss in losses.items():
            with logs[name].open("a", encoding="utf-8") as out:
                for step in range(5 * turn, 5 * turn + 5):
                    out.write(
                        json.dumps({"step": step, "loss": loss(step), "time": 3 * turn + 0.6 * (step % 5)})
                        + "\n"
                    )
        daemon.cycle()
    assert daemon.manager.held[keys["young"]] > 2 * daemon.manager.held[keys["old"]]


def test_fair_share_doesnt_look_at_learning(make: Make) -> None:
    daemon = make(policy="fair", units=9)
    for number in (1, 2, 3):
        daemon.start(number)
    daemon.cycle()
    assert daemon.held() == {"1": 3, "2": 3, "3": 3}


def test_a_wish_wakes_the_loop_and_a_stop_ends_it(make: Make) -> None:
    daemon = make(clock=SystemClock(), epoch_s=3600.0)
    cycles = threading.Semaphore(0)
    once = daemon.loop.once

    def counted() -> str:
        sentence = once()
        cycles.release()
        return sentence

    daemon.loop.once = counted  # type: ignore[method-assign]
    thread = threading.Thread(target=daemon.loop.run)
    thread.start()
    assert cycles.acquire(timeout=60)
    daemon.loop.wake()
    assert cycles.acquire(timeout=60)
    daemon.loop.stop()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(("said", "used"), [(0.05, 0.5), (0.5, 0.5), (0.7, 0.7)])
def test_no_epoch_is_shorter_than_the_adapter_can_though_every_cycle_is_woken_early(
    make: Make, monkeypatch: pytest.MonkeyPatch, said: float, used: float
) -> None:
    daemon = make(epoch_s=said)
    can = msgspec.structs.replace(daemon.adapter.capabilities(), min_epoch_s=0.5)
    monkeypatch.setattr(daemon.adapter, "capabilities", lambda: can)
    woken = Woken(daemon)
    monkeypatch.setattr(daemon.loop, "_stop", woken)
    daemon.loop.run()
    assert daemon.loop.view.cycles == 9
    assert woken.shortest == [0.5] * 9
    assert daemon.loop.epoch_s == used
    assert daemon.ask(Verb.STATUS, StatusView).epoch_s == used


class Woken:
    """Stands for the loop's stop: lets it wait on the manual clock, then wakes it, nine times."""

    def __init__(self, daemon: Daemon) -> None:
        self.shortest: list[float] = []
        self._daemon = daemon

    def is_set(self) -> bool:
        return len(self.shortest) == 9

    def wait(self, seconds: float) -> None:
        self.shortest.append(seconds)
        assert isinstance(self._daemon.clock, ManualClock)
        self._daemon.clock.advance(seconds)
        self._daemon.loop.wake()


def test_a_job_that_has_no_lever_is_shown_and_never_touched(make: Make) -> None:
    daemon = make()
    one = daemon.start(1, lever=Lever.NONE)
    daemon.cycle()
    daemon.cycle()
    assert daemon.manager.acts == []
    assert "no lever" in daemon.loop.view.jobs[one].reason


def test_a_failed_restore_is_told_in_words(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.cycle()

    def refuse(actions: Sequence[Any], _deadline: float) -> Sequence[Outcome]:
        return [Refused("the group is gone") for _ in actions]

    monkeypatch.setattr(daemon.adapter, "apply", refuse)
    (done,) = daemon.loop.restore([one], "asked")
    assert done.outcome == Refused("the group is gone")


def test_a_restore_that_cant_be_written_down_is_not_asked(make: Make) -> None:
    daemon = make()
    one = daemon.start(1)
    daemon.cycle()
    daemon.journal._db.execute("PRAGMA query_only = ON")
    with pytest.raises(StateError):
        daemon.loop.restore([one], "asked")
    assert daemon.held() == {"1": 8}
