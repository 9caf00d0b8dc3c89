"""``demo``: real trainings on this machine, fair share against SLAQ."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

import click

from slaqd.cli.output import as_json, print_json

_INTERRUPTED = 130


@click.command()
@click.option("--jobs", default=24, show_default=True, type=click.IntRange(min=2, max=200))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@as_json
@click.option(
    "--out", default="demo-out", show_default=True, type=click.Path(path_type=Path, file_okay=False)
)
def demo(jobs: int, seed: int, out: Path, *, json_: bool) -> None:
    """Run real trainings under fair share and under SLAQ, and compare. About five minutes."""
    from rich.console import Console  # noqa: PLC0415 - half a second that `run` must not pay

    from slaqd.demo.run import Wish  # noqa: PLC0415 - as above
    from slaqd.demo.run import demo as perform  # noqa: PLC0415 - as above

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        result = perform(Wish(jobs=jobs, seed=seed, out=out.absolute()), Console(stderr=json_))
    except KeyboardInterrupt:
        click.echo("interrupted: the demo's jobs and its slaqd have ended", err=True)
        sys.exit(_INTERRUPTED)
    if json_:
        print_json(result)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
