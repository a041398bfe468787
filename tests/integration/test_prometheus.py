"""A real Prometheus reads a real node: every panel of the dashboard and every rule is answered."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.tools import DEPLOY, tool
from tests.integration.harness import Cluster
from tests.integration.ports import free_ports
from tests.integration.stock import connect
from tests.integration.waiting import until
from tests.tidy.test_metrics import expressions

pytestmark = pytest.mark.slow

WITHIN_S = 40.0
#: A series for each member that somebody waits for: there is none.
EMPTY = "sum by (member) (fedq_publishers_waiting_for)"


class Prometheus:
    """A Prometheus that asks one node every second."""

    def __init__(self, directory: Path, metrics: int) -> None:
        directory.mkdir()
        (self._port,) = free_ports(1)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(DEPLOY / "prometheus-alerts.yaml")],
            "scrape_configs": [
                {"job_name": "fedq", "static_configs": [{"targets": [f"127.0.0.1:{metrics}"]}]}
            ],
        }
        file = directory / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config))
        self._process = subprocess.Popen(
            [
                tool("prometheus", "Debian's prometheus"), f"--config.file={file}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, path: str, **query: str) -> Any:
        """What the API has at a path; None while it does not answer."""
        where = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(where, timeout=WITHIN_S) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def stop(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Cluster, Prometheus]]:
    """A node with a queue, and a Prometheus beside it."""
    tool("prometheus", "Debian's prometheus")
    (port,) = free_ports(1)
    with Cluster(tmp_path / "cluster", ("a",), more={"metrics": {"port": port}}) as cluster:
        prometheus = Prometheus(tmp_path / "prometheus", port)
        try:
            yield cluster, prometheus
        finally:
            prometheus.stop()


def test_every_panel_has_a_value_and_every_rule_is_evaluated(
    watched: tuple[Cluster, Prometheus],
) -> None:
    cluster, prometheus = watched
    connection = connect(cluster.nodes["a"].amqp)
    channel = connection.channel()
    channel.queue_declare("watched", durable=True)
    channel.basic_publish("", "watched", b"x")
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    def unanswered() -> list[str]:
        """The panels without a value."""
        found = {text: prometheus.ask("query", query=text) for text in panels if text != EMPTY}
        return [text for text, data in found.items() if data is None or not data["result"]]

    until("every panel has a value", lambda: not unanswered(), WITHIN_S)
    assert prometheus.ask("query", query=EMPTY)["result"] == []
    # A rule's comparison is not met here, and its metrics are there all the same.
    assert len(list(expressions())) > len(panels)

    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    until("all are evaluated", lambda: all(r["health"] == "ok" for r in rules()), WITHIN_S)
    # Nothing is wrong with this node: not even for a moment, which is what `pending` would say.
    until("no rule is met", lambda: all(r["state"] == "inactive" for r in rules()), WITHIN_S)
    connection.close()
