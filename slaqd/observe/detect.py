"""Which column of a log is the loss, which counts the steps, which is the clock.

Detection is careful: a number that falls is not always the objective. Where two
names are equally good, the user is asked for ``key=``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from slaqd.observe.formats import LONGEST_NAME, Row, number
from slaqd.observe.names import CLOCKS, EPOCHS, STEPS, gain_rank, last_part, loss_rank, matches
from slaqd.types import Better, Tag

MOST_NAMES = 4096
"""Names of columns that are remembered for one log; more are not looked at."""
MOST_BYTES = 64 * 1024
"""Bytes of all those names together: as many as the longest line has."""

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
        self._rank = rank
        self._ranks: dict[str, int | None] = {}
        self._seen: set[str] = set()
        self._seen_beside: set[str] = set()
        self._bytes = 0
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

    def remembered(self, names: Iterable[str]) -> list[str]:
        """Give those of these names that are remembered, as the very texts that are."""
        own = {name: name for name in (*self._seen, *self._seen_beside)}
        return [own[name] for name in names if name in own]

    def __getstate__(self) -> dict[str, object]:
        """Give what a pickle holds: each name once, and lists of numbers of names."""
        state = self.__dict__ | {"_ranks": {}}
        names = list(self._seen | self._seen_beside)
        places = {name: place for place, name in enumerate(names)}
        for attribute in _LISTS:
            state[attribute] = array("H", map(places.__getitem__, state[attribute])).tobytes()
        return state | {"names": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up what a pickle held."""
        names = state.pop("names")
        for attribute, kind in _LISTS.items():
            state[attribute] = kind(names[place] for place in array("H", state[attribute]))
        self.__dict__.update(state)

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
            rank = self._ranked(name)
            if (rank is not None and not is_number) or not self._remember(name, self._seen):
                continue
            if is_number:
                self.numeric.append(name)
            if rank is not None:
                self._weigh(name, rank)

    def _ranked(self, name: str) -> int | None:
        """Rank a name. It is asked for again in each row while there is no number under it."""
        if name not in self._ranks:
            if len(self._ranks) >= MOST_NAMES:
                self._ranks.clear()
            self._ranks[name] = self._rank(name)
        return self._ranks[name]

    def _remember(self, name: str, among: set[str]) -> bool:
        """Note a name. False where there is no room for it."""
        if len(among) >= MOST_NAMES:
            return False
        if name not in self._seen and name not in self._seen_beside:
            length = (
                len(name.encode("utf-8", "surrogatepass")) if len(name) <= LONGEST_NAME else MOST_BYTES + 1
            )
            if self._bytes + length > MOST_BYTES:
                return False
            self._bytes += length
        among.add(name)
        return True

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
                if self._remember(name, self._seen_beside):
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


_LISTS: dict[str, type[set[str] | list[str]]] = {
    "_seen": set,
    "_seen_beside": set,
    "candidates": list,
    "numeric": list,
    "clocks": list,
}
"""The attributes of `Columns` that hold names."""


def ranking(tag: Tag) -> Rank:
    """Choose how names are ranked: by the tag's key, or by what is meant to rise or to fall."""
    if tag.key is not None:
        return partial(matches, tag.key)
    return gain_rank if tag.better is Better.HIGHER else loss_rank
