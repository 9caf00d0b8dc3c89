"""What the terminal shows while a demo runs. Pure: a state in, something to print out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slaqd.types import State, Struct

NOTHING = "\N{EN DASH}"
AROUND = 5
"""Lines beside the jobs: the bar, a gap, the heads, the counts, the cursor."""

FALLBACK_HEIGHT = 24
"""A terminal's height where rich does not know it."""


class LiveRow(Struct, frozen=True):
    """One job now; None: not known yet.

    ``loss`` is the last one logged, ``fall`` what is predicted for the coming epoch,
    as a share of the largest change seen.
    """

    job: str
    kind: str
    state: State
    units: int = 0
    loss: float | None = None
    fall: float | None = None


class LiveState(Struct, frozen=True):
    """One run of the demo now. ``progress`` is 0 to 1; ``part`` says which run it is."""

    policy: str
    elapsed: float
    progress: float
    capacity: int
    rows: Sequence[LiveRow]
    part: str = ""


def view(state: LiveState) -> RenderableType:
    """Show the run as a bar and a table that fits whatever terminal prints it."""
    return _Fitted(state)


def line(state: LiveState) -> str:
    """Say the run in one line, for what is no terminal."""
    most = sorted(_running(state), key=lambda row: -row.units)[:3]
    named = ", ".join(f"{row.job} {row.units}" for row in most)
    return (
        f"{_name(state)}: {state.elapsed:.0f} s, {state.progress:.0%}; {_counts(state)}; "
        f"{_held(state)} of {state.capacity} units held" + (f", most by {named}" if named else "")
    )


class _Fitted:
    """The view, cut to the height of the terminal at the moment of printing."""

    def __init__(self, state: LiveState) -> None:
        self.state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or (console.size.height if console.is_terminal else FALLBACK_HEIGHT)
        yield Group(*_parts(self.state, max(1, height - AROUND)))


def _parts(state: LiveState, room: int) -> list[RenderableType]:
    running = _running(state)
    keep = {row.job for row in sorted(running, key=lambda row: -row.units)[:room]}
    shown = [row for row in running if row.job in keep]  # in their own order: rows that jump can't be read
    hidden = len(running) - len(shown)
    more = f"  {hidden} running jobs with fewer units not shown" if hidden else ""
    return [_head(state), Text(), _table(state, shown), Text(_counts(state) + more, style="dim")]


def _head(state: LiveState) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=1.0, completed=min(1.0, max(0.0, state.progress)), width=30)
    held = f"{_held(state)} of {state.capacity} units"
    name, elapsed = Text(_name(state), style="bold"), Text(f"{state.elapsed:.0f} s")
    grid.add_row(name, bar, f"{state.progress:.0%}", elapsed, Text(held))
    return grid


def _table(state: LiveState, shown: Sequence[LiveRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("job", "kind"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    for title in ("loss", "predicted fall", "units"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = max((row.units for row in state.rows), default=1) or 1
    for row in shown:
        bar = ProgressBar(total=most, completed=row.units, width=16)
        texts = (Text(row.job), Text(row.kind), _number(row.loss), _number(row.fall))  # Text: no markup
        table.add_row(*texts, str(row.units), bar)
    return table


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


def _name(state: LiveState) -> str:
    return f"{state.policy} ({state.part})" if state.part else state.policy


def _running(state: LiveState) -> list[LiveRow]:
    return [row for row in state.rows if row.state is State.RUNNING]


def _held(state: LiveState) -> int:
    return sum(row.units for row in _running(state))


def _counts(state: LiveState) -> str:
    return ", ".join(f"{sum(row.state is s for row in state.rows)} {s.value}" for s in _ORDER)


_ORDER = (State.RUNNING, State.WAITING, State.ENDED)
