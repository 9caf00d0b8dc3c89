"""The command ``slaqd``, once what it is made of is loaded."""

from __future__ import annotations

import faulthandler
import sys
from functools import partial
from pathlib import Path

import click
import msgspec

import slaqd
from slaqd import logs
from slaqd.config import Config, check_sockets, load_config
from slaqd.daemon.service import check_config, serve
from slaqd.errors import AlreadyRunning, ConfigError, SlaqdError, StateError, StateRefused
from slaqd.hangup import HangUp
from slaqd.types import Mode

EX_CONFIG = 78
EX_TEMPFAIL = 75
EX_IOERR = 74


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "path", type=click.Path(path_type=Path), help="The configuration file.")
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="Overrides [slaqd] mode.")
@click.option(
    "--agent", help="Overrides [agent] socket: where slaqd-agent is asked, which reads as each user."
)
@click.option("--once", is_flag=True, help="Do one cycle and end; cgroups keep what it set, keepers let go.")
@click.option("--check-config", "check", is_flag=True, help="Look at the configuration and end.")
@click.version_option(slaqd.__version__)
@click.pass_obj
def main(
    hang_up: HangUp | None, path: Path | None, mode: str | None, agent: str | None, *, once: bool, check: bool
) -> None:
    """Give CPUs to the training jobs that will learn most from them."""
    if hang_up is not None and (once or check):
        hang_up.hear_no_more()  # these end by themselves, and read nothing anew
    try:
        config = read(path, mode, agent)
        if check:
            check_config(config)
            click.echo(f"{config.path or 'the default configuration'}: good")
            return
        logs.configure()
        faulthandler.enable()  # the watchdog's SIGABRT then leaves in the log where it hung
        serve(config, once=once, again=partial(read, path, mode, agent), hang_up=hang_up)
    except SlaqdError as error:
        click.echo(logs.complaint(str(error)), err=True)
        sys.exit(status_of(error))


def read(path: Path | None, mode: str | None, agent: str | None = None) -> Config:
    """Read the configuration, and let the command line have the last word on the mode and the agent."""
    config = load_config(path)
    if agent is not None:
        config = msgspec.structs.replace(config, agent=msgspec.structs.replace(config.agent, socket=agent))
        check_sockets(config)
    if mode is None:
        return config
    return msgspec.structs.replace(config, slaqd=msgspec.structs.replace(config.slaqd, mode=Mode(mode)))


def status_of(error: SlaqdError) -> int:
    """Give the exit status of sysexits(3) that tells a supervisor whether to try again."""
    if isinstance(error, ConfigError | StateRefused):
        return EX_CONFIG
    if isinstance(error, AlreadyRunning):
        return EX_TEMPFAIL
    return EX_IOERR if isinstance(error, StateError) else 1
