"""The demo: the same arrivals under fair share and under SLAQ, compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile

import msgspec
from rich.console import Console
from rich.live import Live

from slaqd.daemon.state import state
from slaqd.demo.cluster import Daemon, DemoError, Nursery
from slaqd.demo.stage import Setting, perform
from slaqd.demo.workload import Workload, make_workload, speed_ratio
from slaqd.observe import read_log
from slaqd.predict import predict_curve
from slaqd.report.compare import table
from slaqd.report.live import LiveState, line, view
from slaqd.report.measure import measure
from slaqd.report.page import render
from slaqd.report.record import Result, Run
from slaqd.types import Curve, Health, Tag

EPOCH_S = 1.0
UNIT_MILLI = 20
CORES = 2.0
"""At most this much of the machine, so that a demo is a demo anywhere."""

LOAD = 3.0
"""CPU needed over capacity in the arrival window."""

AHEAD = 10
_CUTS = (0.2, 0.4, 0.6, 0.8)
_FEWEST_BEFORE = 8
_LINE_EVERY_S = 10.0

_POLICIES = ("fair", "slaq")


@dataclass(frozen=True)
class Wish:
    """What the caller asks for."""

    jobs: int
    seed: int
    out: Path


def demo(wish: Wish, console: Console) -> Result:
    """Run the whole demo, print the comparison, write ``result.json`` and ``report.html``.

    Raises
    ------
    DemoError
        A run failed; there is no ratio then.

    """
    _make(wish.out)
    workload = make_workload(wish.jobs, wish.seed)
    _say(console, f"{wish.jobs} trainings, seed {wish.seed}; warming up …")
    setting = _warm_up(workload, wish.out)
    order = _POLICIES if wish.seed % 2 else _POLICIES[::-1]
    _announce(setting, order, wish.out, console)
    runs: dict[str, Run] = {}
    for number, policy in enumerate(order, start=1):
        with _shown(console, f"run {number} of {len(order)}") as show:
            runs[policy] = perform(setting, policy, _fresh(wish.out / policy), show)
    return _conclude(wish, order, runs, console)


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()
    except OSError as error:
        msg = (
            f"{out}: the output folder can't be made or written: {error.strerror}; choose another with --out"
        )
        raise DemoError(msg) from error


def _fresh(directory: Path) -> Path:
    """Empty what an earlier demo left in ``directory``: its journal knows dead jobs."""
    directory.mkdir(exist_ok=True)
    with state(directory / "state"):  # or it would be taken from under a demo that still runs
        for old in [*directory.glob("*.jsonl"), *directory.glob("*.log"), *directory.glob("state/*")]:
            old.unlink()
    return directory


def _warm_up(workload: Workload, out: Path) -> Setting:
    """Fill the caches with one tiny training of each kind, and learn how fast this machine is."""
    directory = out / "warm-up"
    directory.mkdir(exist_ok=True)
    nursery = Nursery(directory, None)
    try:
        kinds = sorted({spec.kind for spec in workload.specs})
        for number, kind in enumerate(kinds):
            log = directory / f"{kind}.jsonl"
            log.unlink(missing_ok=True)
            nursery.submit({"name": kind, "kind": kind, "seed": number, "size": 0.02, "log": str(log)})
        while len(nursery.ends) < len(kinds):
            nursery.news()
            time.sleep(0.05)
    finally:
        nursery.stop()
    room = _room(directory)
    ratio = speed_ratio()
    needed = sum(spec.estimate for spec in workload.specs) * ratio
    return Setting(
        specs=workload.specs,
        window_s=needed / (LOAD * room * UNIT_MILLI / 1000.0),
        epoch_s=EPOCH_S,
        unit_milli=UNIT_MILLI,
        cores=CORES,
        most_units=round(1000 / UNIT_MILLI),
    )


def _room(directory: Path) -> int:
    """Let slaqd say how many units this machine has for its jobs now."""
    daemon = Daemon(directory, "fair", EPOCH_S, UNIT_MILLI, CORES)
    try:
        time.sleep(2 * EPOCH_S)
        room = daemon.room()
    finally:
        daemon.stop()
    if room < 1:
        msg = "other processes use this whole machine: there is nothing to share out"
        raise DemoError(msg)
    return room


def _announce(setting: Setting, order: Sequence[str], out: Path, console: Console) -> None:
    _say(
        console,
        f"arrivals over {setting.window_s:.0f} s, units of {setting.unit_cores:g} core, "
        f"epoch {setting.epoch_s:g} s, {' then '.join(order)}; about {_guess(setting):.0f} minutes",
    )
    _say(console, f"configurations, logs and journals: {out}/{{{','.join(order)}}}/")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _guess(setting: Setting) -> float:
    return 2 * setting.window_s * (LOAD + 0.5) / 60.0


@contextmanager
def _shown(console: Console, part: str) -> Iterator[Callable[[LiveState], None]]:
    """Give a function that shows a state: live on a terminal, a line now and then elsewhere."""
    if not console.is_terminal:
        yield _lines(console, part)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def show(state: LiveState) -> None:
            live.update(view(msgspec.structs.replace(state, part=part)))

        yield show


def _lines(console: Console, part: str) -> Callable[[LiveState], None]:
    last = -_LINE_EVERY_S

    def show(state: LiveState) -> None:
        nonlocal last
        if state.elapsed - last >= _LINE_EVERY_S:
            last = state.elapsed
            _say(console, line(msgspec.structs.replace(state, part=part)))

    return show


def _conclude(wish: Wish, order: Sequence[str], runs: Mapping[str, Run], console: Console) -> Result:
    errors = {policy: forecast_error(wish.out / policy) for policy in runs}
    result = measure(runs, manager="local", seed=wish.seed, order=order, forecast_errors=errors)
    (wish.out / "result.json").write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    (wish.out / "report.html").write_text(render(runs, result), encoding="utf-8")
    failed = [f"{policy}: {run.error}" for policy, run in runs.items() if run.error]
    if failed:
        raise DemoError("; ".join(failed))
    console.print(table(result, runs))
    _say(console, f"{wish.out}/report.html shows it, {wish.out}/result.json has the numbers")
    return result


def forecast_error(directory: Path) -> float | None:
    """Replay the logs of a run: median relative error of the loss ten iterations ahead.

    Each curve is cut at 20, 40, 60 and 80 % of its points, with at least 8 before the
    cut and 10 after; the predictor sees only what lies before.
    """
    errors = [
        error
        for path in sorted(directory.glob("*.jsonl"))
        for error in _errors(read_log(str(path.absolute()), Tag(log=str(path), key="loss")))
    ]
    return median(errors) if errors else None


def _errors(curve: Curve) -> Iterator[float]:
    for share in _CUTS:
        cut = int(share * len(curve.losses))
        if cut < _FEWEST_BEFORE or cut + AHEAD > len(curve.losses):
            continue
        prediction = predict_curve(_before(curve, cut), [AHEAD])
        actual = curve.losses[cut - 1 + AHEAD]
        if prediction.known and actual != 0:
            yield abs(prediction.losses[0] - actual) / abs(actual)


def _before(curve: Curve, cut: int) -> Curve:
    losses = list(curve.losses[:cut])
    changes = [abs(after - before) for before, after in pairwise(losses)]
    return Curve(
        steps=curve.steps[:cut],
        losses=losses,
        seconds=curve.seconds[:cut],
        count=cut,
        first=losses[0],
        lowest=min(losses),
        largest_change=max(changes, default=0.0),
        health=Health.OK,
    )
