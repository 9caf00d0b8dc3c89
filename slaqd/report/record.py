"""What the runs of a demo recorded, and the exact form of ``result.json``.

Times are seconds since the run began. Step functions are pairs ``(time, value)``
in order of time: the value holds from its time until the next one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slaqd.types import Struct

Steps = Sequence[tuple[float, float]]
"""A step function: pairs of seconds and value, in order of time."""


class JobTrace(Struct, frozen=True):
    """One job's life in one run.

    ``ended`` is None for a job that had not ended when the run did. ``times`` and
    ``losses`` have one length, a pair for each logged line in order of time: a loss
    that is not finite stays where it stood. ``units`` is what the job was held to.
    ``unit_seconds`` is what it was granted, ``cpu_seconds`` what the system says
    that it consumed, start-up included. ``wanted_unit_seconds`` is the part of the
    grant that fell in times when the job had work for it; None: all of it.
    """

    job: str
    kind: str
    arrived: float
    ended: float | None
    times: Sequence[float]
    losses: Sequence[float]
    units: Steps
    unit_seconds: float
    cpu_seconds: float
    startup_cpu_seconds: float = 0.0
    wanted_unit_seconds: float | None = None


class Run(Struct, frozen=True):
    """One policy's run over the arrivals.

    ``started`` and ``ended`` are read from one clock, whichever; all other times are
    seconds since ``started``. ``window`` is the length of the arrival window in
    seconds, ``unit_cores`` the size of a unit in cores, ``capacity`` the units that
    could be handed out, ``load`` the CPU needed over the capacity in the window.
    ``error`` says why the run failed; None: it did not.
    """

    policy: str
    started: float
    ended: float
    window: float
    unit_cores: float
    capacity: Steps
    load: float
    jobs: Sequence[JobTrace]
    error: str | None = None

    @property
    def duration(self) -> float:
        """Tell how many seconds the run took."""
        return self.ended - self.started


class JobResult(Struct, frozen=True):
    """One job under one policy.

    ``arrived`` and ``ended`` are seconds since the run began. ``reached`` gives
    seconds since ``arrived``, None where the job never got there. ``first`` and
    ``lowest`` are L0 and L∞ over all runs, so the same under each policy; None
    for a job that never logged a finite loss.
    """

    job: str
    arrived: float
    ended: float | None
    reached: Mapping[str, float | None]
    first: float | None
    lowest: float | None
    unit_seconds: float
    cpu_seconds: float


class PolicyResult(Struct, frozen=True):
    """One policy's numbers; None where the run gives no such number."""

    time_to: Mapping[str, float | None]
    mean_loss: float | None
    mean_completion: float | None
    after_99: float | None
    forecast_error: float | None
    jobs: Sequence[JobResult]


class Result(Struct, frozen=True):
    """``result.json``: the same form from every manager's demo."""

    v: int
    manager: str
    seed: int
    order: Sequence[str]
    load: float
    policies: Mapping[str, PolicyResult]
