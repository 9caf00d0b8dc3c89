"""The agent as a program: its socket, who may ask, and its end when it is broken."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from slaqd.adapter import Hands, load_hands
from slaqd.agent.forker import Forker
from slaqd.agent.protocol import ClosedError, Request, receive, send
from slaqd.agent.session import Hangs, Session
from slaqd.config import Config, adapter_config, check_sockets, place
from slaqd.errors import AgentUnavailable, ConfigError
from slaqd.notify import Notify
from slaqd.sockets import bound, make_way

MOST_AT_ONCE = 4
"""Connections; slaqd needs one, ``slaqctl doctor`` another."""
STUCK_S, FEED_S = 30.0, 10.0
"""No answer takes longer than the first: slaqd waits half of it. So often at least the watchdog is fed."""

_FIRST_PASSED = 3  # sd_listen_fds(3)
_CRED = struct.Struct("3i")

log = structlog.get_logger("slaqd")


def serve(config: Config) -> None:
    """Serve until the process is ended. Raises `SlaqdError` where it can't start.

    The forker is made first: it must have neither threads nor anything of a user's.
    """
    allowed = _allowed(config)
    forker = Forker()
    section = config.slaqd
    make = load_hands(section.adapter)
    hands: Hands | None = None
    if make is not None:
        hands = make(adapter_config(config, section.adapter, make.Config), config.agent.least_uid)
    hangs, notify = Hangs(), Notify()
    with _listener(config) as listener:
        log.info("slaqd-agent serves", socket=str(listener.getsockname()), least_uid=config.agent.least_uid)
        notify.ready()
        door = Door(allowed, lambda: Session(forker, config.agent.least_uid, hands, hangs))
        listener.settimeout(notify.often_s(FEED_S))
        while True:
            with suppress(TimeoutError):
                door.let_in(listener.accept()[0])
            if not door.hangs(time.monotonic()):
                notify.cycle(f"conversations: {len(door.talks)}")


def _allowed(config: Config) -> frozenset[int]:
    """Name the uids that may ask: slaqd's own, and root's."""
    try:
        return frozenset({0, pwd.getpwnam(config.agent.user).pw_uid})
    except KeyError as error:
        msg = f"{place(config, 'agent', 'user')}: no user is called {config.agent.user!r}"
        raise ConfigError(msg) from error


def _listener(config: Config) -> socket.socket:
    """Take the socket that systemd made (sd_listen_fds(3)), else make one."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()):
        return socket.socket(fileno=_FIRST_PASSED)
    check_sockets(config)
    path = config.agent.socket
    if not path:
        msg = f"{place(config, 'agent', 'socket')}: is empty: say where slaqd-agent is to be asked"
        raise ConfigError(msg)
    try:
        make_way(Path(path))
        listener = bound(Path(path), closed=0o177)
        with suppress(PermissionError, KeyError):  # else it is root's alone
            os.chown(path, pwd.getpwnam(config.agent.user).pw_uid, -1)
        listener.listen()
    except OSError as error:
        msg = f"{path}: the agent's socket can't be made: {error.strerror or error}"
        raise ConfigError(msg) from error
    return listener


class Door:
    """Who is in: a conversation a thread, of slaqd's and root's alone.

    Parameters
    ----------
    allowed
        The uids that may come in.
    begin
        Makes the session of a conversation.

    """

    def __init__(self, allowed: frozenset[int], begin: Callable[[], Session]) -> None:
        self._allowed = allowed
        self._begin = begin
        self.talks: dict[int, Talk] = {}

    def let_in(self, sock: socket.socket) -> None:
        """Converse with whoever knocks, or hang up."""
        sock.settimeout(None)
        uid = _CRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CRED.size))[1]
        if uid not in self._allowed:
            log.warning("not slaqd: sent away", uid=uid)
            sock.close()
        elif sum(not talk.is_over for talk in list(self.talks.values())) >= MOST_AT_ONCE:
            log.warning("too many conversations: sent away", uid=uid)
            sock.close()
        else:
            talk = Talk(sock, self._begin(), self.talks)
            self.talks[id(talk)] = talk
            talk.start()

    def hangs(self, now: float) -> bool:
        """Tell whether an answer has been under way for longer than any may take."""
        return any(talk.since and now - talk.since > STUCK_S for talk in list(self.talks.values()))


class Talk(threading.Thread):
    """One conversation, in ``all_`` until it ends; ``since`` is when its answer began, 0 while it listens."""

    def __init__(self, sock: socket.socket, session: Session, all_: dict[int, Talk]) -> None:
        super().__init__(daemon=True)
        self.since = 0.0
        self._sock, self._session, self._all = sock, session, all_

    @property
    def is_over(self) -> bool:
        """Tell whether the other side has hung up after its last answer; this thread may not know it yet."""
        if self.since:
            return False
        try:
            return not self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def run(self) -> None:
        """See `threading.Thread.run`."""
        try:
            with self._sock:
                self._converse()
        except ClosedError:
            return
        except AgentUnavailable as error:
            log.critical("slaqd-agent ends: it can't change identity or fork", error=str(error))
            _end()
        except OSError as error:
            log.warning("a connection ended", error=str(error))
        except BaseException:
            log.exception("slaqd-agent ends: a fault of its own")
            _end()
        finally:
            self._all.pop(id(self), None)

    def _converse(self) -> None:
        while True:
            request = receive(self._sock, Request)
            self.since = time.monotonic()
            answer = self._session.answer(request)
            self.since = 0.0
            send(self._sock, answer)


def _end() -> None:
    """End the whole process from a thread; systemd starts another one."""
    sys.stderr.flush()
    os._exit(os.EX_SOFTWARE)
