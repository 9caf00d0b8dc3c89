"""``jobs``, ``show``, ``plan``, ``status``: what slaqd sees and thinks."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import click

from slaqd.cli.output import (
    as_json,
    client,
    duration,
    print_fields,
    print_json,
    print_table,
    text,
    with_socket,
)
from slaqd.client import Client
from slaqd.errors import ControlError
from slaqd.wire import JobArgs, JobView, PlanView, StatusView, Verb


@click.command()
@click.option("--all", "all_", is_flag=True, help="Also those that ended within the last hour.")
@as_json
@with_socket
def jobs(socket: Path | None, config: Path | None, *, json_: bool, all_: bool) -> None:
    """List the jobs that slaqd knows."""
    daemon = client(socket, config)
    views = daemon.ask(Verb.JOBS, list[JobView])
    shown = [view for view in views if all_ or view.state != "ended"]
    if json_:
        print_json(shown)
        return
    _warn(daemon)
    print_table(
        ["JOB", "NAME", "USER", "STATE", "UNITS", "MIN", "MAX", "LOSS", "STEP", "FALL", "CPU", "WHY"],
        [
            (
                view.job,
                view.name,
                view.user,
                "paused" if view.paused else view.state,
                view.units,
                view.min,
                view.max,
                view.loss,
                view.step,
                view.fall,
                None if view.cpu_seconds is None else duration(view.cpu_seconds),
                why(view),
            )
            for view in shown
        ],
        "no jobs; start one with: slaqctl run --log train.jsonl -- python train.py",
    )


def _warn(daemon: Client) -> None:
    """Say what holds slaqd back, where anything does."""
    with suppress(ControlError):  # the jobs are what was asked for
        view = daemon.ask(Verb.STATUS, StatusView)
        for line in filter(None, (view.halted, view.alarm, view.config_error)):
            click.echo(text(line), err=True)


def why(view: JobView) -> str:
    """Say the most useful thing about a job in one line: trouble with its log first."""
    if view.state == "ended" or view.health in ("ok", ""):
        return view.reason
    return view.note or view.reason


@click.command()
@click.argument("job")
@as_json
@with_socket
def show(job: str, socket: Path | None, config: Path | None, *, json_: bool) -> None:
    """Show one JOB whole."""
    view = client(socket, config).ask(Verb.SHOW, JobView, JobArgs(job=job))
    if json_:
        print_json(view)
        return
    print_fields(
        [
            ("job", view.job),
            ("name", view.name),
            ("user", view.user),
            ("state", view.state + (", paused" if view.paused else "")),
            ("since", duration((view.ended or time.time()) - view.submitted)),
            ("pool", view.pool),
            ("lever", view.lever),
            ("units", "held to nothing" if view.units is None and view.state == "running" else view.units),
            ("planned", view.plan),
            ("bounds", f"{view.min} to {view.max}"),
            ("wants", view.wants),
            ("why", view.reason),
            ("loss", view.loss),
            ("step", view.step),
            ("points", view.points),
            ("fall", view.fall),
            ("log", view.log),
            ("log state", view.health),
            ("note", view.note),
            ("CPU seconds", view.cpu_seconds),
            ("exit status", view.exit_status),
        ]
    )


@click.command()
@as_json
@with_socket
def plan(socket: Path | None, config: Path | None, *, json_: bool) -> None:
    """Show the newest plan: units per job, each with its reason."""
    view = client(socket, config).ask(Verb.PLAN, PlanView)
    if json_:
        print_json(view)
        return
    if view.rows:
        click.echo(
            f"policy {view.policy}, {sum(row.units for row in view.rows)} of {view.room} units", err=True
        )
    print_table(
        ["JOB", "NAME", "NOW", "PLAN", "FALL", "WHY"],
        [(row.job, row.name, row.now, row.units, row.fall, row.reason) for row in view.rows],
        "the newest plan is empty: slaqd knows no job",
    )


@click.command()
@as_json
@with_socket
def status(socket: Path | None, config: Path | None, *, json_: bool) -> None:
    """Show the daemon in one glance."""
    view = client(socket, config).ask(Verb.STATUS, StatusView)
    if json_:
        print_json(view)
        return
    print_fields(
        [
            ("slaqd", f"{view.version}, pid {view.pid}, up {duration(time.time() - view.started)}"),
            ("mode", view.mode.value + (", paused (slaqctl resume ends it)" if view.paused else "")),
            ("brake", view.halted and f"{view.halted}: nothing is changed until it is gone"),
            ("alarm", view.alarm),
            ("policy", f"{view.policy}, an epoch of {view.epoch_s:g} s"),
            ("adapter", view.adapter),
            ("jobs", f"{view.running} running, {view.waiting} waiting"),
            ("units", f"{view.planned} of {view.room} planned"),
            ("last cycle", f"{view.cycles}: {view.sentence}"),
            ("state", view.state_dir),
            ("config", view.config or "the defaults"),
            ("not in use", view.config_error),
        ]
    )
