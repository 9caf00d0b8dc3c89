"""Tables for people, JSON for programs, and the options that all commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from slaqd.client import Client, reachable
from slaqd.config import Config, default_places, load_config
from slaqd.errors import DaemonUnreachable
from slaqd.text import visible

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "json_", is_flag=True, help="Print JSON.")


def with_socket(command: F) -> F:
    """Give a command the options that say which slaqd to talk to."""
    path = click.Path(path_type=Path, readable=False)  # what can't be reached has messages of its own
    command = click.option("--config", type=path, help="The daemon's configuration file.")(command)
    return click.option("--socket", type=path, envvar="SLAQ_SOCKET", help="The daemon's control socket.")(
        command
    )


def client(socket: Path | None, config: Path | None) -> Client:
    """Find the daemon: by its socket, by its configuration, else one's own, else the service."""
    if socket is not None:
        return Client(socket)
    if config is not None:
        return Client(Path(load_config(config).slaqd.socket))
    own = Path(load_config().slaqd.socket)
    return Client(reachable([own, default_places(os.environ, 0).socket]))


def settings_without(daemon: Client, config: Path | None, unreachable: DaemonUnreachable) -> Config:
    """Give the configuration of the slaqd that was asked and doesn't answer.

    Raises
    ------
    DaemonUnreachable
        That slaqd's is not known: another's journal is neither acted on nor shown.

    """
    settings = load_config(config)
    if daemon.path != Path(settings.slaqd.socket):
        msg = f"{unreachable}; to do it without one, name its configuration: --config FILE"
        raise DaemonUnreachable(msg) from unreachable
    return settings


def print_json(value: object) -> None:
    r"""Print one JSON document, indented; what could steer a terminal stands in it as ``\uXXXX``."""
    lines = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().split("\n")
    click.echo("\n".join(line if line.isprintable() else _escaped(line) for line in lines))


def _escaped(line: str) -> str:
    """Escape what is not printable: in JSON it can only stand in a string."""
    import json  # noqa: PLC0415 - `run` never needs it

    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Print a table as wide as the terminal; whole rows where the output is no terminal."""
    from rich.console import Console  # noqa: PLC0415 - half a second that `run` must not pay
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False, header_style="bold")
    filled = list(rows)
    if not filled:
        click.echo(empty, err=True)
        return
    for index, name in enumerate(columns):
        numeric = all(_is_number(row[index]) for row in filled)
        table.add_column(
            name, justify="right" if numeric else "left", overflow="fold", no_wrap=not sys.stdout.isatty()
        )
    for row in filled:
        table.add_row(*(text(cell) for cell in row))
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())
    if not sys.stdout.isatty():
        console.width = 4096
    console.print(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print one name and value a line, leaving out what is empty."""
    shown = [(name, text(value)) for name, value in fields if value not in (None, "")]
    width = max((len(name) for name, _value in shown), default=0)
    for name, value in shown:
        click.echo(f"{name:<{width}}  {value}")


def text(value: object) -> str:
    """Show a value: nothing as a dash, numbers to four digits, what could steer a terminal escaped."""
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return visible(str(value))


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def duration(seconds: float) -> str:
    """Show a duration as Slurm does: [D-]HH:MM:SS."""
    whole = max(int(seconds), 0)
    days, rest = divmod(whole, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
