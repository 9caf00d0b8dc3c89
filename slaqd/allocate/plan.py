"""One snapshot and one forecast to one plan, each number with its reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slaqd.adapter import Capabilities
from slaqd.allocate.ask import Ask, ask, untouchable
from slaqd.allocate.gain import Falls, Room
from slaqd.allocate.guard import clamp
from slaqd.allocate.minimums import Shares, promised, take, take_up
from slaqd.allocate.policies import POLICIES, Policy
from slaqd.allocate.waiting import let_in
from slaqd.errors import ConfigError
from slaqd.tag import MOST_UNITS
from slaqd.types import Allocation, Job, Lever, Plan, Resources, Snapshot, State


def make_plan(snapshot: Snapshot, forecast: Falls, capabilities: Capabilities, policy_name: str) -> Plan:
    """Split each pool's room among its jobs.

    Parameters
    ----------
    snapshot
        What the manager said. One with gaps changes nothing.
    forecast
        Its rows are in the order of ``snapshot.jobs``.
    capabilities
        What the levers cost.
    policy_name
        A key of `slaqd.allocate.POLICIES`.

    Returns
    -------
    Plan
        One allocation for each job of the snapshot, in its order.

    Raises
    ------
    ConfigError
        There is no policy of that name.

    """
    if policy_name not in POLICIES:
        msg = f"no policy is called {policy_name!r}; there are: {', '.join(sorted(POLICIES))}"
        raise ConfigError(msg)
    planner = _Planner(snapshot, forecast, capabilities, POLICIES[policy_name])
    planner.keep_untouchable()
    for pool, room in snapshot.pools.items():
        planner.split(pool, room)
    return planner.plan()


class _Planner:
    """Decides pool by pool; ``units`` and ``reasons`` fill up row by row."""

    def __init__(
        self, snapshot: Snapshot, forecast: Falls, capabilities: Capabilities, policy: Policy
    ) -> None:
        self.snapshot = snapshot
        self.forecast = forecast
        self.capabilities = capabilities
        self.policy = policy
        self.units: dict[int, int] = {}
        self.reasons: dict[int, str] = {}

    def keep_untouchable(self) -> None:
        """Leave what can't be planned as it is, and say why."""
        gaps = "; ".join(self.snapshot.gaps)
        for row, job in enumerate(self.snapshot.jobs):
            why = untouchable(job, self.capabilities, self.snapshot.pools)
            if gaps:
                why = f"left as it is: the manager's answer has gaps: {gaps}"
            if why is not None:
                self._decide(row, job.held, why)

    def split(self, pool: str, whole: Resources) -> None:
        """Take out what is held for good, admit in order, split the rest."""
        room, asks, fixed = Room(whole), [], []
        for row, job in enumerate(self.snapshot.jobs):
            if job.pool != pool or job.state is State.ENDED:
                continue
            if row not in self.units:
                known = bool(self.forecast.known[row])
                asks.append(ask(row, job, self.capabilities, known=known))
            elif promised(job):
                if _is_given(job):
                    fixed.append(job)
                else:
                    take(room, job.unit, job.held, job.overhead)
        asks = self._admit(asks, fixed, room)
        shared = _for_units(asks, room)
        units = clamp(asks, self.policy.split(asks, self.forecast, shared), shared)
        self._explain(asks, units)

    def plan(self) -> Plan:
        """Put the decisions in the order of the snapshot."""
        rows = np.arange(len(self.snapshot.jobs))
        units = [self.units[row] for row in rows.tolist()]
        # What is left as it is may hold any number of units, the forecast's numbers have an end.
        priced = [min(size, MOST_UNITS) for size in units]
        falls = self.forecast.fall(rows, np.array(priced, dtype=np.int64)).tolist()
        known = self.forecast.known.tolist()
        allocations = tuple(
            Allocation(job.key, units[row], self.reasons[row], falls[row] if known[row] else None)
            for row, job in enumerate(self.snapshot.jobs)
        )
        return Plan(self.snapshot.taken_at, self.snapshot.incarnation, self.policy.name, allocations)

    def _decide(self, row: int, units: int, reason: str) -> None:
        self.units[row] = units
        self.reasons[row] = reason

    def _admit(self, asks: Sequence[Ask], fixed: Sequence[Job], room: Room) -> list[Ask]:
        """Take minimums and overheads out of the room; keep the jobs that hold or get units.

        Running jobs come first, then the waiting ones.
        """
        jobs = self.snapshot.jobs
        shares = Shares(room, asks, fixed, jobs)
        for job in fixed:
            take(room, job.unit, promised(job), job.overhead)
        whole = room.copy()
        kept, late = take_up([one for one in asks if not one.waiting], shares, jobs, room)
        entry = let_in([one for one in asks if one.waiting], late, shares, room, whole)
        for one, why in entry.left:
            self._decide(one.index, jobs[one.index].target or 0, why)
        for one, why in entry.waits:
            self._decide(one.index, 0, why)
        return sorted([*kept, *entry.kept], key=lambda one: one.index)

    def _explain(self, asks: Sequence[Ask], units: Sequence[int]) -> None:
        """Say of each job why it holds what it holds."""
        nexts = [one.next(size) for one, size in zip(asks, units, strict=True)]
        rows = np.array([one.index for one in asks], dtype=np.int64)
        more = [size if up is None else up for up, size in zip(nexts, units, strict=True)]
        now, then = np.array(units, dtype=np.int64), np.array(more, dtype=np.int64)
        gains = self.forecast.fall(rows, then) - self.forecast.fall(rows, now)
        for one, size, up, gain in zip(asks, units, nexts, gains.tolist(), strict=True):
            self._decide(one.index, size, self._reason(one, None if up is None else up - size, gain))

    def _reason(self, one: Ask, step: int | None, gain: float) -> str:
        reads = self.policy.name != "fair"
        if reads and not one.known:
            why = self.forecast.reason[one.index]
            return f"fair share: {why}" if one.movable else f"keeps what it holds: {why}"
        if step is None:
            return one.top
        if not reads:
            return "fair share"
        if gain <= 0.0:
            return "no fall predicted from more"
        return f"gain {gain:.3g} for the next {'unit' if step == 1 else f'{step} units'}"


def _is_given(job: Job) -> bool:
    """Tell whether slaqd gave a job what it holds; what any other one holds, it was seen to use."""
    return job.target is not None or job.lever is Lever.FILE


def _for_units(asks: Sequence[Ask], room: Room) -> Resources:
    """Give the room that a policy splits: what is left, the minimums put back."""
    rest = room.copy()
    for one in asks:
        rest.take(rest.cost(one.unit), -one.min)
    return rest.left()
