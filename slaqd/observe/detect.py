"""Which column of a log is the loss, which counts the steps, which is the clock.

Detection is careful: a number that falls is not always the objective. Where two
names are equally good, the user is asked for ``key=``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from slaqd.observe.formats import Row, number
from slaqd.observe.names import CLOCKS, EPOCHS, STEPS, last_part

MOST_NAMES = 4096
"""Names of columns that are remembered for one log; more are not looked at."""

Rank = Callable[[str], int | None]
"""How good a column's name is, the lower the better; None: not it at all."""


class Columns:
    """Finds the columns of one log from the rows seen so far.

    ``loss`` is None while nothing fits or while several fit equally well; those are
    then the ``candidates``. ``step``, ``epoch`` and ``clocks`` (best first) are looked
    for in rows that have a loss alone: mmengine's validation rows count epochs under
    the name ``step``.
    """

    def __init__(self, rank: Rank) -> None:
        self._rank = lru_cache(MOST_NAMES)(rank)
        self._seen: set[str] = set()
        self._seen_beside: set[str] = set()
        self._best: int | None = None
        self.candidates: list[str] = []
        self.numeric: list[str] = []
        self.step: str | None = None
        self.epoch: str | None = None
        self.clocks: list[str] = []

    @property
    def loss(self) -> str | None:
        """The column that is the loss, if exactly one is best."""
        return self.candidates[0] if len(self.candidates) == 1 else None

    def look(self, rows: Sequence[Row]) -> None:
        """Take in new rows."""
        before = self.loss
        for row in rows:
            if not row.keys() <= self._seen:
                self._look_at(row)
        if self.loss != before:
            self._forget_neighbours()
        if self.loss is not None:
            self._look_beside(rows, self.loss)

    def _look_at(self, row: Row) -> None:
        """Rank the names that are new. A loss counts only once it has had a number."""
        for name, value in row.items():
            if name in self._seen or value is None or value == "":
                continue
            is_number = number(value) is not None
            rank = self._rank(name)
            if (rank is not None and not is_number) or len(self._seen) >= MOST_NAMES:
                continue
            self._seen.add(name)
            if is_number and len(self.numeric) < MOST_NAMES:
                self.numeric.append(name)
            if rank is not None:
                self._weigh(name, rank)

    def _weigh(self, name: str, rank: int) -> None:
        """Keep the best names."""
        if self._best is None or rank < self._best:
            self._best, self.candidates = rank, [name]
        elif rank == self._best:
            self.candidates.append(name)

    def _forget_neighbours(self) -> None:
        """Start again with step and clock, since they belong to the loss."""
        self._seen_beside.clear()
        self.step = self.epoch = None
        self.clocks = []

    def _look_beside(self, rows: Sequence[Row], loss: str) -> None:
        """Find step, epoch and clock in rows that hold the loss."""
        for row in rows:
            if row.keys() <= self._seen_beside or number(row.get(loss)) is None:
                continue
            for name, value in row.items():
                if name in self._seen_beside or value is None or value == "":
                    continue
                if len(self._seen_beside) < MOST_NAMES:
                    self._seen_beside.add(name)
                    self._place(name, value)

    def _place(self, name: str, value: object) -> None:
        """Note a name that counts or tells the time."""
        last = last_part(name)
        if last in STEPS and name != self.loss and number(value) is not None:
            if last in EPOCHS:
                self.epoch = name
            if self.step is None or STEPS.index(last) < STEPS.index(last_part(self.step)):
                self.step = name
        elif last in CLOCKS and name != self.loss:
            self.clocks = sorted({*self.clocks, name}, key=lambda each: CLOCKS.index(last_part(each)))
