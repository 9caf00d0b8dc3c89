"""The page: self-contained, escaped, and the same scales on both sides."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import msgspec
import pytest
import recorded

from slaqd.report import compare
from slaqd.report.measure import measure
from slaqd.report.page import render
from slaqd.report.record import JobTrace, Run

VOID = {"meta", "link", "br", "circle", "line", "path", "rect"}
BASE = JobTrace("a", "mlp", 0.0, 9.0, [1.0, 2.0, 3.0], [1.0, 0.5, 0.1], [(0.0, 4.0)], 36.0, 0.7)


class Tags(HTMLParser):
    """Checks that tags close in order, and keeps what it saw."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(runs: dict[str, Run]) -> str:
    return render(
        runs, measure(runs, manager="local", seed=1, order=list(runs), forecast_errors={"fair": 0.02})
    )


def two(*jobs: JobTrace, error: str | None = None) -> dict[str, Run]:
    run = Run("fair", 5.0, 15.0, 4.0, 0.02, [(0.0, 10.0)], 2.0, jobs)
    return {"fair": run, "slaq": msgspec.structs.replace(run, policy="slaq", error=error)}


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return dict(recorded.runs())


@pytest.fixture(scope="module")
def whole(runs: dict[str, Run]) -> str:
    return page(runs)


def axes(whole: str, what: str) -> list[list[str]]:
    figures = re.findall(r"<figure data-policy.*?</figure>", whole, re.DOTALL)
    return [re.findall(r'class="tick"[^>]*>([^<]*)<', figure) for figure in figures if what in figure]


def test_all_tags_close_in_order(whole: str) -> None:
    assert Tags(whole).open == []


def test_the_page_asks_for_nothing_from_outside(whole: str) -> None:
    assert "http" not in whole.replace("http-equiv", "")
    assert "@import" not in whole
    for tag, attributes in Tags(whole).seen:
        assert tag not in {"img", "iframe", "object", "embed", "use", "image"}
        assert "src" not in attributes
        assert attributes.get("href") in {None, "data:,"}


def test_both_runs_share_their_axes(whole: str) -> None:
    for what in ("loss of each job", "who held the CPU"):
        fair, slaq = axes(whole, what)
        assert fair == slaq
        assert len(fair) > 6


def test_every_job_is_in_every_picture_and_in_the_table(whole: str, runs: dict[str, Run]) -> None:
    numbers = [a["data-job"] for tag, a in Tags(whole).seen if tag == "g" and "data-job" in a]
    pictures = 2 * len(runs) + 2  # losses and units of each run, and two pictures of pairs
    assert sorted(numbers) == sorted(str(i) for i in range(24) for _ in range(pictures))
    rows = [a["data-job"] for tag, a in Tags(whole).seen if tag == "tr" and "data-job" in a]
    assert rows == [str(i) for i in range(24)]


def test_the_headline_is_the_measured_ratio(whole: str, runs: dict[str, Run]) -> None:
    result = measure(runs, manager="local", seed=1, order=["fair", "slaq"], forecast_errors={})
    times = [result.policies[policy].time_to["0.9"] or 0 for policy in ("fair", "slaq")]
    assert all(compare.seconds(time) in whole for time in times)
    assert f"{round(100 * abs(times[1] / times[0] - 1))} % less time" in whole


def test_a_slower_slaq_is_said_as_plainly() -> None:
    slow = two(BASE)
    late = msgspec.structs.replace(BASE, times=[1.0, 4.0, 6.0])
    slow["slaq"] = msgspec.structs.replace(slow["slaq"], jobs=[late])
    assert "100 % more time" in page(slow)


def test_what_users_wrote_is_text_never_tags() -> None:
    nasty = "<script>alert(1)</script>\"'&\udcff"
    text = page(two(msgspec.structs.replace(BASE, job=nasty, kind=nasty), error=nasty))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;?" in text
    assert Tags(text).open == []
    text.encode("utf-8")


def test_dollar_signs_in_names_are_not_placeholders() -> None:
    assert "$title ${css}" in page(two(msgspec.structs.replace(BASE, job="$title ${css}")))


def test_a_failed_run_is_told_first_and_has_no_ratio() -> None:
    text = page(two(BASE, error="not ended after ten times the window"))
    assert "The run under SLAQ failed: not ended after ten times the window" in text
    assert "There is no comparison" in text
    assert "less time" not in text


@pytest.mark.parametrize(
    "job",
    [
        msgspec.structs.replace(BASE, times=[], losses=[]),
        msgspec.structs.replace(BASE, losses=[0.5, 0.5, 0.5]),
        msgspec.structs.replace(BASE, losses=[math.nan, math.inf, 0.5]),
        msgspec.structs.replace(BASE, losses=[1.0, 1e30, 0.5]),
        msgspec.structs.replace(BASE, ended=None),
        msgspec.structs.replace(BASE, units=[], unit_seconds=0.0, cpu_seconds=0.0),
        msgspec.structs.replace(BASE, ended=0.0),
    ],
    ids=["silent", "flat", "not finite", "diverged", "open end", "no units", "ended at once"],
)
def test_an_odd_job_does_not_spoil_the_page(job: JobTrace) -> None:
    text = page(two(BASE, msgspec.structs.replace(job, job="odd")))
    assert Tags(text).open == []
    assert text.count('data-job="1"') == 2 * 2 + 2 + 1
    assert not re.search(
        r'"[^"]*\b(nan|inf)\b[^"]*"', re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    )


def test_a_page_of_no_jobs_is_still_a_page() -> None:
    assert Tags(page(two())).open == []


def test_a_single_run_is_shown_without_a_ratio() -> None:
    text = page({"fair": two(BASE)["fair"]})
    assert "There is no comparison" in text
    assert Tags(text).open == []


def test_kinds_beyond_the_colours_share_the_grey() -> None:
    jobs = [msgspec.structs.replace(BASE, job=f"j{i}", kind=f"kind-{i}") for i in range(12)]
    text = page(two(*jobs))
    assert text.count('class="key k8"') == 4
    assert text.count('class="key k0"') == 1
