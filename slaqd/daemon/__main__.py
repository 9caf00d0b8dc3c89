"""The command ``slaqd``."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

import click
import msgspec
import structlog

import slaqd
from slaqd.config import load_config
from slaqd.daemon.service import check_config, serve
from slaqd.errors import AlreadyRunning, ConfigError, SlaqdError, StateError
from slaqd.types import Mode

EX_CONFIG = 78
EX_TEMPFAIL = 75
EX_IOERR = 74


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "path", type=click.Path(path_type=Path), help="The configuration file.")
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="Overrides [slaqd] mode.")
@click.option("--once", is_flag=True, help="Do one cycle and end; cgroups keep what it set, keepers let go.")
@click.option("--check-config", "check", is_flag=True, help="Look at the configuration and end.")
@click.version_option(slaqd.__version__)
def main(path: Path | None, mode: str | None, *, once: bool, check: bool) -> None:
    """Give CPUs to the training jobs that will learn most from them."""
    try:
        config = load_config(path)
        if mode is not None:
            section = msgspec.structs.replace(config.slaqd, mode=Mode(mode))
            config = msgspec.structs.replace(config, slaqd=section)
        if check:
            check_config(config)
            click.echo(f"{config.path or 'the default configuration'}: good")
            return
        configure_logging()
        serve(config, once=once)
    except SlaqdError as error:
        click.echo(f"slaqd: {error}", err=True)
        sys.exit(status_of(error))


def status_of(error: SlaqdError) -> int:
    """Give the exit status of sysexits(3) that tells a supervisor whether to try again."""
    if isinstance(error, ConfigError):
        return EX_CONFIG
    if isinstance(error, AlreadyRunning):
        return EX_TEMPFAIL
    return EX_IOERR if isinstance(error, StateError) else 1


def configure_logging() -> None:
    """Log for people on a terminal, as key=value lines elsewhere; always to stderr."""
    terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors="NO_COLOR" not in os.environ)
        if terminal
        else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    )
    structlog.configure(
        processors=[
            _printable,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.ExceptionRenderer() if not terminal else _as_is,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Patient(sys.stderr))),
        cache_logger_on_first_use=True,
    )


class _Patient:
    """A stream whose disk may be full: a line of the log that is lost must not end the daemon."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _printable(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape what users chose (names, paths), lest it steer the terminal of whoever reads the log."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in value)
    return event


def _as_is(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return event


if __name__ == "__main__":
    main()
