"""The report in a real browser: it opens, is silent on the console, and lights jobs up."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import recorded

from slaqd.report.measure import measure
from slaqd.report.page import render

pytestmark = pytest.mark.service

JOBS = 24
FOCUS = "<script>document.querySelectorAll('tr[data-job]')[{row}].focus()</script></body>"
PRESS = "new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})"
KEY = f"<script>document.activeElement.dispatchEvent({PRESS})</script></body>"


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    assert found, "no chromium on the path: apt-get install chromium"
    return found


def opened(page: str, folder: Path) -> tuple[str, str]:
    """Open a page; give the document as it stands after its scripts, and what the console said."""
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [browser(), *options, profile, file.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.fixture(scope="module")
def page() -> str:
    runs = recorded.runs(jobs=JOBS)
    return render(runs, measure(runs, manager="local", seed=1, order=["fair", "slaq"], forecast_errors={}))


def figures(document: str) -> list[str]:
    return re.findall(r"<figure data-policy.*?</figure>", document, re.DOTALL)


def test_the_page_opens_and_the_console_is_silent(page: str, tmp_path: Path) -> None:
    document, console = opened(page, tmp_path)
    assert "<h1>Fair share and SLAQ" in document
    assert console == ""


def test_a_script_that_fails_would_be_seen_on_the_console(page: str, tmp_path: Path) -> None:
    _, console = opened(page.replace("</body>", "<script>nobody.home</script></body>"), tmp_path)
    assert "nobody is not defined" in console


def test_the_page_forbids_itself_the_network(page: str, tmp_path: Path) -> None:
    _, console = opened(page.replace("</body>", '<img src="http://127.0.0.1:9/x.png"></body>'), tmp_path)
    assert "Content Security Policy" in console


def test_both_runs_show_a_curve_and_a_layer_for_each_job(page: str, tmp_path: Path) -> None:
    document, _ = opened(page, tmp_path)
    drawn = figures(document)
    assert [figure.count("data-policy") for figure in drawn] == [1] * 4
    for figure in drawn:
        groups = re.findall(r'<g class="job k\d" data-job="(\d+)">(?:(?!</g>).)*<path', figure, re.DOTALL)
        assert sorted(groups, key=int) == [str(i) for i in range(JOBS)]


def test_a_row_in_focus_lights_its_job_up_in_every_picture(page: str, tmp_path: Path) -> None:
    document, console = opened(page.replace("</body>", FOCUS.format(row=5)), tmp_path)
    assert console == ""
    assert set(re.findall(r'<g class="job k\d hit" data-job="(\d+)"', document)) == {"5"}
    assert document.count('hit" data-job="5"') == 2 * 2 + 2 + 1
    assert re.search(r'<p id="readout"[^>]*>[^<]+arrived at', document)


def test_arrow_keys_step_through_the_jobs_and_escape_ends_it(page: str, tmp_path: Path) -> None:
    focused = page.replace("</body>", FOCUS.format(row=5))
    down = focused.replace("</body>", KEY.format(key="ArrowDown"))
    document, _ = opened(down, tmp_path)
    assert set(re.findall(r'hit" data-job="(\d+)"', document)) == {"6"}
    document, _ = opened(down.replace("</body>", KEY.format(key="Escape")), tmp_path)
    assert 'hit" data-job' not in document
