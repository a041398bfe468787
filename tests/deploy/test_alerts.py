"""Alert rules: Prometheus reads them, and each fires when it should and not before."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.deploy.tools import DEPLOY, read, said, tool

RULES = "prometheus-alerts.yaml"
CASES = "prometheus-alerts.test.yaml"
PACKAGE = "Debian's prometheus"


def test_every_alert_has_a_case_in_which_it_is_quiet_and_one_in_which_it_fires() -> None:
    rules = [rule["alert"] for group in read(RULES)["groups"] for rule in group["rules"]]
    cases = read(CASES)["tests"]
    assert sorted(case["name"] for case in cases) == sorted(rules)
    for case in cases:
        asked = case["alert_rule_test"]
        assert {each["alertname"] for each in asked} == {case["name"]}
        assert [bool(each.get("exp_alerts")) for each in asked] == [False, True], case["name"]


def test_prometheus_reads_the_rules() -> None:
    code, text = said(tool("promtool", PACKAGE), "check", "rules", DEPLOY / RULES)
    assert code == 0, text


def test_prometheus_reads_the_configuration_of_compose() -> None:
    promtool = tool("promtool", PACKAGE)
    code, text = said(promtool, "check", "config", "--syntax-only", DEPLOY / "prometheus.yaml")
    assert code == 0, text


def test_alerts_fire_when_they_should() -> None:
    code, text = said(tool("promtool", PACKAGE), "test", "rules", DEPLOY / CASES)
    assert code == 0, text


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("fedq_lease_held == 0", "fedq_lease_held == 1"),
        ("fedq_fragments_short) > 0", "fedq_fragments_short) > 3"),
        ("> 100000", "> 1000"),
        ("{severity: page}", "{severity: ticket}"),
        ("for: 10m", "for: 1m"),
    ],
)
def test_a_rule_that_was_changed_does_not_pass(tmp_path: Path, was: str, becomes: str) -> None:
    """The cases are no decoration."""
    promtool = tool("promtool", PACKAGE)
    shutil.copy(DEPLOY / CASES, tmp_path)
    text = (DEPLOY / RULES).read_text("utf-8")
    assert was in text
    (tmp_path / RULES).write_text(text.replace(was, becomes), "utf-8")
    assert yaml.safe_load((tmp_path / RULES).read_text("utf-8"))
    code, told = said(promtool, "test", "rules", tmp_path / CASES)
    assert code == 1, told
