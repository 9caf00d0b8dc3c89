"""The tree of errors: the drawing at its top is the tree."""

from __future__ import annotations

import inspect
import re

import pytest

from slaqd import errors
from slaqd.cli import exit_status
from slaqd.daemon.command import EX_CONFIG, EX_IOERR, EX_TEMPFAIL, status_of


def drawn() -> dict[str, str | None]:
    """Read the tree out of the module's docstring: each name with the one it stands under."""
    stack: list[tuple[int, str]] = []
    tree: dict[str, str | None] = {}
    for line in (errors.__doc__ or "").splitlines():
        name = re.search(r"[A-Z][A-Za-z]+", line)
        if name is None or not re.fullmatch(r"[│├└─ ]*", line[: name.start()]) or line.startswith("The "):
            continue
        while stack and stack[-1][0] >= name.start():
            stack.pop()
        tree[name[0]] = stack[-1][1] if stack else None
        stack.append((name.start(), name[0]))
    return tree


def test_the_drawing_shows_every_error_under_its_base() -> None:
    classes = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.SlaqdError)
    }
    bases = {
        name: kind.__base__.__name__ if kind.__base__ is not Exception else None
        for name, kind in classes.items()
        if kind.__base__ is not None
    }
    assert drawn() == bases


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.DaemonUnreachable("x"), 4),
        (errors.NotPermitted("x"), 5),
        (errors.ControlError("not_found", "x"), 3),
        (errors.ControlError("refused", "x"), 1),
        (errors.ConfigError("x"), 1),
    ],
)
def test_slaqctl_tells_scripts_what_kind_of_failure_it_was(error: errors.SlaqdError, status: int) -> None:
    assert exit_status(error) == status


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConfigError("x"), EX_CONFIG),
        (errors.AlreadyRunning("x"), EX_TEMPFAIL),
        (errors.StateError("x"), EX_IOERR),
        (errors.StateRefused("x"), EX_CONFIG),
        (errors.AdapterUnavailable("x"), 1),
    ],
)
def test_slaqd_ends_with_the_statuses_of_sysexits(error: errors.SlaqdError, status: int) -> None:
    assert status_of(error) == status
    assert (EX_CONFIG, EX_TEMPFAIL, EX_IOERR) == (78, 75, 74)


def test_a_control_error_carries_its_word() -> None:
    assert errors.ControlError("refused", "no").code == "refused"
    assert errors.DaemonUnreachable("no").code == "unreachable"
    assert errors.NotPermitted("no").code == "not_permitted"
    assert str(errors.NotPermitted("not yours")) == "not yours"
