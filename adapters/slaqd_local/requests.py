"""What the adapter asks of its hands in the agent: a closed list, with bounds.

A job is named by two numbers and the user whose it is; never by a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from slaqd.types import Struct

MOST_PIDS = 4096
"""Processes in one request; more are sent in several."""

Cgroup = Literal["cgroup2", "cgroup1"]
Pid = Annotated[int, msgspec.Meta(ge=2, le=4_194_304)]  # proc_pid_max(5); 1 is the system itself
Ticks = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Uid = Annotated[int, msgspec.Meta(ge=0, lt=2**32 - 1)]  # the last means "no change" to setuid(2)
Pids = Annotated[tuple[Pid, ...], msgspec.Meta(max_length=MOST_PIDS)]
Group = Annotated[str, msgspec.Meta(pattern=r"^/", max_length=4096)]
Origin = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{0,7}\Z")]
Milli = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]


class WhyNot(Struct, frozen=True, tag="why_not"):
    """Say why this means can't be used."""

    means: Cgroup


class Answer(Struct, frozen=True):
    """Answer to `WhyNot`; the others have none."""

    why: str | None


class Named(Struct, frozen=True):
    """A job under one means: its process group's number and start, and its owner."""

    means: Cgroup
    id: Pid
    start: Ticks
    uid: Uid


class Hold(Named, frozen=True, tag="hold"):
    """Hold processes to ``milli`` thousandths of a core together."""

    pids: Pids
    milli: Milli


class Gather(Named, frozen=True, tag="gather"):
    """Take processes that joined the job into its hold."""

    pids: Pids


class Lift(Named, frozen=True, tag="lift"):
    """Let the job run free."""


class GiveBack(Named, frozen=True, tag="give_back"):
    """Let the job run free where it came from; ``origins`` as in `slaqd_local.means.Origins`."""

    origins: Mapping[str, Mapping[Origin, Group]]


class Clear(Named, frozen=True, tag="clear"):
    """Remove what is left of an ended job."""


class Sweep(Struct, frozen=True, tag="sweep"):
    """Remove the empty groups that these jobs left, each named by id and start, if no job of it lives."""

    means: Cgroup
    jobs: Annotated[tuple[tuple[Pid, Ticks], ...], msgspec.Meta(max_length=MOST_PIDS)]


Request = WhyNot | Hold | Gather | Lift | GiveBack | Clear | Sweep
