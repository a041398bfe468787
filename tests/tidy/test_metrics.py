"""The table of metrics in the documents is the code's, and names keep Prometheus's rules."""

import importlib.util
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from fedq.http.metrics import table
from fedq.http.metrics.table import Kind
from tests.tidy.sources import ROOT, report

SCRIPT = ROOT / "scripts" / "write_metrics.py"
NAME = re.compile(r"(rabbitmq|fedq)(_[a-z]+)+")
#: What a rule or a panel names: metrics begin so.
NAMED = re.compile(r"\b(?:rabbitmq|fedq)_[a-z_]+")
DEPLOY = ROOT / "deploy"


def test_the_document_has_the_metrics_of_today() -> None:
    spec = importlib.util.spec_from_file_location("write_metrics", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    document = writer.TARGET.read_text("utf-8")
    assert writer.renewed(document) == document, "run: python scripts/write_metrics.py"


def test_names_say_their_kind_and_come_once() -> None:
    names = [each.name for each in table.METRICS] + [each.name for each in table.LABELLED]
    problems = [f"{name} is there twice" for name in set(names) if names.count(name) > 1]
    problems += [f"{name}: use letters and _" for name in names if not NAME.fullmatch(name)]
    problems += [
        f"{metric.name}: a counter ends with _total, and nothing else does"
        for metric in table.METRICS
        if metric.name.endswith("_total") != (metric.kind is Kind.COUNTER)
    ]
    problems += [
        f"{metric.name}: RabbitMQ's names are in RABBIT, fedq's own in FEDQ"
        for prefix, metrics in (("rabbitmq_", table.RABBIT), ("fedq_", table.FEDQ))
        for metric in metrics
        if not metric.name.startswith(prefix)
    ]
    assert not problems, report(problems)


def expressions() -> Iterator[tuple[str, str]]:
    """What alert rules and panels of the dashboard ask Prometheus for, with their titles."""
    groups = yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text("utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["annotations"]["what_to_do"], rule["alert"]
        yield rule["alert"], rule["expr"]
    dashboard: Any = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_rules_and_dashboard_ask_for_metrics_that_are_there() -> None:
    known = {each.name for each in table.METRICS} | {each.name for each in table.LABELLED}
    known |= {
        f"{each.name}{part}" for each in table.HISTOGRAMS for part in ("_bucket", "_sum", "_count")
    }
    problems = [
        f"{title}: there is no metric {name}"
        for title, text in expressions()
        for name in NAMED.findall(text)
        if name not in known
    ]
    problems += [title for title, text in expressions() if text.count("(") != text.count(")")]
    assert not problems, report(problems)
    assert sum(1 for _ in expressions()) > 30
