"""What a child of the agent does: it becomes one user, serves one item after another, and dies."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import socket
from pathlib import Path

import msgspec

from slaqd.agent import files
from slaqd.agent.become import User, become
from slaqd.agent.files import OwnersReader
from slaqd.agent.protocol import (
    KEEP,
    ClosedError,
    Done,
    Failed,
    Gave,
    Item,
    Put,
    Read,
    Result,
    pack,
    receive,
    send,
)
from slaqd.observe import Log
from slaqd.text import show
from slaqd.types import Health

MOST_STATE = 512 * 1024
"""Bytes that are remembered of one log from child to child."""
MEMORY = 64 * 1024 * 1024
"""Bytes that a child may take on top of what it begins with: of any log it reads little at a time."""
FAILED_DROP = 77
"""Exit status of a child that could not become the user, sysexits(3) ``EX_NOPERM``."""

_FAULT = "a fault of slaqd's own in reading this log"
_TOO_MUCH = "has too many columns or too long lines to be followed"


def live(user: User, sock: socket.socket, life_s: float) -> None:
    """Be this child, from its first step to its exit; never returns.

    The alarm is set while it can still not be touched by the user. One that the user has
    stopped doesn't hear it, and is ended by the forker.
    """
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, life_s)
        _bound(life_s)
        become(user)
    except BaseException:  # noqa: BLE001 - whatever it is, it must not go on as root
        os._exit(FAILED_DROP)
    try:
        _serve(sock)
    except (ClosedError, OSError):
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a fault here must not run the forker's code
        os._exit(os.EX_SOFTWARE)
    os._exit(0)


def _bound(life_s: float) -> None:
    seconds = max(1, round(life_s) + 1)
    begun = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    for what, most in (
        (resource.RLIMIT_AS, begun + MEMORY),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, files.MOST),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _serve(sock: socket.socket) -> None:
    while True:
        send(sock, _answer(receive(sock, Item)))


def _answer(item: Item) -> Result:
    try:
        return _do(item)
    except OSError as error:
        return Failed(error.errno or 0, error.strerror or str(error))
    except MemoryError:
        return Failed(errno.ENOMEM, "takes more memory to read than there is for one log")
    except Exception:  # noqa: BLE001 - one odd log must not cost this user's others
        return Failed(0, _FAULT)


def _do(item: Item) -> Result:
    if isinstance(item, Read):
        return read(item)
    if isinstance(item, Put):
        files.put(item.uid, item.root, item.path, item.text)
        return Gave()
    return Gave(files.get(item.uid, item.root, item.path))


def read(item: Read) -> Done:
    """Read what is new of one log. The state was made by a child of the same user, and no other sees it."""
    source = item.source
    if item.state:
        log = pickle.loads(item.state)  # noqa: S301 - see above: whoever made it had no other rights
        if not isinstance(log, Log):
            raise TypeError(log)
    else:
        log = Log(source.path, source.tag, OwnersReader(source.uid, source.root), keep=KEEP)
    curve = log.poll(item.now)
    state = pickle.dumps(log, pickle.HIGHEST_PROTOCOL)
    if len(state) > MOST_STATE:  # to begin anew each time would be no reading either
        odd = msgspec.structs.replace(
            curve, health=Health.UNREADABLE, note=f"{show(curve.path)}: {_TOO_MUCH}"
        )
        return Done(pack(odd), b"", again=False)
    return Done(pack(curve), state, again=log.unsettled)
