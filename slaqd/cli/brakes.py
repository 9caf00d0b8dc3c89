"""``pause``, ``resume``, ``restore``, ``drop``: the brakes."""

from __future__ import annotations

from pathlib import Path

import click

from slaqd.cli.output import client, settings_without, with_socket
from slaqd.config import Config
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
    daemon = client(socket, config)
    try:
        click.echo(daemon.ask(Verb.RESTORE, str, JobArgs(job=job)))
    except DaemonUnreachable as error:
        click.echo(_restore_without_daemon(job, settings_without(daemon, config, error), error))


@click.command()
@click.argument("job")
@with_socket
def drop(job: str, socket: Path | None, config: Path | None) -> None:
    """Give JOB back what it had, and let slaqd know it no more; it runs on.

    Works without a daemon too, from the journal that it left.
    """
    daemon = client(socket, config)
    try:
        click.echo(daemon.ask(Verb.DROP, str, JobArgs(job=job)))
    except DaemonUnreachable as error:
        click.echo(_drop_without_daemon(job, settings_without(daemon, config, error), error))


def _restore_without_daemon(job: str | None, settings: Config, unreachable: DaemonUnreachable) -> str:
    from slaqd.daemon.offline import restore_offline  # noqa: PLC0415 - loads the journal and an adapter

    try:
        count = restore_offline(settings, job)
    except AlreadyRunning as error:
        raise unreachable from error
    if job is not None and not count:
        raise _unknown(job)
    return f"{_by_the_journal(settings)}, jobs given back what they had: {count}"


def _drop_without_daemon(job: str, settings: Config, unreachable: DaemonUnreachable) -> str:
    from slaqd.daemon.offline import drop_offline  # noqa: PLC0415 - as above

    try:
        known = drop_offline(settings, job)
    except AlreadyRunning as error:
        raise unreachable from error
    if not known:
        raise _unknown(job)
    return f"{_by_the_journal(settings)}, job {job} has back what it had, and slaqd knows it no more"


def _unknown(job: str) -> ControlError:
    return ControlError("not_found", f"no daemon is running, and the journal knows no running job {job!r}")


def _by_the_journal(settings: Config) -> str:
    return f"no daemon is running; by the journal in {settings.slaqd.state_dir}"
