"""A job's log, from the path in its tag to the curve."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from glob import has_magic

from slaqd.errors import SourceRefused
from slaqd.observe.curve import LARGEST, LARGEST_STEP, MAX_POINTS, Counter, History
from slaqd.observe.detect import Columns, ranking
from slaqd.observe.formats import FORMATS, BadLine, Format, Row, is_known, number, recognise
from slaqd.observe.formats.table import could_be_header
from slaqd.observe.newest import Newest
from slaqd.observe.reader import DirectReader, Reader, SourceMissing
from slaqd.observe.tail import Lines, Tail
from slaqd.observe.when import Stamps
from slaqd.text import show
from slaqd.types import Better, Curve, Health, Tag

PATIENCE = 3
"""Polls in a row that a file may be gone (renamed, stale) before a known curve is called missing."""
NULLS = 3
"""Losses in a row that are null before they are taken as not-a-number (orjson writes NaN so)."""
EXCERPT = 60
"""Characters of a bad line that a note shows."""
MOST_SHOWN = 12
"""Names that a note lists."""
MOST_CLOCKS = 16
"""Time columns that are tried in one log; one that has had more that were no clocks has none."""
FIRST_LINE = 4096
"""Characters of the first line that a pickle takes along once another line has followed it."""

_MISSING_VALUE = ("", None)
_CONTROL = re.compile(rb"[\0-\x07\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text log holds: not tab, backspace, newlines, or the escape of colours."""


class Log:
    """Follows one log and keeps its curve.

    Parameters
    ----------
    path : str
        The file, or a glob: then the newest by mtime is followed, and a file once
        left is not taken up again. The curve goes on over all of them.
    tag : Tag
        Its ``key``, ``format`` and ``better`` are used.
    reader : Reader
        How the file is reached.
    keep : int
        Points kept at most; of twice as many epochs it is known where they began.

    Notes
    -----
    A log can be pickled between two polls, for as long as its reader can be; the
    curve comes out the same. What a pickle holds is bounded whatever the file holds:
    256 KiB with ``keep`` at 256, some 10 to 20 KiB for usual logs.

    Seconds are the log's own where it has a clock: since 1970 or since the start,
    only differences mean anything, and they may go back where that clock did. A log
    without one has the wall time of the poll that first saw a point appended, and
    NaN for the points that were there before. Without a step column points are
    numbered from 1, again in each file.
    """

    def __init__(self, path: str, tag: Tag, reader: Reader | None = None, *, keep: int = MAX_POINTS) -> None:
        self._pattern = path
        self._tag = tag
        self._reader: Reader = reader or DirectReader()
        self._history = History(keep)
        self._most_epochs = min(2 * keep, MAX_POINTS)
        self._sign = -1.0 if tag.better is Better.HIGHER else 1.0
        self._newest = Newest(path, self._reader)
        self._misses = 0
        self._live = False
        self._curve = Curve(path=path)
        self._choice: tuple[str | None, str | None] = (None, None)
        self._stamps: dict[str, Stamps] = {}
        self._distrusted: set[str] = set()
        self._open(path)

    def poll(self, now_wall: float) -> Curve:
        """Read what is new and return the curve as it is now.

        The same object comes back while nothing changes. ``now_wall`` is in seconds
        since 1970. Never raises for what a file holds or lacks: health and note say it.
        """
        try:
            self._follow()
            looks = self._tail.looks
            changed = self._read(now_wall)
        except SourceRefused as error:
            return self._refused(error)
        if self._tail.looks == looks and not self._misses:
            return self._curve
        self._misses = 0
        health, note = self._verdict()
        if changed or (health, note) != (self._curve.health, self._curve.note):
            self._curve = self._history.curve(health, self._tail.path, note)
        return self._curve

    @property
    def behind(self) -> bool:
        """True while the log holds more than one poll reads; the next one goes on."""
        return self._tail.behind

    @property
    def unsettled(self) -> bool:
        """True while another poll may tell more of an unchanged file: see `behind` and `PATIENCE`."""
        return self.behind or 0 < self._misses < PATIENCE

    def describe(self) -> str:
        """Tell in a line how the log is read: format and columns."""
        if self._format is None or self._columns.loss is None:
            return "not recognised yet"
        step, clock = self._columns.step, self._clock()
        counted = f"step {_quoted(step)}" if step else "lines counted"
        timed = f"clock {_quoted(clock)}" if clock else "no clock"
        return f"{self._format.name}: loss {_quoted(self._columns.loss)}, {counted}, {timed}"

    def __getstate__(self) -> dict[str, object]:
        """Give what a pickle holds: of the last row only which columns had a value."""
        state = self.__dict__.copy()
        said = (name for name, value in self._last_row.items() if value not in _MISSING_VALUE)
        state["_last_row"] = dict.fromkeys(self._columns.remembered(said), True)
        if self._first_line is not None:
            place, text = self._first_line
            state["_first_line"] = (place, self._previous if text == self._previous else text[:FIRST_LINE])
        return state

    def _open(self, path: str) -> None:
        """Go over to a file."""
        self._tail = Tail(path, self._reader)
        self._generation = 0
        self._begin()

    def _begin(self) -> None:
        """Stand before the first line of a file, with the points of those before it."""
        self._columns = Columns(ranking(self._tag))
        self._format: Format | None = None
        self._previous: str | None = None
        self._first_line: tuple[int, str] | None = None
        self._bad = 0
        self._first_bad = ""
        self._number = 0
        self._counter = Counter(self._most_epochs)
        self._last_row: Row = {}
        self._odd = 0
        self._nulls = 0
        self._first_odd = ""
        self._binary = False
        for stamps in self._stamps.values():
            stamps.restarts()

    def _follow(self) -> None:
        """Go over to the newest file that the glob matches."""
        if not has_magic(self._pattern):
            return
        newest = self._newest.find()
        if newest is None:
            if self._tail.path == self._pattern:
                message = f"{show(self._pattern)}: no file matches yet"
                raise SourceMissing(message)
        elif newest != self._tail.path:
            if self._tail.path != self._pattern:
                self._newest.leave(self._tail.path)
                self._live = False
            self._open(newest)

    def _read(self, now: float) -> bool:
        """Take in the new lines. True if there were any."""
        changed = False
        for lines in self._tail.poll():
            if self._tail.generation != self._generation:
                self._generation = self._tail.generation
                self._begin()
                self._live = False
            self._take(lines, now if self._live else math.nan)
            changed = True
        self._live = self._live or not self._tail.behind
        return changed

    def _take(self, lines: Lines, now: float) -> None:
        """Parse lines and add their points.

        A better column that shows up late had no number before: its curve begins here,
        nothing has to be read again.
        """
        parsed = self._parse(lines)
        self._columns.look([row for _, row in parsed])
        choice = (self._columns.loss, self._columns.step)
        if self._columns.candidates and choice != self._choice:
            self._history.clear()
            self._choice = choice
        if self._columns.loss is not None:
            for line, row in parsed:
                self._point(line, row, self._columns.loss, now)

    def _parse(self, lines: Lines) -> list[tuple[int, Row]]:
        """Turn lines into rows, each with its line number."""
        rows: list[tuple[int, Row]] = []
        for place, line in enumerate(lines.lines, lines.first):
            if not line:
                continue
            text = line.decode("utf-8", "replace").removesuffix("\r").removeprefix("\ufeff")
            if self._format is None and not self._recognise(place, text):
                self._binary = self._binary or _CONTROL.search(line) is not None
                continue
            try:
                row = self._format.row(text) if self._format else None
            except BadLine as error:
                self._is_bad(place, str(error), text)
                continue
            if row is not None:
                rows.append((place, row))
        return rows

    def _recognise(self, place: int, text: str) -> bool:
        """Look for the format in this line and the one before it."""
        if not text.strip():
            return False
        if self._first_line is None:
            self._first_line = (place, text)
        name = self._tag.format
        if name is not None and not is_known(name):
            return False
        self._format = recognise(self._previous, text, key=self._tag.key, name=name)
        if self._format is not None:
            self._first_line = self._previous = None
            return True
        comment = text.startswith("#")
        if not comment or self._previous is None or self._previous.startswith("#"):
            self._previous = text
        return False

    def _is_bad(self, place: int, why: str, text: str) -> None:
        """Count a line that can't be read, and keep the first one's place for the user."""
        self._bad += 1
        if not self._first_bad:
            self._first_bad = f"line {place} {why}: {_quoted(text)}"

    def _point(self, place: int, row: Row, loss: str, now: float) -> None:
        """Add a row's point, if it has one."""
        written = row.get(loss)
        value = number(written)
        if value is None:
            self._no_loss(place, row, loss, written)
            return
        step = self._step(row)
        if step is None:
            self._is_bad(place, f"has no {show(self._columns.step or 'step')}", f"{loss}={value}")
            return
        second = self._second(row, now, again=self._history.roll_back(step))
        self._nulls, self._last_row = 0, row
        if math.isfinite(value) and abs(value) <= LARGEST:
            self._odd = 0
            self._history.add(step, value * self._sign, second)
        else:
            self._is_odd(place, f"{loss} is {show(str(written), 40)} at step {step:g}")

    def _no_loss(self, place: int, row: Row, loss: str, written: object) -> None:
        """Note a row without a loss: usual in sparse logs, but null may stand for NaN."""
        if written not in _MISSING_VALUE:
            self._is_bad(place, f"has no number for {show(loss)}", str(written))
        elif loss in row and written is None and self._says_nothing_else(row):
            self._nulls += 1
            if self._nulls >= NULLS:
                self._is_odd(place, f"{loss} has been null for {self._nulls} lines")

    def _says_nothing_else(self, row: Row) -> bool:
        """Tell whether a row without a loss is no row of another kind, such as a validation's."""
        return all(
            value in _MISSING_VALUE or self._last_row.get(name) not in _MISSING_VALUE
            for name, value in row.items()
        )

    def _is_odd(self, place: int, what: str) -> None:
        """Note that the loss is no number just now."""
        self._odd += 1
        if self._odd == 1:
            self._first_odd = f"line {place}: {show(what)}, and no number since"

    def _step(self, row: Row) -> float | None:
        """Tell a row's step; None if its step column holds no usable number."""
        if self._columns.step is None:
            self._number += 1
            return float(self._number)
        raw = number(row.get(self._columns.step))
        if raw is None or not abs(raw) <= LARGEST_STEP:
            return None
        if self._columns.epoch in (None, self._columns.step):
            return raw
        return self._counter.step(raw, number(row.get(self._columns.epoch)))

    def _clock(self) -> str | None:
        """Tell the best time column that has not been found out."""
        for name in self._columns.clocks:
            if name not in self._distrusted and (name in self._stamps or len(self._stamps) < MOST_CLOCKS):
                return name
        return None

    def _second(self, row: Row, now: float, *, again: bool) -> float:
        """Tell when a row was written; ``again`` says that the job started again before it."""
        if not self._columns.clocks:
            return now
        name = self._clock()
        if name is None:
            return now
        stamps = self._stamps.setdefault(name, Stamps())
        if again:
            stamps.restarts()
        second = stamps.read(row.get(name))
        if stamps.trusted:
            return second
        self._distrusted.add(name)
        self._history.forget_seconds()
        return math.nan

    def _refused(self, error: SourceRefused) -> Curve:
        """Keep the curve through a short absence; else say what is wrong."""
        self._misses += 1
        self._live = self._live or isinstance(error, SourceMissing)
        if self._history and self._misses < PATIENCE:
            return self._curve
        health = Health.MISSING if isinstance(error, SourceMissing) else Health.UNREADABLE
        if (self._curve.health, self._curve.note) != (health, str(error)):
            self._curve = self._history.curve(health, self._tail.path, str(error))
        return self._curve

    def _verdict(self) -> tuple[Health, str]:
        """Say how the log is, and the note for its owner."""
        path = show(self._tail.path)
        if self._format is None:
            health, what = self._unrecognised()
        elif self._columns.loss is None:
            health, what = Health.AMBIGUOUS, self._which_column()
        elif self._odd:
            health, what = Health.DIVERGED, self._first_odd
        elif not self._history:
            health, what = Health.EMPTY, f"no usable point of {_quoted(self._columns.loss)} yet"
        else:
            health, what = Health.OK, ""
        if health is Health.EMPTY and self._history:
            health = Health.OK
        parts = [part for part in (what, *self._losses_on_the_way()) if part]
        return health, f"{path}: {'; '.join(parts)}" if parts else ""

    def _unrecognised(self) -> tuple[Health, str]:
        """Say why no format fits."""
        formats = ", ".join(sorted(FORMATS))
        name = self._tag.format
        if name is not None and not is_known(name):
            return Health.UNKNOWN_FORMAT, f"format={show(name)} is not known; known are {formats}"
        if self._binary or self._tail.nul_lines or _CONTROL.search(self._tail.half):
            return Health.UNKNOWN_FORMAT, "holds binary data, not lines of text"
        if self._first_line is None:
            if self._tail.long_lines:
                return Health.UNKNOWN_FORMAT, "holds no line of a usable length"
            return Health.EMPTY, "no whole line yet" if self._tail.half else "empty"
        place, text = self._first_line
        if text == self._previous and could_be_header(text, self._tag.key):
            return Health.EMPTY, "only a header so far"
        return (
            Health.UNKNOWN_FORMAT,
            f"line {place} is in no known format ({formats}): {_quoted(text)}",
        )

    def _which_column(self) -> str:
        """Ask for the tag's key."""
        candidates = self._columns.candidates
        if candidates:
            return f"several columns could be the loss: {_listed(candidates)}; say which with key="
        listed = _listed(self._columns.numeric) or "none"
        if self._tag.key is not None:
            return f"no column {_quoted(self._tag.key)} with numbers; key= may name one of: {listed}"
        return f"no column is known to be a loss; say with key= which it is of: {listed}"

    def _losses_on_the_way(self) -> Sequence[str]:
        """Tell what was left out, and where it begins."""
        tail = self._tail
        return (
            f"{self._bad} unreadable, the first: {self._first_bad}" if self._bad else "",
            f"{tail.long_lines} overlong lines skipped" if tail.long_lines else "",
            f"{tail.nul_lines} lines lost in holes of NUL bytes" if tail.nul_lines else "",
            f"{tail.leapt} bytes in the middle left out" if tail.leapt else "",
            f"{tail.offset} of {tail.size} bytes read so far" if tail.behind else "",
        )


def _quoted(text: str) -> str:
    """Put a foreign name or line between quotes."""
    return f"'{show(text, EXCERPT)}'"


def _listed(names: Sequence[str]) -> str:
    """List names, not too many."""
    shown = ", ".join(show(name, 40) for name in names[:MOST_SHOWN])
    return f"{shown}, …" if len(names) > MOST_SHOWN else shown
