"""The command ``slaqd-agent``, once what it is made of is loaded."""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

import click
import msgspec

import slaqd
from slaqd import logs
from slaqd.agent.service import serve
from slaqd.config import Config, load_config
from slaqd.errors import SlaqdError

NAME = "slaqd-agent"
EX_CONFIG = 78


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "path", type=click.Path(path_type=Path), help="The configuration file of slaqd.")
@click.option("--socket", "where", help="Overrides [agent] socket; systemd passes one by itself.")
@click.version_option(slaqd.__version__)
def main(path: Path | None, where: str | None) -> None:
    """Read and write in users' trees for slaqd, each time as the user. Runs as root."""
    try:
        config = _read(path, where)
        logs.configure()
        faulthandler.enable()
        if os.geteuid() != 0:
            why = "has to be started as root: it becomes other users"
            click.echo(logs.complaint(why, name=NAME), err=True)
            sys.exit(os.EX_NOPERM)
        serve(config)
    except SlaqdError as error:
        click.echo(logs.complaint(str(error), name=NAME), err=True)
        sys.exit(EX_CONFIG)


def _read(path: Path | None, where: str | None) -> Config:
    config = load_config(path)
    if where is None:
        return config
    return msgspec.structs.replace(config, agent=msgspec.structs.replace(config.agent, socket=where))
