"""The numbers where the site wants them, and a loop that doesn't notice."""

from __future__ import annotations

import http.client
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from living import wait_for
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from put_together import Daemon
from structlog.testing import capture_logs

from slaqd.config import Config, MetricsSection, SlaqdSection
from slaqd.daemon import scrape
from slaqd.daemon.exporter import Exporter
from slaqd.daemon.metrics import registry
from slaqd.daemon.scrape import Address, Scrapes
from slaqd.daemon.view import View


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def get(
    where: Address, path: str = "/metrics", method: str = "GET", accept: str = ""
) -> tuple[int, str, bytes]:
    """Ask as Prometheus does; give status, content type and body."""
    ask = http.client.HTTPConnection(where.host or "localhost", where.port, timeout=30)
    try:
        if where.path is not None:
            ask.sock = socket.socket(socket.AF_UNIX)
            ask.sock.connect(str(where.path))  # with a deadline it would not wait in the queue (connect(2))
            ask.sock.settimeout(30)
        ask.request(method, path, headers={"Accept": accept} if accept else {})
        answer = ask.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        ask.close()


@pytest.fixture
def numbers() -> CollectorRegistry:
    return registry(Config, lambda: View(cycles=7))


@pytest.fixture(params=["four", "six", "unix"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    if request.param == "unix":
        return Address(path=tmp_path / "m.sock")
    return Address(host="::1" if request.param == "six" else "127.0.0.1", port=0)


@pytest.fixture
def serving(where: Address, numbers: CollectorRegistry) -> Iterator[tuple[Address, Scrapes]]:
    scrapes = Scrapes(where, numbers)
    yield Address(where.host, scrapes.port, where.path), scrapes
    scrapes.close()


def test_the_numbers_come_in_the_form_that_is_asked_for(serving: tuple[Address, Scrapes]) -> None:
    where, _ = serving
    status, kind, body = get(where)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    names = {family.name for family in text_string_to_metric_families(body.decode())}
    assert "slaqd_cycles" in names
    status, kind, body = get(where, accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_a_head_gets_no_body_and_other_paths_and_verbs_no_numbers(serving: tuple[Address, Scrapes]) -> None:
    where, _ = serving
    assert get(where, method="HEAD") == (200, "text/plain; version=0.0.4; charset=utf-8", b"")
    assert get(where, "/")[0] == 404
    assert get(where, "/metrics/../etc/passwd")[0] == 404
    assert get(where, "/metrics?name[]=x")[0] == 200
    assert get(where, method="POST")[0] == 501


@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.1\r\nHost:"])
def test_readers_that_have_not_asked_keep_nobody_out_who_asks(
    serving: tuple[Address, Scrapes], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    where, _ = serving
    monkeypatch.setattr(scrape._Scrape, "timeout", 3600.0)
    silent = []
    for _ in range(300):
        silent.append(connected(where))
        with suppress(OSError):  # let go already: it made room for the next one
            silent[-1].sendall(said)
    for _ in range(5):
        assert get(where)[0] == 200
    for sock in silent:
        sock.close()


def test_who_has_asked_is_not_let_go_for_one_who_comes(tmp_path: Path) -> None:
    asked, free = threading.Semaphore(0), threading.Event()

    def slow() -> View:
        asked.release()
        free.wait()
        return View(cycles=7)

    where = Address(path=tmp_path / "m.sock")
    scrapes = Scrapes(where, registry(Config, slow))
    waiting = [connected(where) for _ in range(scrape._AT_ONCE)]
    for sock in waiting:
        sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert all(asked.acquire(timeout=60) for _ in waiting)
    with connected(where) as late:
        assert _more(late) == b"", "there is no place for it"
    free.set()
    for sock in waiting:
        assert sock.recv(15) == b"HTTP/1.0 200 OK"
        sock.close()
    scrapes.close()


def test_who_is_let_go_and_who_was_answered_leave_nothing_behind(serving: tuple[Address, Scrapes]) -> None:
    where, scrapes = serving
    for _ in range(30):
        connected(where).close()
        assert get(where)[0] == 200
    server = scrapes._server
    wait_for(lambda: not server._since, lambda: "some are in still")
    assert not server._asked


def test_a_reader_that_drips_is_let_go_when_its_time_is_over(
    serving: tuple[Address, Scrapes], monkeypatch: pytest.MonkeyPatch
) -> None:
    where, _ = serving
    monkeypatch.setattr(scrape, "WHOLE_S", 0.3)
    with connected(where) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n")

        def let_go() -> bool:
            try:
                sock.sendall(b"X-Slow: yes\r\n")
            except OSError:
                return True
            return False

        wait_for(let_go, lambda: "it may drip for ever")
    assert get(where)[0] == 200


def connected(where: Address) -> socket.socket:
    if where.path is not None:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(where.path))
        return sock
    return socket.create_connection((where.host, where.port), timeout=30)


def answered(where: Address) -> bool:
    try:
        return get(where)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_rubbish_is_answered_and_the_next_one_served(serving: tuple[Address, Scrapes]) -> None:
    where, _ = serving
    for rubbish in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"G" * 70_000 + b"\r\n\r\n", b""):
        with connected(where) as sock:
            sock.sendall(rubbish)
            sock.shutdown(socket.SHUT_WR)
            while _more(sock):
                pass
    assert get(where)[0] == 200


def _more(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except ConnectionResetError:
        return b""


def test_a_fault_in_the_numbers_is_an_answer_and_a_line_of_the_log(tmp_path: Path) -> None:
    def broken() -> View:
        raise ZeroDivisionError

    where = Address(path=tmp_path / "m.sock")
    scrapes = Scrapes(where, registry(Config, broken))
    with capture_logs() as said:
        assert get(where)[0] == 500
    scrapes.close()
    assert [event["event"] for event in said] == ["a fault in the metrics"]


def test_a_socket_is_for_owner_and_group_and_goes_at_the_end(
    tmp_path: Path, numbers: CollectorRegistry
) -> None:
    where = Address(path=tmp_path / "m.sock")
    scrapes = Scrapes(where, numbers)
    assert where.path
    assert stat.S_IMODE(where.path.stat().st_mode) == 0o660
    with pytest.raises(OSError, match="another process answers there"):
        Scrapes(where, numbers)
    assert get(where)[0] == 200
    scrapes.close()
    assert not where.path.exists()


def test_a_socket_that_a_dead_slaqd_left_is_replaced_and_a_file_is_not(
    tmp_path: Path, numbers: CollectorRegistry
) -> None:
    path = tmp_path / "m.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    scrapes = Scrapes(Address(path=path), numbers)
    assert get(Address(path=path))[0] == 200
    scrapes.close()
    path.write_text("my thesis", encoding="utf-8")
    with pytest.raises(OSError, match="no socket is there already"):
        Scrapes(Address(path=path), numbers)
    assert path.read_text(encoding="utf-8") == "my thesis"


def configured(listen: str = "", textfile: Path | str = "") -> Config:
    return Config(slaqd=SlaqdSection(), metrics=MetricsSection(listen=listen, textfile=str(textfile)))


class Views:
    """A loop's view, as far as anybody looks at it from outside."""

    def __init__(self) -> None:
        self.view = View()

    def __call__(self) -> View:
        return self.view


def cycles_in(path: Path) -> str:
    found = [line for line in path.read_text().splitlines() if line.startswith("slaqd_manager_up")]
    return found[0] if found else ""


def test_the_file_is_replaced_whole_after_each_cycle_and_readable_by_all(tmp_path: Path) -> None:
    path, views = tmp_path / "slaqd.prom", Views()
    before = os.umask(0o077)
    try:
        exporter = Exporter(lambda: configured(textfile=path), views)
        assert not path.exists()
        exporter.tell()
        wait_for(path.exists, lambda: "no file")
        first = path.stat().st_ino
        held = path.open("rb")
        views.view = msgspec.structs.replace(views.view, cycles=1)
        exporter.tell()
        wait_for(lambda: path.stat().st_ino != first, lambda: "the same file")
    finally:
        os.umask(before)
    with held:
        assert b"slaqd_manager_up" not in held.read()  # a reader in the middle has the old one, whole
    assert cycles_in(path) == "slaqd_manager_up 1.0"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]
    exporter.close()
    assert not list(tmp_path.iterdir())


def test_after_a_single_cycle_the_file_stays(tmp_path: Path) -> None:
    path, views = tmp_path / "slaqd.prom", Views()
    exporter = Exporter(lambda: configured(f"127.0.0.1:{free_port()}", path), views, listen=False)
    views.view = View(cycles=1)
    exporter.tell()
    exporter.close(stays=True)
    assert cycles_in(path) == "slaqd_manager_up 1.0"


@pytest.mark.parametrize("trap", ["symlink", "hardlink"])
def test_nothing_is_written_through_what_somebody_put_beside_the_file(tmp_path: Path, trap: str) -> None:
    other, path = tmp_path / "thesis", tmp_path / "metrics" / "slaqd.prom"
    other.write_text("my thesis", encoding="utf-8")
    path.parent.mkdir()
    for name in (path.name, f".{path.name}.new"):
        if trap == "symlink":
            path.with_name(name).symlink_to(other)
        else:
            path.with_name(name).hardlink_to(other)
    exporter = Exporter(lambda: configured(textfile=path), Views())
    exporter.close(stays=True)
    assert other.read_text(encoding="utf-8") == "my thesis"
    assert path.is_file()
    assert not path.is_symlink()


def test_a_file_that_cant_be_written_is_a_warning_and_comes_when_it_can(tmp_path: Path) -> None:
    path = tmp_path / "not yet" / "slaqd.prom"
    with capture_logs() as said:
        exporter = Exporter(lambda: configured(textfile=path), Views())
        exporter.tell()
        wait_for(lambda: said, lambda: "no warning")
    assert (said[0]["event"], said[0]["log_level"]) == ("the metrics file can't be written", "warning")
    assert said[0]["error"] == "No such file or directory"
    path.parent.mkdir()
    exporter.tell()
    wait_for(path.exists, lambda: "it gave up")
    exporter.close()


def test_an_address_that_is_taken_is_a_warning_and_is_had_when_it_is_free() -> None:
    port = free_port()
    with capture_logs() as said, socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        exporter = Exporter(lambda: configured(f"127.0.0.1:{port}"), Views())
    assert [(event["event"], event["error"]) for event in said] == [
        ("no metrics: the address can't be used", "Address already in use")
    ]

    def comes() -> bool:
        exporter.tell()
        return answered(Address(host="127.0.0.1", port=port))

    wait_for(comes, lambda: "it gave up")
    exporter.close()


def test_a_disk_that_hangs_holds_up_neither_the_loop_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, free = threading.Event(), threading.Event()

    def hang(_path: Path, _registry: CollectorRegistry) -> None:
        hangs.set()
        free.wait()

    monkeypatch.setattr("slaqd.daemon.exporter.write", hang)
    monkeypatch.setattr("slaqd.daemon.exporter._JOIN_S", 0.01)
    daemon = Daemon(tmp_path)
    exporter = Exporter(lambda: configured(textfile=tmp_path / "a.prom"), lambda: daemon.loop.view)
    daemon.loop._finished = lambda _sentence: exporter.tell()
    daemon.cycle()
    assert hangs.wait(60)
    assert [daemon.cycle() for _ in range(3)] == ["no jobs"] * 3
    exporter.close()
    free.set()
    daemon.journal.close()


def test_nothing_asked_for_nothing_started() -> None:
    before = threading.active_count()
    exporter = Exporter(Config, View)
    exporter.tell()
    assert threading.active_count() == before
    exporter.close()


def test_closing_ends_every_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    exporter = Exporter(lambda: configured(f"127.0.0.1:{free_port()}", tmp_path / "a.prom"), Views())
    assert len(set(threading.enumerate()) - before) == 2
    exporter.close()
    assert not set(threading.enumerate()) - before
