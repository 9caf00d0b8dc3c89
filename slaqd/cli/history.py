"""``history``: what happened, as the journal has it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import click

from slaqd.cli.output import as_json, client, print_json, print_table, settings_without, with_socket
from slaqd.config import Config
from slaqd.errors import DaemonUnreachable, StateError
from slaqd.wire import EventView, HistoryArgs, Verb

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)


def _since(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float:
    """Turn ``90m`` into the wall time of ninety minutes ago; nothing means from the beginning."""
    if text is None:
        return 0.0
    span = _SPAN.fullmatch(text)
    if span is None:
        msg = f"{text!r} is no time span; say 90s, 30m, 1h, 7d or 2w"
        raise click.BadParameter(msg)
    return time.time() - int(span[1]) * _UNITS_S[span[2]]


@click.command()
@click.argument("job", required=False)
@click.option("--since", metavar="SPAN", callback=_since, help="Only the last 90s, 30m, 1h, 7d, 2w.")
@as_json
@with_socket
def history(job: str | None, since: float, socket: Path | None, config: Path | None, *, json_: bool) -> None:
    """Tell what happened to JOB, or to all jobs and slaqd itself: the newest thousand events.

    Plans stand there where they became others, acts with what came of them. Works
    without a daemon too, from the journal that it left.
    """
    args = HistoryArgs(job=job, since=since)
    daemon = client(socket, config)
    try:
        events: Sequence[EventView] = daemon.ask(Verb.HISTORY, list[EventView], args)
    except DaemonUnreachable as error:
        events = _without_daemon(args, settings_without(daemon, config, error), error)
    if json_:
        print_json(events)
        return
    print_table(
        ["TIME", "WHAT", "JOB", "FROM", "UNITS", "OUTCOME", "WHY"],
        [
            (
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at)),
                one.what,
                one.job,
                one.before,
                one.units,
                one.outcome,
                "; ".join(filter(None, (one.why, one.outcome_why))),
            )
            for one in events
        ],
        "nothing happened" if job is None else f"the journal knows nothing of a job {job!r}",
    )


def _without_daemon(
    args: HistoryArgs, settings: Config, unreachable: DaemonUnreachable
) -> Sequence[EventView]:
    from slaqd.daemon.offline import past_offline  # noqa: PLC0415 - loads the journal

    try:
        return past_offline(settings, args.job, args.since)
    except StateError as error:
        msg = f"{unreachable}; and without it: {error}"
        raise DaemonUnreachable(msg) from error
