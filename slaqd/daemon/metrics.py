"""The daemon's numbers as Prometheus reads them, made from the loop's last view.

Base units (seconds, counts), and labels from closed lists alone: no job's name, path
or user ever stands in one. `docs/metrics.md` lists them all. Needs prometheus-client;
`slaqd.daemon.exporter` imports this module only where metrics are asked for.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

import slaqd
from slaqd.config import Config
from slaqd.daemon.tally import BOUNDS_S, Counts
from slaqd.daemon.view import View
from slaqd.types import Health, State


def registry(config: Callable[[], Config], look: Callable[[], View]) -> CollectorRegistry:
    """Make a registry of slaqd's own, with the loop's numbers and those of the process.

    Parameters
    ----------
    config, look
        Give the configuration in use and the loop's last view; called each time that somebody collects.

    """
    made = CollectorRegistry(auto_describe=False)
    made.register(LoopCollector(config, look))
    ProcessCollector(namespace="slaqd", registry=made)
    return made


class LoopCollector(Collector):
    """Turns a view into metrics. Numbers that only a cycle can know have no sample before the first."""

    def __init__(self, config: Callable[[], Config], look: Callable[[], View]) -> None:
        self._config = config
        self._look = look

    def describe(self) -> list[Metric]:
        """Name nothing, so that registering doesn't look."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Give each metric once, all from one view."""
        view = self._look()
        yield from _of_the_process(self._config())
        yield from _of_the_cycles(view.counts)
        if view.cycles:
            yield from _of_the_state(view.counts)
            yield from _of_the_jobs(view)


def _of_the_process(config: Config) -> Iterator[Metric]:
    section = config.slaqd
    yield InfoMetricFamily(
        "slaqd_build",
        "Version of slaqd and of the Python that runs it.",
        {"version": slaqd.__version__, "python": platform.python_version()},
    )
    yield InfoMetricFamily(
        "slaqd_settings",
        "Mode, policy and adapter from the configuration.",
        {"mode": section.mode.value, "policy": config.policy.name, "adapter": section.adapter},
    )
    yield GaugeMetricFamily("slaqd_epoch_seconds", "Time from one cycle to the next.", section.epoch_s)


def _of_the_cycles(counts: Counts) -> Iterator[Metric]:
    cycles = CounterMetricFamily("slaqd_cycles", "Cycles by how they ended.", labels=["result"])
    for result, count in counts.cycles.items():
        cycles.add_metric([result.value], count)
    yield cycles
    summed = list(accumulate(counts.buckets))
    bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
    yield HistogramMetricFamily(
        "slaqd_cycle_seconds",
        "How long cycles took.",
        buckets=list(zip(bounds, map(float, summed), strict=True)),
        sum_value=counts.seconds,
    )
    yield GaugeMetricFamily(
        "slaqd_cycle_last_success_timestamp_seconds",
        "When the last cycle that ended well did so, in seconds since 1970; 0 if none has.",
        counts.last_success,
    )
    actions = CounterMetricFamily(
        "slaqd_actions", "Actions by kind and by what the manager said.", labels=["kind", "outcome"]
    )
    for (kind, outcome), count in counts.actions.items():
        actions.add_metric([kind, outcome], count)
    yield actions


def _of_the_state(counts: Counts) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "slaqd_manager_up",
        "Whether the resource manager gave a whole answer in the last cycle.",
        int(counts.manager_up),
    )
    yield GaugeMetricFamily(
        "slaqd_journal_writable",
        "0 if the journal could not be read or written in the last cycle or since the one before.",
        int(counts.journal_writable),
    )
    yield GaugeMetricFamily(
        "slaqd_journal_whole",
        "0 while a journal that was damaged waits for an admin's word, and slaqd changes nothing.",
        int(counts.journal_whole),
    )
    yield GaugeMetricFamily(
        "slaqd_enforcing",
        "Whether slaqd may act: mode enforce, no brake pulled, and a journal that can be written.",
        int(counts.enforcing),
    )
    yield GaugeMetricFamily("slaqd_paused", "Whether everything is paused.", int(counts.paused))
    yield GaugeMetricFamily("slaqd_halted", "Whether the stop file halts every act.", int(counts.halted))
    yield GaugeMetricFamily(
        "slaqd_config_last_reload_successful",
        "0 while a newer configuration was refused and the old one holds.",
        int(counts.config_good),
    )


def _of_the_jobs(view: View) -> Iterator[Metric]:
    jobs = view.jobs.values()
    states = GaugeMetricFamily("slaqd_jobs", "Jobs that slaqd knows.", labels=["state"])
    for state in State:
        states.add_metric([state.value], sum(job.state == state.value for job in jobs))
    yield states
    yield GaugeMetricFamily(
        "slaqd_jobs_paused", "Jobs that were paused by request.", sum(job.paused for job in jobs)
    )
    logs = GaugeMetricFamily("slaqd_logs", "Loss logs by what can be said of them.", labels=["health"])
    for health in Health:
        logs.add_metric([health.value], sum(job.health == health.value for job in jobs))
    yield logs
    units = GaugeMetricFamily(
        "slaqd_units", "Units that jobs are held to, that the plan gives, that there are.", labels=["kind"]
    )
    units.add_metric(["target"], sum(job.units or 0 for job in jobs))
    planned = view.plan.allocations if view.plan else ()
    units.add_metric(["planned"], sum(allocation.units for allocation in planned))
    units.add_metric(["room"], sum(view.room.values()))
    yield units
