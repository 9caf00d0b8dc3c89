"""``pause``, ``resume``, ``restore``, ``drop``: the brakes."""

from __future__ import annotations

from pathlib import Path

import click

from slaqd.cli.output import client, with_socket
from slaqd.config import load_config
from slaqd.errors import AlreadyRunning, ControlError, DaemonUnreachable
from slaqd.wire import JobArgs, Verb


@click.command()
@click.argument("job", required=False)
@with_socket
def pause(job: str | None, socket: Path | None, config: Path | None) -> None:
    """Leave JOB, or everything, as it is until `resume`."""
    click.echo(client(socket, config).ask(Verb.PAUSE, str, JobArgs(job=job)))


@click.command()
@click.argument("job", required=False)
@with_socket
def resume(job: str | None, socket: Path | None, config: Path | None) -> None:
    """Go on with JOB, or with everything, after `pause` or `restore`."""
    click.echo(client(socket, config).ask(Verb.RESUME, str, JobArgs(job=job)))


@click.command()
@click.argument("job", required=False)
@click.option("--all", "all_", is_flag=True, help="All jobs; everything is paused then.")
@with_socket
def restore(job: str | None, socket: Path | None, config: Path | None, *, all_: bool) -> None:
    """Give JOB, or --all jobs, back what they had before slaqd touched them.

    Works without a daemon too: after a crash it lifts what the dead one set.
    """
    if (job is None) != all_:
        msg = "say which JOB, or --all"
        raise click.UsageError(msg)
    try:
        click.echo(client(socket, config).ask(Verb.RESTORE, str, JobArgs(job=job)))
    except DaemonUnreachable as error:
        click.echo(_without_daemon(job, config, error))


@click.command()
@click.argument("job")
@with_socket
def drop(job: str, socket: Path | None, config: Path | None) -> None:
    """Give JOB back what it had, and let slaqd know it no more; it runs on."""
    click.echo(client(socket, config).ask(Verb.DROP, str, JobArgs(job=job)))


def _without_daemon(job: str | None, config: Path | None, unreachable: DaemonUnreachable) -> str:
    from slaqd.daemon.offline import restore_offline  # noqa: PLC0415 - loads the journal and an adapter

    settings = load_config(config)
    try:
        count = restore_offline(settings, job)
    except AlreadyRunning as error:
        raise unreachable from error
    if job is not None and not count:
        code = "not_found"
        raise ControlError(code, f"no daemon is running, and the journal knows no running job {job!r}")
    where = settings.slaqd.state_dir
    return f"no daemon is running; by the journal in {where}, jobs given back what they had: {count}"
