"""Jobs, snapshots and plans in few words, for tests of the rooms behind the planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slaqd.adapter import Capabilities, LeverSpec, Registration
from slaqd.types import Allocation, Job, JobKey, Lever, Owner, Plan, Resources, Sizes, Snapshot, State, Tag

UNIT: Resources = {"cpu_milli": 100}
ME = Owner(uid=1000, name="ada")
ATOMIC = Capabilities(levers={Lever.CPUS: LeverSpec()}, min_epoch_s=0.1, actions_per_s=100.0)
SLOW = Capabilities(levers={Lever.CPUS: LeverSpec(swap_atomic=False)}, min_epoch_s=0.1, actions_per_s=100.0)


def key(number: int | str) -> JobKey:
    return JobKey(manager="fake", id=str(number), start=7)


def job(
    number: int | str,
    *,
    held: int = 0,
    target: int | None = None,
    state: State = State.RUNNING,
    lever: Lever = Lever.CPUS,
    pool: str = "pool",
    gap: str | None = None,
    overhead: Resources | None = None,
) -> Job:
    """Make a running job that is held to what it holds, unless ``target`` says otherwise."""
    settled = held if held and target is None else target
    return Job(
        key=key(number), name=f"job-{number}", owner=ME, state=state, pool=pool, tag=Tag(), lever=lever,
        unit=UNIT, sizes=Sizes(min=1, max=50), held=held, target=settled, gap=gap, overhead=overhead or {},
    )  # fmt: skip


def job_of(name: str, owner: Owner, low: int = 1, high: int = 40, **more: Any) -> Job:
    """Make a running job of somebody's that holds nothing, unless ``more`` says otherwise."""
    given = {
        "key": JobKey("t", name, 0), "name": name, "owner": owner, "state": State.RUNNING, "pool": "all",
        "tag": Tag(), "lever": Lever.CPUS, "unit": {"cpu_milli": 1000}, "sizes": Sizes(low, max(low, high)),
        "held": 0,
    }  # fmt: skip
    return Job(**{**given, **more})


def snapshot(*jobs: Job, units: int = 10, gaps: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot(
        taken_at=5.0, incarnation="one", pools={"pool": {"cpu_milli": 100 * units}}, jobs=jobs, gaps=gaps
    )


def plan(units: Mapping[int | str, int], *, taken_at: float = 5.0, incarnation: str = "one") -> Plan:
    allocations = tuple(Allocation(key(number), held, "because") for number, held in units.items())
    return Plan(taken_at=taken_at, incarnation=incarnation, policy="slaq", allocations=allocations)


def registration(
    number: int | str, *, waits: bool = False, submitted: float = 100.0, tag: Tag | None = None
) -> Registration:
    return Registration(
        key=key(number),
        owner=ME,
        tag=tag or Tag(),
        name=f"job-{number}",
        cwd="/",
        submitted=submitted,
        waits=waits,
    )
