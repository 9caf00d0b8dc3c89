"""Alerts, dashboard and page speak of numbers that slaqd really shows, and of all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric

from slaqd.config import Config
from slaqd.daemon.metrics import registry
from slaqd.daemon.view import View

REPO = Path(__file__).parents[2]
PAGE = (REPO / "docs" / "metrics.md").read_text(encoding="utf-8")
RULES = (REPO / "conf" / "prometheus" / "slaqd.rules.yml").read_text(encoding="utf-8")
BOARD = json.loads((REPO / "conf" / "grafana" / "slaqd.json").read_text(encoding="utf-8"))
FAMILIES: Sequence[Metric] = list(registry(Config, lambda: View(cycles=1)).collect())
OF_PROMETHEUS = {"instance", "job"}
CLOSED = {"result", "kind", "outcome", "state", "health"}
FUNCTIONS = {"absent", "histogram_quantile", "increase", "rate", "sum", "time"}
VARIABLE = re.compile(r"\$\w+")


def _full(family: Metric) -> str:
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _kind(family: Metric) -> str:
    return "gauge" if family.type == "info" else family.type


def _labels(family: Metric) -> set[str]:
    return {label for sample in family.samples for label in sample.labels} - {"le"}


def shown() -> Mapping[str, Mapping[str, set[str]]]:
    """Give each name that can be asked for, with its labels and their values."""
    names: dict[str, dict[str, set[str]]] = {}
    for family in FAMILIES:
        for sample in family.samples:
            labels = names.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return names


def wrong_with(expression: str) -> list[str]:
    """Say what an expression asks for that isn't there; and whether it is an expression at all."""
    closed = all(expression.count(a) == expression.count(b) for a, b in ("()", "{}", "[]"))
    bare = re.sub(r"\{.*?\}|\[[^\]]*\]|\"[^\"]*\"", " ", expression)
    return [*([] if closed else ["brackets"]), *_wrong_matchers(expression), *_wrong_words(bare)]


def _wrong_matchers(expression: str) -> Iterator[str]:
    for name, matchers in re.findall(r"([a-zA-Z_:]\w*)\s*\{(.*?)\}", expression):
        labels = shown().get(name, {})
        for label, sign, value in re.findall(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"", matchers):
            values = set(value.split("|") if "~" in sign else [value])
            if label not in {*labels, *OF_PROMETHEUS}:
                yield f"{name} has no label {label}"
            elif label in CLOSED:
                yield from (f"{name} has no {label} {one}" for one in values - labels[label])


def _wrong_words(bare: str) -> Iterator[str]:
    names, groups = shown(), re.compile(r"\b(?:by|without)\s*\(([^()]*)\)")
    words = re.findall(r"\b([a-zA-Z_:][\w:]*)\b\s*(\(?)", groups.sub(" ", bare))
    called = {word for word, bracket in words if bracket}
    used = {word for word, bracket in words if not bracket}
    yield from (f"no function {word}" for word in called - FUNCTIONS)
    yield from (f"no metric {word}" for word in used - set(names) - FUNCTIONS)
    has = {label for name in used & set(names) for label in names[name]} | OF_PROMETHEUS
    grouped = {label for inside in groups.findall(bare) for label in re.findall(r"\w+", inside)}
    yield from (f"no label {label}" for label in grouped - has)
    if not used & set(names):
        yield "asks for nothing of slaqd's"


def rules() -> Iterator[Mapping[str, Any]]:
    for group in yaml.safe_load(RULES)["groups"]:
        yield from group["rules"]


def targets() -> Iterator[tuple[str, str, str]]:
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("slaqd_nope == 0", "no metric slaqd_nope"),
        ("slaqd_cycles == 0", "no metric slaqd_cycles"),
        ('slaqd_jobs{stat="running"}', "slaqd_jobs has no label stat"),
        ('slaqd_jobs{state="walking"}', "slaqd_jobs has no state walking"),
        ('slaqd_logs{health=~"ok|gone"}', "slaqd_logs has no health gone"),
        ("sum by (user) (slaqd_jobs)", "no label user"),
        ("smu(slaqd_jobs)", "no function smu"),
        ("rate(slaqd_cycles_total[5m]", "brackets"),
        ("vector == 1", "no metric vector"),
        ("time() > 0", "asks for nothing of slaqd's"),
    ],
)
def test_an_expression_that_is_wrong_is_found(expression: str, fault: str) -> None:
    assert fault in wrong_with(expression)


@pytest.mark.parametrize("rule", list(rules()), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_is_there_and_says_what_to_do(rule: Mapping[str, Any]) -> None:
    assert wrong_with(rule["expr"]) == []
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert re.fullmatch(r"[0-9]+[mhd]", rule.get("for", "1m"))
    for words in ("summary", "description"):
        assert rule["annotations"][words].endswith(".")


def test_there_is_an_alert_for_each_way_to_stand_still() -> None:
    asked = " ".join(rule["expr"] for rule in rules())
    for name in (
        "build_info",
        "cycle_last_success",
        "cycles_total",
        "manager_up",
        "journal_writable",
        "journal_whole",
        "paused",
    ):
        assert f"slaqd_{name}" in asked


def test_no_two_alerts_have_one_name_and_the_page_knows_each() -> None:
    alerts = [(rule["alert"], rule["labels"]["severity"]) for rule in rules()]
    assert len(dict(alerts)) == len(alerts)
    assert re.findall(r"^\| `(Slaqd\w+)` \| (\w+) \|", PAGE, re.MULTILINE) == alerts


@pytest.mark.parametrize(("title", "expression", "legend"), list(targets()))
def test_a_panel_asks_for_what_is_there(title: str, expression: str, legend: str) -> None:
    assert wrong_with(expression) == [], title
    assert set(VARIABLE.findall(expression)) <= {"$instance", "$__rate_interval"}
    labels = {label for name, of in shown().items() if name in expression for label in of}
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in BOARD["templating"]["list"]}
    assert variables == {"datasource", "instance"}
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_page_lists_every_metric_with_its_type_and_its_labels() -> None:
    said = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in re.findall(r"^\| `(slaqd_\w+)` \| (\w+) \| (.*?) ?\| ", PAGE, re.MULTILINE)
    }
    assert said == {_full(family): (_kind(family), _labels(family)) for family in FAMILIES}


@pytest.mark.parametrize(
    "family", [one for one in FAMILIES if _labels(one) & CLOSED], ids=lambda one: one.name
)
def test_the_page_lists_every_value_of_a_closed_label(family: Metric) -> None:
    (row,) = re.findall(rf"^\| `{_full(family)}` .*$", PAGE, re.MULTILINE)
    for label in _labels(family) & CLOSED:
        for value in shown()[family.samples[0].name][label]:
            assert f"`{value}`" in row
