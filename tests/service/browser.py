"""A real browser, without a window and without a network, for tests of the HTML report."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

QUIET = (
    "--no-first-run",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--no-pings",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # the page gets no name resolved, this machine's neither
)
HEADLESS = (
    "--headless",
    "--no-sandbox",  # Chromium refuses to sandbox for root; the page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--virtual-time-budget=10000",  # timers and animations have run out before the picture is taken
    "--enable-logging=stderr",
)
CONSOLE = re.compile(r':[A-Z]+:CONSOLE:\d+\] "(.*?)", source: \S* \(\d+\)$', re.DOTALL | re.MULTILINE)


class Page(NamedTuple):
    """What a person would see: the picture (PNG), the console's messages, the DOM after all scripts."""

    screenshot: bytes
    console: list[str]
    dom: str


def open_page(path: Path, width: int = 1400, height: int = 1000) -> Page:
    """Open a local file in a window of ``width`` by ``height`` pixels.

    The console has what the page's scripts log and each error that they don't catch; a
    picture that can't be loaded is not among it.
    """
    with tempfile.TemporaryDirectory(prefix="slaqd-browser-", ignore_cleanup_errors=True) as home:
        picture = Path(home) / "page.png"
        own = (
            f"--user-data-dir={home}/profile",
            f"--window-size={width},{height}",
            f"--screenshot={picture}",
        )
        run = subprocess.run(
            ["chromium", *HEADLESS, *QUIET, *own, "--dump-dom", path.resolve().as_uri()],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": home},
        )
        return Page(picture.read_bytes(), CONSOLE.findall(run.stderr), run.stdout)
