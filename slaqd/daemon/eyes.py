"""How the logs of all jobs are read: here as oneself, through the agent where there are several users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog

from slaqd.agent.protocol import KEEP, Source
from slaqd.observe import Log
from slaqd.types import Curve, Health

_FAULT = "a fault of slaqd's own in reading this log; its trace is in slaqd's log"

log = structlog.get_logger("slaqd")


class Eyes(Protocol):
    """Reads logs. `slaqd.agent.client.Agent` is one too."""

    def look(self, sources: Sequence[Source], now: float) -> Mapping[str, Curve]:
        """Read what is new of these logs, all that there are; give every curve by ``Source.job``.

        ``now`` is wall time. The same object comes back while a curve doesn't change.
        Raises `slaqd.errors.AgentUnavailable` where nothing can be read at all.
        """
        ...


class OwnEyes:
    """Reads with the rights of this process."""

    def __init__(self) -> None:
        self._logs: dict[str, tuple[Source, Log]] = {}

    def look(self, sources: Sequence[Source], now: float) -> Mapping[str, Curve]:
        """See `Eyes.look`."""
        self._logs = {source.job: (source, self._log(source)) for source in sources}
        return {job: _poll(job, each, now) for job, (_, each) in self._logs.items()}

    def _log(self, source: Source) -> Log:
        before, known = self._logs.get(source.job, (None, None))
        return known if known is not None and before == source else Log(source.path, source.tag, keep=KEEP)


def _poll(job: str, followed: Log, now: float) -> Curve:
    try:
        return followed.poll(now)
    except Exception:  # one user's odd log must not cost the others their cycle
        log.exception("a fault in reading a log", job=job)
        return Curve(health=Health.UNREADABLE, note=_FAULT)
