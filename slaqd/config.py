"""TOML to frozen structs. An unknown key is an error that names file, line and key."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from slaqd.errors import ConfigError
from slaqd.sockets import LONGEST
from slaqd.types import Mode, Struct

S = TypeVar("S", bound=msgspec.Struct)

LARGEST = 1 << 20
"""Bytes that a configuration may have."""

Seconds = Annotated[float, msgspec.Meta(ge=0.05, le=86_400.0)]


class SlaqdSection(Struct, frozen=True):
    """``[slaqd]``: what the daemon is and where it keeps its things.

    ``epoch_s`` is both the time between two cycles and the time that the forecast
    looks ahead. ``state_dir`` and ``socket`` have defaults that depend on the user
    (see `default_places`). Members of ``admin_group`` may do what root may.
    """

    mode: Mode = Mode.OBSERVE
    adapter: str = "local"
    epoch_s: Seconds = 3.0
    state_dir: str = ""
    socket: str = ""
    admin_group: str = ""


class PolicySection(Struct, frozen=True):
    """``[policy]``: how units are split; ``name`` is a key of `slaqd.allocate.POLICIES`."""

    name: str = "slaq"


class EnforceSection(Struct, frozen=True):
    """``[enforce]``: whose jobs slaqd may act on; all three empty means nobody's but its own user's.

    A job is acted on where its pool, its account or its user is named.
    """

    pools: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class MetricsSection(Struct, frozen=True):
    """``[metrics]``: where Prometheus finds slaqd's numbers; both empty means nowhere.

    ``listen`` is ``HOST:PORT`` of this machine alone or ``unix:PATH``, ``textfile`` a
    file for node_exporter's textfile collector.
    """

    listen: str = ""
    textfile: str = ""


class AgentSection(Struct, frozen=True):
    """``[agent]``: how users' files are reached where slaqd serves several users.

    ``socket`` is where slaqd asks its agent; empty means that there is none, and slaqd
    serves the user that it runs as. ``user`` may ask it, beside root; nothing is done
    for users below ``least_uid``.
    """

    socket: str = ""
    user: str = "slaqd"
    least_uid: Annotated[int, msgspec.Meta(ge=1)] = 1000


class Config(Struct, frozen=True):
    """A whole configuration; ``adapter`` holds one raw section per adapter."""

    slaqd: SlaqdSection = SlaqdSection()
    policy: PolicySection = PolicySection()
    enforce: EnforceSection = EnforceSection()
    metrics: MetricsSection = MetricsSection()
    agent: AgentSection = AgentSection()
    adapter: Mapping[str, Mapping[str, Any]] = {}
    path: str = ""
    text: str = ""


class Places(Struct, frozen=True):
    """Where things are kept when nothing else is said."""

    config: Path
    state_dir: Path
    socket: Path


def default_places(environ: Mapping[str, str], uid: int) -> Places:
    """Give the service's places to root, the XDG ones to everybody else.

    Directories that systemd made for the service (systemd.exec(5), ``STATE_DIRECTORY``) come
    first. Without ``XDG_RUNTIME_DIR`` (no login session) the socket lies with the state, which
    only its owner can enter.
    """
    if uid == 0:
        return Places(
            config=Path("/etc/slaqd/slaqd.toml"),
            state_dir=Path(environ.get("STATE_DIRECTORY", "/var/lib/slaqd")),
            socket=Path(environ.get("RUNTIME_DIRECTORY", "/run/slaqd")) / "slaqd.sock",
        )
    home = Path(environ.get("HOME") or "~").expanduser()
    state = Path(environ.get("XDG_STATE_HOME") or home / ".local/state") / "slaqd"
    state = Path(environ.get("STATE_DIRECTORY", state))
    runtime = environ.get("XDG_RUNTIME_DIR")
    service = environ.get("RUNTIME_DIRECTORY")
    return Places(
        config=Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "slaqd" / "slaqd.toml",
        state_dir=state,
        socket=Path(service or (Path(runtime) / "slaqd" if runtime else state)) / "slaqd.sock",
    )


def load_config(path: Path | None = None) -> Config:
    """Read a configuration, or the default one if there is any.

    Parameters
    ----------
    path
        The file; None means the default place, where nothing is also fine.

    Raises
    ------
    ConfigError
        The file can't be read, is no regular file, is too large, is not TOML, or says
        something slaqd doesn't know.
        The text names the file, the line and the key.

    """
    places = default_places(os.environ, os.geteuid())
    where = path or places.config
    try:
        text = _content(where).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if path is None and isinstance(error, FileNotFoundError | NotADirectoryError):
            return _settled(Config(), places)
        msg = f"{where}: can't be read: {_reason(error)}"
        raise ConfigError(msg) from error
    return _settled(parse_config(text, str(where)), places)


def _content(path: Path) -> bytes:
    """Read a regular file whole; ConfigError where it is another or too large. A pipe isn't waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{path}: can't be read: it is no regular file")
            data = file.read(LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise ConfigError(f"{path}: can't be read: it has more than {LARGEST >> 10} KiB")
    return data


def parse_config(text: str, path: str) -> Config:
    """Turn TOML text into a configuration. Raises `ConfigError` as `load_config` does."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        msg = f"{path}: not TOML: {error}"
        raise ConfigError(msg) from error
    for key in ("path", "text"):
        if key in raw:
            msg = f"{path}:{_line(text, (), key)}: unknown key {key!r}"
            raise ConfigError(msg)
    sections = raw.get("adapter", {})
    for name, section in sections.items() if isinstance(sections, dict) else ():
        if not isinstance(section, dict):
            line = _line(text, ("adapter",), name)
            msg = f"{path}:{line}: adapter.{name}: expected a table [adapter.{name}]"
            raise ConfigError(msg)
    config = _convert(raw, Config, text, path, ())
    return msgspec.structs.replace(config, path=path, text=text)


def adapter_config(config: Config, name: str, kind: type[S]) -> S:
    """Give the section ``[adapter.NAME]`` as that adapter's own struct."""
    raw = dict(config.adapter.get(name, {}))
    return _convert(raw, kind, config.text, config.path, ("adapter", name))


def place(config: Config, *keys: str) -> str:
    """Say where a key stands, for messages: file, line and the key's full name."""
    where = f"{config.path}:{_line(config.text, keys[:-1], keys[-1])}" if config.path else "the defaults"
    return f"{where}: {'.'.join(keys)}"


def stop_file(config: Config) -> Path:
    """Tell which file, by being there, halts every act: ``stop`` beside the configuration."""
    used = Path(config.path) if config.path else default_places(os.environ, os.geteuid()).config
    return used.absolute().parent / "stop"


def _settled(config: Config, places: Places) -> Config:
    section = msgspec.structs.replace(
        config.slaqd,
        state_dir=_absolute(config, "state_dir", places.state_dir),
        socket=_absolute(config, "socket", places.socket),
    )
    settled = msgspec.structs.replace(config, slaqd=section)
    check_sockets(settled)
    return settled


def check_sockets(config: Config) -> None:
    """Look whether each socket can be made where it is said to be, and all of them together.

    Raises
    ------
    ConfigError
        One can't, or two are one. The text names the file, the line and the key.

    """
    named = {("slaqd", "socket"): config.slaqd.socket, ("agent", "socket"): config.agent.socket}
    if config.metrics.listen.startswith("unix:"):
        named["metrics", "listen"] = config.metrics.listen.removeprefix("unix:")
    seen: dict[str, tuple[str, ...]] = {}
    for keys, text in named.items():
        if not text:
            continue
        if why := _no_socket(text):
            raise ConfigError(f"{place(config, *keys)}: {text!r} {why}")
        other = seen.setdefault(os.path.realpath(text), keys)
        if other != keys:
            raise ConfigError(f"{place(config, *keys)}: is the same as {'.'.join(other)}; choose another")


def _no_socket(text: str) -> str:
    if "\0" in text or not Path(text).is_absolute():
        return "is not an absolute path"
    if len(os.fsencode(text)) > LONGEST:
        return f"is too long: the path of a socket has at most {LONGEST} bytes (unix(7))"
    with suppress(OSError):  # who serves there may be able to look
        return "is a directory; name a socket in it" if Path(text).is_dir() else ""
    return ""


def _absolute(config: Config, key: str, default: Path) -> str:
    if "\0" in getattr(config.slaqd, key):
        raise ConfigError(f"{place(config, 'slaqd', key)}: has a NUL in it: no path has")
    try:
        return str(Path(getattr(config.slaqd, key) or default).expanduser().absolute())
    except RuntimeError as error:  # ~name of a user who isn't there
        msg = f"{place(config, 'slaqd', key)}: {error}"
        raise ConfigError(msg) from error


def _convert(raw: dict[str, Any], kind: type[S], text: str, path: str, base: tuple[str, ...]) -> S:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), kind, text, path, base)) from error


_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`")
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_INDEX = re.compile(r"\[[^\]]*\]")
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")
_HEADER = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]")


def _explain(message: str, kind: type[msgspec.Struct], text: str, path: str, base: tuple[str, ...]) -> str:
    where = _AT.search(message)
    plain = _INDEX.sub("", where["path"]) if where else ""
    inside = tuple(part for part in plain.split(".") if part)
    unknown = _UNKNOWN.search(message)
    if unknown:
        line = _line(text, base + inside, unknown["field"])
        known = ", ".join(_fields(kind, inside))
        return f"{path}:{line}: unknown key {unknown['field']!r} in {_table(base + inside)}; known: {known}"
    *tables, key = base + inside or ("",)
    line = _line(text, tuple(tables), key)
    return f"{path}:{line}: {'.'.join(base + inside)}: {_AT.sub('', message)}"


def _fields(kind: type[msgspec.Struct], inside: tuple[str, ...]) -> list[str]:
    for part in inside:
        kind = msgspec.structs.fields(kind)[kind.__struct_fields__.index(part)].type
    return [name for name in kind.__struct_fields__ if name not in ("path", "text")]


def _table(parts: tuple[str, ...]) -> str:
    return f"[{'.'.join(parts)}]" if parts else "the file"


def _line(text: str, tables: tuple[str, ...], key: str) -> int:
    """Find the line of a key, or of the inline table around it: tomllib doesn't keep it."""
    wanted, table = (*tables, key), tuple[str, ...]()
    depth, nearest = 0, 1
    for number, line in enumerate(text.splitlines(), start=1):
        header, left = _HEADER.match(line), _KEY.match(line)
        if header:
            here = table = _parts(header[1])
        elif left:
            here = table + _parts(left[1])
        else:
            continue
        if here[: len(wanted)] == wanted:
            return number
        if len(here) > depth and wanted[: len(here)] == here:
            depth, nearest = len(here), number
    return nearest


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
