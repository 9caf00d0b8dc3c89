"""The browser helper sees what a person would, and what must not happen."""

from __future__ import annotations

import struct
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from service.browser import open_page

pytestmark = pytest.mark.service


def test_the_dom_after_scripts_the_console_and_the_picture_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!doctype html><h1 id=h>before</h1><script>document.getElementById('h').textContent = 'after';"
        "console.log('a \"quoted\"\\nword'); setTimeout(() => missing(), 100)</script>",
    )
    screenshot, console, dom = open_page(page, width=640, height=480)
    assert ">after</h1>" in dom
    assert console == ['a "quoted"\nword', "Uncaught ReferenceError: missing is not defined"]
    assert screenshot.startswith(b"\x89PNG")
    assert struct.unpack(">II", screenshot[16:24]) == (640, 480)


def test_a_page_without_faults_has_a_silent_console(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>t</title><p>nothing to say")
    assert open_page(page).console == []


def test_a_page_reaches_no_server_not_even_on_this_machine(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        page = tmp_path / "page.html"
        names = ("localhost", "127.0.0.1")
        page.write_text("".join(f"<img src=http://{name}:{server.server_port}/x>" for name in names))
        open_page(page)
        server.shutdown()
        thread.join()
    assert asked == []
