"""The live view fits its terminal and counts what it leaves out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from slaqd.report.live import LiveRow, LiveState, line, view
from slaqd.types import State


def state(running: int, waiting: int = 2, ended: int = 3) -> LiveState:
    states = [State.RUNNING] * running + [State.WAITING] * waiting + [State.ENDED] * ended
    rows = [
        LiveRow(f"job-{i:02d}", "mlp", each, i + 1 if each is State.RUNNING else 0, 0.25, 0.0123)
        for i, each in enumerate(states)
    ]
    return LiveState("slaq", 61.4, 0.38, 400, rows, "run 2 of 2")


def shown(what: LiveState, *, height: int = 24, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, no_color=True)
    console.print(view(what))
    return console.file.getvalue()  # type: ignore[attr-defined] # the StringIO above


@pytest.mark.parametrize("height", [24, 30, 50])
@pytest.mark.parametrize("running", [0, 1, 24, 60])
def test_the_view_fits_the_terminal(height: int, running: int) -> None:
    assert shown(state(running), height=height).count("\n") < height


def test_twenty_four_running_jobs_are_all_shown_where_there_is_room() -> None:
    text = shown(state(24), height=50)
    assert all(f"job-{i:02d}" in text for i in range(24))
    assert "not shown" not in text


def test_what_has_no_room_is_counted_and_is_what_holds_least() -> None:
    text = shown(state(24), height=24)
    assert "5 running jobs with fewer units not shown" in text
    assert [i for i in range(24) if f"job-{i:02d}" not in text] == [0, 1, 2, 3, 4]


def test_waiting_and_ended_jobs_are_counted_not_listed() -> None:
    text = shown(state(2))
    assert "2 running, 2 waiting, 3 ended" in text
    assert "job-02" not in text


def test_what_is_not_known_yet_is_a_dash() -> None:
    one = LiveState("fair", 1.0, 0.0, 10, [LiveRow("a", "svm", State.RUNNING, 1)])
    assert "\N{EN DASH}" in shown(one)


def test_names_are_not_taken_for_markup() -> None:
    one = LiveState("fair", 1.0, 0.0, 10, [LiveRow("[red]a", "[/]", State.RUNNING, 1)])
    assert "[red]a" in shown(one)
    assert "[/]" in shown(one)


def test_progress_past_its_ends_is_not_an_error() -> None:
    for progress in (-0.1, 1.2):
        assert "fair" in shown(LiveState("fair", 1.0, progress, 10, []))


def test_one_line_says_it_all() -> None:
    assert line(state(4)) == (
        "slaq (run 2 of 2): 61 s, 38%; 4 running, 2 waiting, 3 ended; 10 of 400 units held, "
        "most by job-03 4, job-02 3, job-01 2"
    )


def test_one_line_of_nothing_names_nobody() -> None:
    assert line(state(0, 1, 0)) == (
        "slaq (run 2 of 2): 61 s, 38%; 0 running, 1 waiting, 0 ended; 0 of 400 units held"
    )
