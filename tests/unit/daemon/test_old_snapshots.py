"""A snapshot that is older than two cycles, at whatever moment of a cycle, changes nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from put_together import Make

from slaqd.adapter import Capabilities
from slaqd.types import Snapshot


@pytest.mark.parametrize(("age", "acts"), [(6.0, 1), (6.1, 0), (-1.0, 0)])
def test_a_snapshot_that_is_older_than_two_cycles_changes_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, age: float, acts: int
) -> None:
    daemon = make(epoch_s=3.0)
    daemon.start(1)
    look = daemon.adapter.snapshot

    def old(deadline: float) -> Snapshot:
        seen = look(deadline)
        return msgspec.structs.replace(seen, taken_at=seen.taken_at - age)

    monkeypatch.setattr(daemon.adapter, "snapshot", old)
    said = daemon.cycle()
    assert len(daemon.manager.acts) == acts
    assert said.startswith("nothing changed: the snapshot is ") is (acts == 0)
    assert daemon.loop.view.counts.manager_up is bool(acts)


def test_a_snapshot_that_grows_old_while_the_plan_is_made_changes_nothing_and_the_sentence_says_so(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = make(epoch_s=3.0)
    one = daemon.start(1)
    tells = daemon.adapter.capabilities

    def slowly() -> Capabilities:
        daemon.clock.sleep(6.1)
        return tells()

    with monkeypatch.context() as patch:
        patch.setattr(daemon.adapter, "capabilities", slowly)
        said = daemon.cycle()
    assert said == (
        "1 jobs running; 8 of 10 units planned;"
        " nothing changed: the snapshot is 6.1 s old, more than two cycles (6 s)"
    )
    assert (daemon.manager.acts, list(daemon.journal.actions())) == ([], [])
    assert daemon.loop.view.jobs[one].plan == 8
    daemon.cycle()
    assert daemon.held() == {"1": 8}


def test_a_snapshot_that_grows_old_between_the_intents_and_the_act_changes_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = make(epoch_s=3.0)
    daemon.start(1)
    intend = daemon.journal.intend

    def stopped_meanwhile(*args: Any) -> None:
        intend(*args)
        daemon.clock.sleep(6.1)

    with monkeypatch.context() as patch:
        patch.setattr(daemon.journal, "intend", stopped_meanwhile)
        assert daemon.cycle().endswith("1 change, 1 of them failed")
    assert daemon.manager.acts == []
    (row,) = daemon.journal.actions()
    assert row.outcome_why == "the snapshot is 6.1 s old, more than two cycles (6 s)"
    daemon.cycle()
    assert daemon.held() == {"1": 8}
