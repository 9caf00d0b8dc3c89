"""A disk that fills up before some write of a cycle: said in that cycle, and nothing is done unwritten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from put_together import Daemon

from slaqd.wire import StatusView, Verb

pytestmark = pytest.mark.fault


class Full(Daemon):
    """Its disk fills up before the write of a given number, counted from `fill_before` on."""

    def fill_before(self, number: float) -> None:
        writing, self.writes, self.full_at = self.journal._writing, 0, number

        @contextmanager
        def counted() -> Iterator[sqlite3.Connection]:
            self.writes += 1
            if self.writes >= self.full_at:
                self.journal._db.execute("PRAGMA query_only = ON")
            with writing() as db:
                yield db

        self.journal._writing = counted  # type: ignore[method-assign]


def busy_cycle(folder: Path, full_at: float) -> Full:
    """Do a cycle in which a job ends, one comes, one waits and one gives up units."""
    folder.mkdir()
    daemon = Full(folder)
    daemon.start(1)
    over = daemon.start(2)
    daemon.cycle()
    daemon.manager.ended.add(over)
    daemon.start(3, min=3)
    daemon.start(4, waits=True)
    daemon.manager.acts.clear()
    daemon.fill_before(full_at)
    daemon.cycle()
    return daemon


def test_whichever_write_fails_the_cycle_says_so_and_does_nothing_that_isnt_written_down(
    tmp_path: Path,
) -> None:
    whole = busy_cycle(tmp_path / "whole", float("inf"))
    assert whole.writes > 3
    assert whole.loop.alarm == ""
    held = whole.held()
    whole.journal.close()
    for number in range(1, whole.writes + 1):
        daemon = busy_cycle(tmp_path / str(number), number)
        assert "readonly" in daemon.ask(Verb.STATUS, StatusView).alarm, number
        written = {row.id for row in daemon.journal.actions()}
        assert {action.id for action in daemon.manager.acts} <= written
        daemon.full_at = float("inf")
        daemon.journal._db.execute("PRAGMA query_only = OFF")
        daemon.cycle()
        daemon.cycle()
        assert (daemon.held(), daemon.loop.alarm) == (held, ""), number
        daemon.journal.close()
