"""``slaqctl``: one module a group of commands, each loaded only when it is called."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from slaqd.errors import ControlError, DaemonUnreachable, NotPermitted, SlaqdError

COMMANDS = {
    "run": "slaqd.cli.run",
    "adopt": "slaqd.cli.run",
    "jobs": "slaqd.cli.look",
    "show": "slaqd.cli.look",
    "plan": "slaqd.cli.look",
    "status": "slaqd.cli.look",
    "history": "slaqd.cli.history",
    "read": "slaqd.cli.files",
    "predict": "slaqd.cli.files",
    "pause": "slaqd.cli.brakes",
    "resume": "slaqd.cli.brakes",
    "restore": "slaqd.cli.brakes",
    "drop": "slaqd.cli.brakes",
    "doctor": "slaqd.cli.doctor",
    "demo": "slaqd.cli.demo",
}
EXIT_ERROR, EXIT_NOT_FOUND, EXIT_UNREACHABLE, EXIT_NOT_PERMITTED = 1, 3, 4, 5
_UNHEARD = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class _Lazy(click.Group):
    """Loads a command's module when the command is called: `run` must start fast."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[name]), name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}; see: slaqctl --help")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="slaqd")
def slaqctl() -> None:
    """Ask slaqd, and tell it about jobs.

    Exit status: 0 fine, 1 error, 2 wrong usage, 3 not found, 4 no daemon answers, 5 not permitted.
    """


def main(args: Sequence[str] | None = None, **extra: Any) -> None:  # noqa: ANN401 - click's own
    """Run slaqctl, and turn our errors into one line and an exit status."""
    _speak_anyhow()
    try:
        slaqctl.main(args=list(args) if args is not None else None, prog_name="slaqctl", **extra)
    except SlaqdError as error:
        from slaqd.cli.output import text  # noqa: PLC0415 - late, as the commands

        click.echo(f"slaqctl: {text(str(error))}", err=True)
        sys.exit(exit_status(error))
    except OSError as error:
        if not _is_unheard(error):
            raise
        if not isinstance(error, BrokenPipeError):
            click.echo(f"slaqctl: what it has to say can't be written: {error.strerror}", err=True)
        sys.exit(EXIT_ERROR)


def _speak_anyhow() -> None:
    """Say to nobody what goes to a closed stream, and escape what a stream's encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_unheard(error: OSError) -> bool:
    """Tell whether stdout takes nothing any more, and leave it: Python would try once more at its end."""
    if error.filename is not None or error.errno not in _UNHEARD:
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def exit_status(error: SlaqdError) -> int:
    """Give the exit status that tells scripts what kind of failure it was."""
    if isinstance(error, DaemonUnreachable):
        return EXIT_UNREACHABLE
    if isinstance(error, NotPermitted):
        return EXIT_NOT_PERMITTED
    if isinstance(error, ControlError) and error.code == "not_found":
        return EXIT_NOT_FOUND
    return EXIT_ERROR
