"""``doctor``: is everything as slaqd needs it, and what to do where it isn't."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

import slaqd
from slaqd.cli import EXIT_ERROR
from slaqd.cli.output import as_json, client, print_json, text, with_socket
from slaqd.client import Client
from slaqd.config import Config, load_config
from slaqd.errors import ConfigError, ControlError, DaemonUnreachable, NotPermitted
from slaqd.types import Finding, Severity
from slaqd.wire import StatusView, Verb

_PATIENCE_S = 30.0


@click.command()
@as_json
@with_socket
def doctor(socket: Path | None, config: Path | None, *, json_: bool) -> None:
    """Check what slaqd depends on, with a running slaqd or without one.

    Exits with 1 if anything is an error.
    """
    found = _findings(socket, config)
    if json_:
        print_json(found)
    else:
        for each in found:
            click.echo(f"{each.severity.value:<8} {text(each.what)}")
            if each.do:
                click.echo(f"{'':<8} do: {text(each.do)}")
    if any(each.severity is Severity.ERROR for each in found):
        sys.exit(EXIT_ERROR)


def _findings(socket: Path | None, config: Path | None) -> Sequence[Finding]:
    try:
        settings = load_config(config)
        daemon = client(socket, config)
    except ConfigError as error:
        return [Finding(Severity.ERROR, str(error), "mend it; look again with: slaqd --check-config")]
    try:
        status = daemon.ask(Verb.STATUS, StatusView)
        return [*_running(status), *_told(daemon)]
    except NotPermitted as error:
        return [Finding(Severity.ERROR, str(error), "ask as root, or as the user that slaqd runs as")]
    except DaemonUnreachable as error:
        gone = isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError)
        severity = Severity.WARNING if gone else Severity.ERROR
        do = "" if gone else "look at its log, then restart it: no job ends by that"
        return [Finding(severity, str(error), do), *_alone(settings)]
    except ControlError as error:
        return [
            Finding(Severity.ERROR, f"slaqd doesn't say how it is: {error}", "restart it: it may be older")
        ]


def _running(status: StatusView) -> list[Finding]:
    what = f"slaqd {status.version} runs as uid {status.uid}, pid {status.pid}"
    if status.version != slaqd.__version__:
        what = f"{what}, but this slaqctl is {slaqd.__version__}"
        return [Finding(Severity.WARNING, what, "restart slaqd: no job ends by that")]
    return [Finding(Severity.OK, what)]


def _told(daemon: Client) -> list[Finding]:
    return Client(daemon.path, _PATIENCE_S).ask(Verb.DOCTOR, list[Finding])


def _alone(settings: Config) -> list[Finding]:
    from slaqd.daemon.alone import of_place  # noqa: PLC0415 - loads the journal and an adapter
    from slaqd.daemon.service import check_config  # noqa: PLC0415 - as above

    try:
        check_config(settings)
    except ConfigError as error:
        return [Finding(Severity.ERROR, str(error), "mend it; look again with: slaqd --check-config")]
    return of_place(settings)
