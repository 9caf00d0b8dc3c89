"""What is written down of the jobs that a stop lets go, and what is asked of the adapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from modelled import job, key

from slaqd.act import Journal, let_go
from slaqd.errors import AdapterUnavailable, StateError
from slaqd.testing import ManualClock
from slaqd.types import Job, Lever

JOBS = (job(1, held=3), job(2), job(3, held=2, lever=Lever.FILE))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


class Closing:
    """Closes as it is told, after it has looked into the journal."""

    def __init__(self, journal: Journal, error: Exception | None = None) -> None:
        self.journal, self.error = journal, error
        self.asked: list[bool] = []
        self.journalled: list[str | None] = []

    def close(self, *, restore: bool) -> None:
        self.asked.append(restore)
        self.journalled = [row.outcome for row in self.journal.actions()]
        if self.error is not None:
            raise self.error


def leave(journal: Journal, adapter: Any, jobs: Sequence[Job] = JOBS) -> None:
    let_go(adapter, journal, ManualClock(), 7, lambda: jobs)


def test_of_those_that_are_held_it_is_written_down_before_and_after(journal: Journal) -> None:
    adapter = Closing(journal)
    leave(journal, adapter)
    assert (adapter.asked, adapter.journalled) == ([True], [None])
    (row,) = journal.actions()
    assert (row.id, row.key, row.kind, row.before, row.outcome) == (
        "7.stop-0",
        key(1),
        "Restore",
        3,
        "Accepted",
    )
    assert row.why == "slaqd stops: held to nothing"


@pytest.mark.parametrize("error", [AdapterUnavailable("silence"), StateError("silence")])
def test_where_it_isnt_known_whether_they_are_held_still_that_is_written(
    journal: Journal, error: Exception
) -> None:
    leave(journal, Closing(journal, error))
    assert [(row.outcome, row.outcome_why) for row in journal.actions()] == [
        ("Unknown", "slaqd stopped: silence")
    ]


def test_in_doubt_nobody_is_looked_at_and_nothing_is_lifted(journal: Journal) -> None:
    journal.doubt("damaged")
    adapter = Closing(journal)
    let_go(adapter, journal, ManualClock(), 7, lambda: pytest.fail("looked"))
    assert adapter.asked == [False]
    assert list(journal.actions()) == []


def test_a_disk_that_is_full_keeps_no_job_from_being_let_go(journal: Journal) -> None:
    journal._db.execute("PRAGMA query_only = ON")
    adapter = Closing(journal)
    leave(journal, adapter)
    assert adapter.asked == [True]
