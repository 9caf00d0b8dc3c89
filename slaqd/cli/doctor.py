"""``doctor``: is everything as slaqd needs it, and what to do where it isn't."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

import slaqd
from slaqd.cli import EXIT_ERROR, exit_status
from slaqd.cli.output import as_json, client, print_json, text, with_socket
from slaqd.client import AnswerLostError, Client
from slaqd.config import Config, load_config
from slaqd.errors import ConfigError, DaemonUnreachable, NotPermitted, SlaqdError
from slaqd.types import Finding, Severity
from slaqd.wire import StatusView, Verb

_PATIENCE_S = 30.0


@click.command()
@as_json
@with_socket
def doctor(socket: Path | None, config: Path | None, *, json_: bool) -> None:
    """Check what slaqd depends on, with a running slaqd or without one.

    Exits with 1 if anything is an error; with 4 or 5 where a slaqd doesn't answer, or not you.
    """
    found: list[Finding] = []
    status = 0
    for each, code in _findings(socket, config):
        found.append(each)
        status = status or (code if each.severity is Severity.ERROR else 0)
        if not json_:
            _print(each)
    if json_:
        print_json(found)
    sys.exit(status)


def _print(finding: Finding) -> None:
    click.echo(f"{finding.severity.value:<8} {text(finding.what)}")
    if finding.do:
        click.echo(f"{'':<8} do: {text(finding.do)}")


def _findings(socket: Path | None, config: Path | None) -> Iterator[tuple[Finding, int]]:
    """Give what is found as soon as it is, each with the exit status that it calls for if it is an error."""
    try:
        settings = load_config(config)
        daemon = client(socket, config)
    except ConfigError as error:
        yield _mend(error), EXIT_ERROR
        return
    try:
        yield _running(daemon.ask(Verb.STATUS, StatusView)), EXIT_ERROR
        yield from ((each, EXIT_ERROR) for each in _told(daemon))
    except SlaqdError as error:
        yield _unanswered(error), exit_status(error)
        if isinstance(error, DaemonUnreachable):
            yield from ((each, EXIT_ERROR) for each in _alone(settings))


def _unanswered(error: SlaqdError) -> Finding:
    if isinstance(error, NotPermitted):
        return Finding(Severity.ERROR, str(error), "ask as root, or as the user that slaqd runs as")
    if not isinstance(error, DaemonUnreachable):
        return Finding(Severity.ERROR, f"slaqd doesn't say how it is: {error}", "restart it: it may be older")
    if isinstance(error, AnswerLostError):
        return Finding(Severity.ERROR, str(error), "look at its log for why it ended; ask again")
    if isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
        return Finding(Severity.WARNING, str(error))
    return Finding(Severity.ERROR, str(error), "look at its log, then restart it: no job ends by that")


def _mend(error: ConfigError) -> Finding:
    return Finding(Severity.ERROR, str(error), "mend it; look again with: slaqd --check-config")


def _running(status: StatusView) -> Finding:
    what = f"slaqd {status.version} runs as uid {status.uid}, pid {status.pid}"
    if status.version != slaqd.__version__:
        what = f"{what}, but this slaqctl is {slaqd.__version__}"
        return Finding(Severity.WARNING, what, "restart slaqd: no job ends by that")
    return Finding(Severity.OK, what)


def _told(daemon: Client) -> list[Finding]:
    return Client(daemon.path, _PATIENCE_S).ask(Verb.DOCTOR, list[Finding])


def _alone(settings: Config) -> Sequence[Finding]:
    from slaqd.daemon.alone import of_place  # noqa: PLC0415 - loads the journal and an adapter
    from slaqd.daemon.service import check_config  # noqa: PLC0415 - as above

    try:
        check_config(settings)
    except ConfigError as error:
        return [_mend(error)]
    return of_place(settings)
