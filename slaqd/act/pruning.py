"""How much the journal keeps, and whose rows go first: those of the user who has the most.

So nobody's history is pushed out by what somebody else does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from slaqd.act.schema import OWNER
from slaqd.types import Struct

KEEP_S = 30 * 86_400.0
_DROP_AT_ONCE = 100
_DROP_FOR_ONE = 2
# Written by a clock that was ahead: such rows would stand before all that are too old until their time comes.
_AHEAD_S = 86_400.0
# Shares are counted anew when a hundredth of a table was written, not at each row.
_SPARE = 100


class Limits(Struct, frozen=True):
    """How many rows the journal holds at most, or one a user if that is more.

    Measured: a file with all actions, plans and 4,000 live jobs has 22 MB, the ended jobs
    add 18.
    """

    actions: int = 100_000
    plans: int = 100_000
    events: int = 10_000
    ended: int = 20_000
    observations: int = 20_000


def prune(db: sqlite3.Connection, table: str, time: str, now: float, most: int, new: int) -> None:
    """Drop rows of a table that is numbered: all that are too many, of the too old some for ``new`` ones."""
    db.execute(
        f"DELETE FROM {table} WHERE ({time} < ? OR {time} > ?) AND number IN"  # noqa: S608 - our own names
        f" (SELECT number FROM {table} ORDER BY number LIMIT ?)",
        (now - KEEP_S, now + _AHEAD_S, _some(new)),
    )
    _share(db, table, "", "uid", "number", most)


def prune_observations(db: sqlite3.Connection, now: float, most: int, new: int) -> None:
    """Drop observations: all that are too many, of the too old some for ``new`` ones."""
    _drop_old(db, "observations", "at", now, new)
    _share(db, "observations", "", "uid", "at", most)


def prune_ended(db: sqlite3.Connection, now: float, most: int, new: int) -> None:
    """Drop ended jobs: all that are too many, of the too old some for ``new`` ones."""
    _drop_old(db, "jobs", "ended", now, new)
    _share(db, "jobs", "ended IS NOT NULL", OWNER, "ended, rowid", most)


def _drop_old(db: sqlite3.Connection, table: str, time: str, now: float, new: int) -> None:
    db.execute(
        f"DELETE FROM {table} WHERE rowid IN"  # noqa: S608 - our own names
        f" (SELECT rowid FROM {table} WHERE {time} < ? ORDER BY {time} LIMIT ?)",
        (now - KEEP_S, _some(new)),
    )


def _some(new: int) -> int:
    """Say how many too old rows go for ``new`` ones that are written.

    More than come, or they would never all go; few, for it may be the clock that is wrong, and so that no
    cycle is late for it.
    """
    return min(_DROP_FOR_ONE * new, _DROP_AT_ONCE)


def _share(db: sqlite3.Connection, table: str, which: str, user: str, order: str, most: int) -> None:
    """Of more than ``most`` rows drop the oldest of each user who has more than an even share."""
    rows = f"FROM {table}" + (f" WHERE {which}" if which else "")
    if db.execute(f"SELECT COUNT(*) {rows}").fetchone()[0] <= most:
        return
    counts = dict(db.execute(f"SELECT {user}, COUNT(*) {rows} GROUP BY 1"))
    share = even_share(counts, most - most // _SPARE)
    db.executemany(
        f"DELETE FROM {table} WHERE rowid IN"  # noqa: S608 - our own names
        f" (SELECT rowid {rows} {'AND' if which else 'WHERE'} {user} IS ? ORDER BY {order} LIMIT ?)",
        [(uid, count - share) for uid, count in counts.items() if count > share],
    )


def even_share(counts: Mapping[int | None, int], most: int) -> int:
    """Find how many rows each user may keep, so that ``most`` are kept of all; at least one.

    Whoever has fewer leaves the rest to the others (max-min fairness).
    """
    left, share = most, most
    for done, count in enumerate(sorted(counts.values())):
        share = left // (len(counts) - done)
        if count > share:
            break
        left -= count
    return max(share, 1)
