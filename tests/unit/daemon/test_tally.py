"""What the loop counts of itself."""

from __future__ import annotations

import pytest

from slaqd.daemon.tally import Counts, Result, Tally
from slaqd.errors import AdapterUnavailable, StateError


def ended(tally: Tally) -> Counts:
    return tally.end(0.5, 100.0, config_good=True)


def test_a_cycle_goes_on_where_the_journal_cant_be_written_and_is_counted_as_its_fault() -> None:
    tally = Tally()
    tally.begin()
    with tally.blaming():
        raise StateError("the disk is full")
    counts = ended(tally)
    assert (counts.cycles[Result.JOURNAL], counts.cycles[Result.OK]) == (1, 0)
    assert (counts.journal_writable, counts.manager_up, counts.last_success) == (False, True, 0.0)


def test_what_is_not_the_journals_fault_is_passed_on() -> None:
    tally = Tally()
    tally.begin()
    with pytest.raises(AdapterUnavailable), tally.blaming():
        raise AdapterUnavailable("silence")
    assert ended(tally).cycles[Result.JOURNAL] == 0


def test_a_block_in_which_all_goes_well_blames_nobody() -> None:
    tally = Tally()
    tally.begin()
    with tally.blaming():
        pass
    assert ended(tally).cycles[Result.OK] == 1
