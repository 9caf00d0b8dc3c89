"""Starts the command ``slaqd``: hears SIGHUP first, then loads the rest, which takes most of a second."""

from __future__ import annotations

from typing import Any

from slaqd.hangup import HangUp


def main(**said: Any) -> None:  # noqa: ANN401 - click's own arguments
    """Run `slaqd.daemon.command.main`, which is told what came while it was loaded."""
    hang_up = HangUp()
    hang_up.hear()
    from slaqd.daemon.command import main as command  # noqa: PLC0415 - after the line above, not before it

    command(obj=hang_up, **said)


if __name__ == "__main__":
    main()
