"""Every command of slaqctl that talks to a slaqd, called once: for tests of a slaqd that can't answer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click
from living import PATIENCE_S, SLAQCTL, Slaqd

from slaqd.cli import slaqctl

WORDS: Mapping[str, Sequence[str]] = {
    "run": ("run", "--", "/bin/sh", "-c", "exit 9"),
    "adopt": ("adopt", "{leader}"),
    "jobs": ("jobs",),
    "show": ("show", "1"),
    "plan": ("plan",),
    "status": ("status",),
    "history": ("history",),
    "pause": ("pause",),
    "resume": ("resume",),
    "restore": ("restore", "--all"),
    "drop": ("drop", "1"),
    "doctor": ("doctor",),
}
ALONE = frozenset({"restore", "drop"})
"""These hold the state directory where no slaqd does: two at once would be in each other's way."""

Said = tuple[int, str]
"""How a command ends, and what stands in its words."""


def talking() -> set[str]:
    """Name the commands that can be told which slaqd to talk to."""
    context = click.Context(slaqctl)
    commands = {name: slaqctl.get_command(context, name) for name in slaqctl.list_commands(context)}
    return {
        name
        for name, command in commands.items()
        if command is not None and any(each.name == "socket" for each in command.params)
    }


def call_all(slaqd: Slaqd, before: str = "") -> dict[str, Said]:
    """Call every command as a program, with Python text that runs ``before`` it; give how each ended."""
    program = [*SLAQCTL[:2], f"{before}\n{SLAQCTL[2]}"]
    with leader() as group:
        words = {name: [*program, *words_of(slaqd, said, group)] for name, said in WORDS.items()}
        together = {name: _start(slaqd, words[name]) for name in WORDS if name not in ALONE}
        seen = {name: _end(started) for name, started in together.items()}
        return seen | {name: _end(_start(slaqd, words[name])) for name in sorted(ALONE)}


def check_all(seen: Mapping[str, Said], usual: Said, others: Mapping[str, Said]) -> None:
    """Fail where a command did not end as it should: as ``usual``, if ``others`` doesn't say how."""
    wanted = {name: others.get(name, usual) for name in WORDS}
    assert {name: status for name, (status, _) in seen.items()} == {
        name: status for name, (status, _) in wanted.items()
    }, seen
    wrong = {name: seen[name][1] for name, (_, words) in wanted.items() if words not in seen[name][1]}
    assert wrong == {}
    assert not any("Traceback" in words for _, words in seen.values()), seen


@contextmanager
def leader() -> Iterator[str]:
    """Give the number of a living process group; ``{leader}`` stands for it in `WORDS`."""
    with subprocess.Popen(["sleep", "3600"], process_group=0) as process:
        yield str(process.pid)
        process.kill()


def words_of(slaqd: Slaqd, said: Sequence[str], group: str) -> list[str]:
    """Give a command's words, with the configuration that says which slaqd is meant."""
    rest = [group if word == "{leader}" else word for word in said[1:]]
    return [said[0], "--config", str(slaqd.config), *rest]


def _start(slaqd: Slaqd, words: Sequence[str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=slaqd.env)


def _end(started: subprocess.Popen[str]) -> Said:
    out, _ = started.communicate(timeout=PATIENCE_S)
    return started.returncode, out
