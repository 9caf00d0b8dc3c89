"""What outlives a cycle: changes of plans and paces go to the journal, and an alarm where they can't."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import inf

import msgspec
import structlog

from slaqd.act import Journal
from slaqd.act.records import Plans
from slaqd.clock import Clock
from slaqd.daemon.watch import Watch
from slaqd.errors import StateError
from slaqd.types import JobKey, Plan, Snapshot, State
from slaqd.wire import JobView

OBSERVED_EVERY_S = 60.0
"""So often at most is what was observed of all jobs written: a crash costs no more measurements than that."""

FREE_THE_DISK = "free or repair the disk; slaqd only observes until it can write again"

CONFIRM = "compare slaqctl jobs with what runs, then say: slaqctl resume"

log = structlog.get_logger("slaqd")


class Memory:
    """Keeps for later what a cycle saw and planned."""

    def __init__(self, journal: Journal, watch: Watch, clock: Clock) -> None:
        self._journal = journal
        self._watch = watch
        self._clock = clock
        self._plans = Plans({})
        self._observed = -inf
        self._failures = journal.failures
        self.alarm = ""
        """Why the journal can't be written; empty while it can."""

    def recall(self) -> None:
        """Take up what the slaqd before this one knew: its last plans and the paces it measured."""
        if self._journal.unconfirmed:
            log.error(
                "nothing is acted on before an admin confirms it", why=self._journal.unconfirmed, do=CONFIRM
            )
        with suppress(StateError):  # it saves measuring anew, no more
            self._plans = Plans(self._journal.last_plans())
            self._watch.recall(self._journal.observations())

    def keep(self, plan: Plan, snapshot: Snapshot) -> None:
        """Write down what is new in a plan, and now and then what was observed. Raises `StateError`."""
        changes = self._plans.changes(plan, snapshot)
        due = self._clock.monotonic() - self._observed >= OBSERVED_EVERY_S
        observations = self._watch.observations() if due else []
        self._journal.keep_seen(changes, observations, self._clock.wall())
        self._plans.kept(changes)
        self._watch.kept(observations)
        if due:
            self._observed = self._clock.monotonic()

    def end(self, snapshot: Snapshot, views: Mapping[JobKey, JobView]) -> list[JobKey]:
        """Write down each job that ended and how it was shown last; say which. Raises `StateError`."""
        ended = [job for job in snapshot.jobs if job.state is State.ENDED]
        if not ended:
            return []
        lasts = {job.key: msgspec.json.encode(views[job.key]).decode() for job in ended}
        try:
            self._journal.end_all(lasts, self._clock.wall())
        except StateError as error:
            log.warning("the journal can't take jobs' ends yet", jobs=len(ended), error=str(error))
            raise
        for job in ended:
            log.info("job ended", job=job.key.id, name=job.name, user=job.owner.name)
        return list(lasts)

    def close(self, why: str) -> None:
        """Write down what was observed since, and that this is the end."""
        with suppress(StateError):  # a full disk must not keep slaqd from stopping
            self._journal.keep_seen([], self._watch.observations(), self._clock.wall())
            self._journal.tell("stopped", why, self._clock.wall())

    def look_after(self) -> None:
        """Say once that the journal fails, try it each cycle, and say when a whole cycle went well again.

        Raises `StateError` where it failed since the last look, or when it was tried now.
        """
        failed = self._journal.failures != self._failures
        try:
            if self.alarm and not failed:
                self._try()
        finally:
            self._failures = self._journal.failures
        if failed:
            if not self.alarm:
                log.error("the journal can't be written", error=self._journal.trouble, do=FREE_THE_DISK)
            self.alarm = self._journal.trouble
            raise StateError(self.alarm)

    def _try(self) -> None:
        self._journal.keep_fact("tried", repr(self._clock.wall()))
        self.alarm = ""
        log.warning("the journal can be written again")
