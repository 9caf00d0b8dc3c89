"""``run`` and ``adopt``: bring a command, or what already runs, into slaqd's hands.

slaqd never starts a command. `run` registers a child that waits on a pipe, lets it
go once slaqd admits it, and stays in the foreground until it ends.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from slaqd import tag as tags
from slaqd.cli.foreground import EXIT_CANNOT_RUN, EXIT_NOT_FOUND, Child
from slaqd.cli.output import as_json, client, print_json, text, with_socket
from slaqd.client import Client, await_admission, register, start_ticks
from slaqd.errors import ControlError, NotPermitted
from slaqd.types import Better, Tag
from slaqd.wire import EndedArgs, RegisterArgs, Registered, Verb

_POLL_S = 0.2
_HERS = frozenset({"bad_request", "refused"})
"""Why a registration fails by what its user said. Whatever else it is, her command starts all the same."""

_OPTIONS = (
    click.option("--min", "min_", type=click.IntRange(min=1), help="Units it needs at least."),
    click.option("--max", "max_", type=click.IntRange(min=1), help="Units it can use at most."),
    click.option("--log", help="The loss log; {jobid} and {user} are filled in."),
    click.option("--key", help="The loss column, where several fit."),
    click.option("--format", "format_", help="The log's format, where it can't be told."),
    click.option(
        "--better", type=click.Choice([b.value for b in Better]), help="Which way the number should go."
    ),
    click.option("--weight", type=click.FloatRange(0.1, 10), help="How much its learning counts, 0.1 to 10."),
    click.option("--name", help="A name for tables."),
)


def _with_tag_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Said:
    """What the command line says of a job."""

    min_: int | None
    max_: int | None
    log: str | None
    key: str | None
    format_: str | None
    better: str | None
    weight: float | None
    name: str | None

    def tag(self) -> Tag:
        """Merge the options with ``SLAQ_TAG``: the nearest to the call wins."""
        said = {
            "log": self.log,
            "key": self.key,
            "format": self.format_,
            "better": self.better,
            "min": self.min_,
            "max": self.max_,
            "weight": self.weight,
        }
        nearest = tags.from_mapping({key: value for key, value in said.items() if value is not None})
        return tags.merge(nearest, tags.parse_words(os.environ.get("SLAQ_TAG", "")))


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@_with_tag_options
@with_socket
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(socket: Path | None, config: Path | None, command: Sequence[str], **said: object) -> None:
    """Run COMMAND in the foreground under slaqd; its exit status is this one's.

    Write -- before the command: slaqctl run --max 8 --log train.jsonl -- python train.py
    """
    words = msgspec.convert({key: said[key] for key in Said.__dataclass_fields__}, Said)
    tag = words.tag()
    program = _program(command[0])
    daemon = client(socket, config)
    child = Child(program, command)
    start = start_ticks(child.pid)
    job = _enter(daemon, child, start, tag, words.name or Path(command[0]).name)
    child.let_go()
    status = child.wait()
    if job is not None:
        _tell_end(daemon, job, start, status)
    sys.exit(status)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found:
        return found
    if Path(name).is_file():
        click.echo(f"slaqctl run: {name}: not executable", err=True)
        sys.exit(EXIT_CANNOT_RUN)
    click.echo(f"slaqctl run: {name}: no such command", err=True)
    sys.exit(EXIT_NOT_FOUND)


def _enter(daemon: Client, child: Child, start: int, tag: Tag, name: str) -> str | None:
    """Register the waiting child and wait for its admission; None if it runs unmanaged, or no more."""
    try:
        cwd = os.getcwd()  # noqa: PTH109 - its text is what counts
        cwd.encode()
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "its name is not UTF-8 text"
        _say(f"running unmanaged: slaqd can't be told the working directory: {why}")
        return None
    args = RegisterArgs(pgid=child.pid, start=start, tag=tag, name=name, cwd=cwd, waits=True)
    try:
        registered = register(daemon, args, _POLL_S, _say, alive=child.alive)
    except ControlError as error:
        if error.code in _HERS:
            child.give_up()
            raise
        if child.alive():  # an interrupt may have ended it meanwhile
            _say(f"running unmanaged: {error}")
        return None
    if registered.wait:
        await_admission(daemon, registered.job, _POLL_S, _say, alive=child.alive)
    return registered.job


def _say(reason: str) -> None:
    if reason:
        click.echo(f"slaqctl run: {text(reason)}", err=True)


def _tell_end(daemon: Client, job: str, start: int, status: int) -> None:
    try:
        daemon.ask(Verb.ENDED, type(None), EndedArgs(job=job, start=start, status=status))
    except ControlError:
        return  # the daemon learns of the end by itself; only the status is lost


@click.command()
@_with_tag_options
@as_json
@with_socket
@click.argument("pgid", type=click.IntRange(min=1))
def adopt(socket: Path | None, config: Path | None, pgid: int, *, json_: bool, **said: object) -> None:
    """Take over the process group PGID, which already runs."""
    words = msgspec.convert({key: said[key] for key in Said.__dataclass_fields__}, Said)
    try:
        start = start_ticks(pgid)
        if os.getpgid(pgid) != pgid:
            group = os.getpgid(pgid)
            msg = f"process {pgid} leads no group; it is in group {group}: slaqctl adopt {group}"
            raise ControlError("not_found", msg)
        comm = Path(f"/proc/{pgid}/comm").read_text(encoding="utf-8", errors="replace").strip()
        cwd = _cwd(pgid)
    except (ProcessLookupError, FileNotFoundError) as error:
        raise ControlError("not_found", f"no process group has the id {pgid}") from error
    name = words.name or comm
    args = RegisterArgs(pgid=pgid, start=start, tag=words.tag(), name=name, cwd=cwd)
    registered = client(socket, config).ask(Verb.REGISTER, Registered, args)
    if json_:
        print_json(registered)
    else:
        click.echo(f"job {registered.job} ({text(name)}) is slaqd's now")


def _cwd(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except PermissionError as error:
        msg = f"process {pid} belongs to somebody else: {error.strerror}"
        raise NotPermitted(msg) from error
