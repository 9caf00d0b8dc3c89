"""Looks at the places and the clock that slaqd depends on; changes nothing."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import time
from collections.abc import Callable, Collection
from pathlib import Path

from slaqd.clock import Clock
from slaqd.config import Config, place
from slaqd.daemon.others import ANY, WRITE, others_may
from slaqd.daemon.state import network_below
from slaqd.sockets import LONGEST
from slaqd.types import Finding, Severity

_MIB = 1 << 20
_LITTLE, _TOO_LITTLE = 64 * _MIB, 4 * _MIB
_JUMP_S = 2.0
_LONG_AGO = 1_577_836_800.0  # 2020: a clock before that was never set


def of_state(directory: Path) -> list[Finding]:
    """Look at the state directory: is it there, ours, shut to others, on a disk of this machine with room."""
    kind = network_below(directory)
    if kind is not None:  # as the start judges, also of one that isn't there yet
        what = f"{directory}: on a network file system ({kind})"
        return [_error(what, "set [slaqd] state_dir to a disk of this machine")]
    try:
        seen = directory.stat()
    except FileNotFoundError:
        return [_warning(f"{directory}: the state directory is not there yet", "slaqd makes it at its start")]
    except OSError as error:
        return [_error(f"{directory}: the state directory can't be looked at: {error.strerror}", _AS_OWNER)]
    if not stat.S_ISDIR(seen.st_mode):
        return [_error(f"{directory}: no directory", "set [slaqd] state_dir to one of slaqd's own")]
    return [*_ownership(directory, seen), *_disk(directory)]


def of_socket(path: Path) -> list[Finding]:
    """Look at the place of the control socket."""
    if len(os.fsencode(path)) > LONGEST:
        return [_error(f"{path}: too long for a socket", "set [slaqd] socket to a shorter path")]
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        return [_error(f"{path}: the control socket can't be looked at: {error.strerror}", _AS_OWNER)]
    if not stat.S_ISSOCK(mode):
        return [_error(f"{path}: no socket", "move it away, or set [slaqd] socket to another path")]
    return [_ok(f"{path}: the control socket, mode {stat.S_IMODE(mode):04o}")]


def of_config(config: Config) -> list[Finding]:
    """Look at who can change the configuration, and with it what slaqd does."""
    if not config.path:
        return [_ok("no configuration file: the defaults hold")]
    path = Path(config.path).absolute()
    real = Path(os.path.realpath(path))
    # Who can change a directory on the way can put another file there. Links are judged, and what they name.
    on_the_way = dict.fromkeys([*reversed(path.parents), path, *reversed(real.parents), real])
    found = [finding for each in on_the_way for finding in _changeable(each)]
    return found or [_ok(f"{path}: the configuration is good, and only its owner can change it")]


def _changeable(path: Path) -> list[Finding]:
    try:
        seen = path.lstat()
    except OSError as error:
        return [_error(f"{path}: can't be looked at: {error.strerror}", _AS_OWNER)]
    if seen.st_uid not in (0, os.geteuid()):
        what = f"{path}: belongs to uid {seen.st_uid}, who can change what slaqd does"
        return [_error(what, f"chown root {path}")]
    # A sticky directory lets nobody replace what belongs to root or to slaqd, as all on the way must.
    sticky = stat.S_ISDIR(seen.st_mode) and seen.st_mode & stat.S_ISVTX
    if sticky or stat.S_ISLNK(seen.st_mode) or not others_may(WRITE, seen, path):
        return []
    what = f"{path}: others can change it (mode {stat.S_IMODE(seen.st_mode):04o})"
    return [_error(what, f"chmod go-w {path}")]


def of_names(config: Config) -> list[Finding]:
    """Look whether the configuration names groups and users that this machine knows."""
    group = config.slaqd.admin_group
    found = []
    if group and not _known(grp.getgrnam, group):
        what = f"{place(config, 'slaqd', 'admin_group')}: no group is called {group!r} here"
        found.append(_warning(what, "mend the name, or make the group: nobody is an admin by it"))
    for user in config.enforce.users:
        if not _known(pwd.getpwnam, user):
            what = f"{place(config, 'enforce', 'users')}: no user is called {user!r} here"
            found.append(_warning(what, "mend the name: no job is acted on for it"))
    return found


def _known(look: Callable[[str], object], name: str) -> bool:
    try:
        look(name)
    except (KeyError, ValueError):  # the second: a NUL in it
        return False
    return True


def of_pools(config: Config, pools: Collection[str]) -> list[Finding]:
    """Look whether the manager has the pools that the configuration names; ``pools`` are those it has."""
    known = ", ".join(sorted(pools))
    return [
        _warning(
            f"{place(config, 'enforce', 'pools')}: the manager has no pool {pool!r}; it has: {known}",
            "mend the name: no job is acted on for it",
        )
        for pool in config.enforce.pools
        if pool not in pools
    ]


def of_stop(halted: str) -> list[Finding]:
    """Say what halts every act, where anything does (`slaqd.daemon.brakes.halted`)."""
    return [_warning(f"every act is {halted}", "remove it to go on")] if halted else []


def of_clock(clock: Clock, zero: float | None = None) -> list[Finding]:
    """Look at the clocks; ``zero`` is the wall time less the monotonic one as they were at the start."""
    before, wall, after = clock.monotonic(), clock.wall(), clock.monotonic()
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(max(wall, 0.0)))
    if wall < _LONG_AGO:
        return [_error(f"the wall clock says {shown} UTC: it was never set", "set the clock: timedatectl")]
    if after < before:
        return [_error("the monotonic clock went back", "look at the machine: no plan can be trusted")]
    jump = 0.0 if zero is None else wall - (zero + after)
    if abs(jump) > _JUMP_S:
        what = f"the wall clock was set by {jump:+.0f} s since slaqd started"
        return [_warning(what, "nothing: durations don't follow it, only times that are shown do")]
    return [_ok(f"the wall clock says {shown} UTC")]


def _ownership(directory: Path, seen: os.stat_result) -> list[Finding]:
    found = []
    if seen.st_uid != os.geteuid():
        what = f"{directory}: belongs to uid {seen.st_uid}, this is uid {os.geteuid()}"
        do = f"run slaqd as uid {seen.st_uid}, or: chown -R {os.geteuid()} {directory}"
        found.append(_warning(what, do) if os.geteuid() == 0 else _error(what, do))
    if others_may(WRITE, seen, directory):
        what = f"{directory}: others can change the state (mode {stat.S_IMODE(seen.st_mode):04o})"
        found.append(_error(what, f"chmod 700 {directory}"))
    elif others_may(ANY, seen, directory):
        what = f"{directory}: open to others (mode {stat.S_IMODE(seen.st_mode):04o})"
        found.append(_warning(what, f"chmod 700 {directory}"))
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        found.append(
            _error(
                f"{directory}: can't be written",
                "look at its mode, and whether its disk is mounted read-only",
            )
        )
    return found or [_ok(f"{directory}: the state directory is slaqd's own")]


def _disk(directory: Path) -> list[Finding]:
    room = os.statvfs(directory)
    free = room.f_bavail * room.f_frsize
    what = f"{directory}: {free // _MIB} MiB are free on its disk"
    if free < _TOO_LITTLE:
        return [_error(what, "make room: slaqd only observes while it can't write")]
    return [_warning(what, "make room before slaqd can't write") if free < _LITTLE else _ok(what)]


_AS_OWNER = "ask as root, or as the user that slaqd runs as"


def _ok(what: str) -> Finding:
    return Finding(Severity.OK, what)


def _warning(what: str, do: str) -> Finding:
    return Finding(Severity.WARNING, what, do)


def _error(what: str, do: str) -> Finding:
    return Finding(Severity.ERROR, what, do)
