"""Where the numbers can be read: on a local address, on a unix socket, in a file for node_exporter.

Nothing here can hold up the loop: it only sets an event, a thread of the exporter's own does the rest. What
can't be opened or written is a warning, and is tried again after the next cycle.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from slaqd.config import Config, place
from slaqd.daemon.scrape import Address, Scrapes
from slaqd.daemon.view import View
from slaqd.errors import ConfigError
from slaqd.sockets import LONGEST

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_JOIN_S = 2.0
_PORT = re.compile(r"[0-9]{1,5}")
_PORTS = range(1, 65_536)

log = structlog.get_logger("slaqd")


@dataclass(frozen=True)
class Places:
    """Where the numbers are to be found; None means not there."""

    address: Address | None = None
    textfile: Path | None = None


def places(config: Config) -> Places:
    """Understand ``[metrics]``.

    Raises
    ------
    ConfigError
        An address that is none or that other machines can reach, a path that is not
        absolute, or numbers wanted without the library that writes them.

    """
    section = config.metrics
    if not (section.listen or section.textfile):
        return Places()
    key = "listen" if section.listen else "textfile"
    try:
        address = parse_address(section.listen) if section.listen else None
        key = "textfile" if section.textfile else key
        textfile = _textfile(section.textfile) if section.textfile else None
        import_module("prometheus_client")
    except ImportError as error:
        msg = f"{place(config, 'metrics', key)}: needs a package more: pip install prometheus-client"
        raise ConfigError(msg) from error
    except ValueError as error:
        msg = f"{place(config, 'metrics', key)}: {error}"
        raise ConfigError(msg) from error
    return Places(address, textfile)


def parse_address(text: str) -> Address:
    """Turn ``HOST:PORT`` or ``unix:PATH`` into an address; ValueError with the reason if it isn't local."""
    if text.startswith("unix:"):
        path = _absolute(text.removeprefix("unix:"))
        if len(os.fsencode(path)) > LONGEST:
            raise ValueError(f"the path of a socket has at most {LONGEST} bytes (unix(7))")
        return Address(path=path)
    host, colon, port = text.rpartition(":")
    if not (colon and _PORT.fullmatch(port) and int(port) in _PORTS):
        raise ValueError(f"{text!r} is neither HOST:PORT nor unix:/PATH")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ValueError(
            f"{text!r} is not an address of this machine alone: the whole network could read it, without a"
            " password; use 127.0.0.1, [::1], unix: or textfile, and a proxy for the rest"
        )
    return Address(host=host, port=int(port))


def _textfile(text: str) -> Path:
    if not text.endswith(".prom"):
        raise ValueError(f"{text!r} must end in .prom: node_exporter reads no other file")
    return _absolute(text)


def _absolute(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise ValueError(f"{text!r} is not an absolute path")
    return path


class Exporter:
    """Shows the last view wherever the configuration says, until closed.

    Parameters
    ----------
    config, look
        Give the configuration in use, whose section ``[metrics]`` says where, and the
        loop's last view; called in other threads too.
    listen
        False leaves the address alone, for a daemon that does a single cycle.

    Raises
    ------
    ConfigError
        As `places` does.

    """

    def __init__(
        self, config: Callable[[], Config], look: Callable[[], View], *, listen: bool = True
    ) -> None:
        where = places(config())
        self._address = where.address if listen else None
        self._textfile = where.textfile
        self._scrapes: Scrapes | None = None
        self._news, self._closing, self._stays = threading.Event(), False, False
        self._thread: threading.Thread | None = None
        if self._address or self._textfile:
            from slaqd.daemon.metrics import registry  # noqa: PLC0415 - its library need not be installed

            self._registry = registry(config, look)
            self._open()
            self._thread = threading.Thread(target=self._work, daemon=True, name="metrics")
            self._thread.start()

    def tell(self) -> None:
        """Say that the view is new. Never waits."""
        self._news.set()

    def close(self, *, stays: bool = False) -> None:
        """Stop showing. The file goes too, for its numbers are no longer true, unless it ``stays``."""
        self._closing, self._stays = True, stays
        self._news.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        if self._scrapes is not None:
            self._scrapes.close()

    def _work(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            closing = self._closing
            if not closing:
                self._open()
            if self._textfile is not None:
                self._refresh(self._textfile, remove=closing and not self._stays)
            if closing:
                return

    def _open(self) -> None:
        if self._address is None or self._scrapes is not None:
            return
        try:
            self._scrapes = Scrapes(self._address, self._registry)
        except OSError as error:
            why = error.strerror or str(error)
            log.warning("no metrics: the address can't be used", listen=str(self._address), error=why)

    def _refresh(self, path: Path, *, remove: bool) -> None:
        try:
            if remove:
                path.unlink(missing_ok=True)
            else:
                write(path, self._registry)
        except OSError as error:
            log.warning(
                "the metrics file can't be written", path=str(path), error=error.strerror or str(error)
            )
        except Exception:  # a fault here must not end the thread: the next cycle's numbers may be fine
            log.exception("a fault in the metrics")


def write(path: Path, registry: CollectorRegistry) -> None:
    """Replace a file by the numbers as they are, whole or not at all; everybody may read it.

    The directory may belong to others: what is new is made beside the old under a name that node_exporter
    doesn't read, and never through a link. Raises OSError.
    """
    from prometheus_client import generate_latest  # noqa: PLC0415 - as above

    data = generate_latest(registry)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with open(made, "wb") as file:  # noqa: PTH123 - a descriptor
            os.fchmod(made, 0o644)
            file.write(data)
            file.flush()
            os.fsync(made)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
