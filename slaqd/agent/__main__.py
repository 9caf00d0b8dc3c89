"""Starts the command ``slaqd-agent``: sees to SIGHUP first, then loads the rest, which takes a while."""

from __future__ import annotations

from slaqd.hangup import HangUp


def main() -> None:
    """Run `slaqd.agent.command.main`; the agent reads its configuration once, so SIGHUP changes nothing."""
    HangUp().hear()
    from slaqd.agent.command import main as command  # noqa: PLC0415 - after the line above, not before it

    command(prog_name="slaqd-agent")


if __name__ == "__main__":
    main()
