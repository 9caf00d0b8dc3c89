"""``read`` and ``predict``: what slaqd makes of a log, without a daemon."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slaqd.cli import EXIT_ERROR
from slaqd.cli.output import as_json, print_fields, print_json, print_table, text
from slaqd.observe import read_log
from slaqd.types import Better, Curve, Health, Tag

_log_options = (
    click.option("--key", help="The loss column, where several fit."),
    click.option("--format", "format_", help="The log's format, where it can't be told."),
    click.option(
        "--better", type=click.Choice([b.value for b in Better]), help="Which way the number should go."
    ),
)


def _with_log_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(_log_options):
        command = option(command)
    return command


def _curve(file: Path, key: str | None, format_: str | None, better: str | None) -> Curve:
    tag = Tag(log=str(file), key=key, format=format_, better=Better(better) if better else None)
    return read_log(str(file.absolute()), tag)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@_with_log_options
@as_json
def read(file: Path, key: str | None, format_: str | None, better: str | None, *, json_: bool) -> None:
    """Show the loss curve that slaqd reads from FILE."""
    curve = _curve(file, key, format_, better)
    if json_:
        print_json(curve_json(curve))
    else:
        note = f": {text(curve.note)}" if curve.note else ""
        click.echo(f"{text(curve.path)}: {curve.health.value}{note}", err=True)
        if curve.count:
            rows = list(zip(curve.steps, curve.losses, curve.seconds, strict=True))
            print_table(["STEP", "LOSS", "SECONDS"], [(k, x, t if t == t else None) for k, x, t in rows], "")  # noqa: PLR0124 - NaN differs from itself
    _exit_unless_usable(curve)


def curve_json(curve: Curve) -> dict[str, object]:
    """Turn a curve into plain values; NaN becomes null."""
    return {
        "path": curve.path,
        "health": curve.health.value,
        "note": curve.note,
        "count": curve.count,
        "largest_change": curve.largest_change,
        "steps": list(curve.steps),
        "losses": list(curve.losses),
        "seconds": [t if t == t else None for t in curve.seconds],  # noqa: PLR0124 - NaN differs from itself
    }


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--ahead", default=10, show_default=True, type=click.IntRange(min=1), help="Iterations to look ahead."
)
@_with_log_options
@as_json
def predict(
    file: Path, ahead: int, key: str | None, format_: str | None, better: str | None, *, json_: bool
) -> None:
    """Predict how the loss in FILE goes on."""
    from slaqd.predict import predict_curve  # noqa: PLC0415 - numpy is slow to load

    curve = _curve(file, key, format_, better)
    _exit_unless_usable(curve)
    prediction = predict_curve(curve, list(range(1, ahead + 1)))
    if json_:
        print_json(prediction)
        return
    if not prediction.known:
        click.echo(f"{text(curve.path)}: no prediction: {prediction.reason}", err=True)
        sys.exit(EXIT_ERROR)
    print_fields([("log", curve.path), ("points", curve.count), ("family", prediction.family)])
    print_table(
        ["STEP", "LOSS", "LOW", "HIGH"],
        zip(
            (curve.steps[-1] + ahead for ahead in prediction.ahead),
            prediction.losses,
            prediction.low,
            prediction.high,
            strict=True,
        ),
        "",
    )


def _exit_unless_usable(curve: Curve) -> None:
    if curve.health is not Health.OK:
        click.echo(f"slaqctl: {text(curve.note or curve.health.value)}", err=True)
        sys.exit(EXIT_ERROR)
