"""Prometheus's pages of real nodes: figures of each node, whose sums are the cluster's."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.harness import Cluster
from tests.integration.ports import free_ports
from tests.integration.stock import connect
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

WITHIN_S = 20.0
Labels = tuple[tuple[str, str], ...]


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[tuple[Cluster, dict[str, int]]]:
    """Three nodes with their ports of metrics."""
    ports = dict(zip(("a", "b", "c"), free_ports(3), strict=True))
    cluster = Cluster(tmp_path)
    for name, port in ports.items():
        with (cluster.nodes[name].directory / "node.yaml").open("a") as settings:
            settings.write(f"metrics:\n  port: {port}\n")
    with cluster:
        yield cluster, ports


def page(port: int, path: str = "/metrics") -> dict[tuple[str, Labels], float]:
    """What Prometheus's own parser reads."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WITHIN_S) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_sums_over_the_nodes_are_the_clusters_and_one_that_is_alone_says_so(
    measured: tuple[Cluster, dict[str, int]],
) -> None:
    cluster, ports = measured
    connection = connect(cluster.nodes["b"].amqp)
    channel = connection.channel()
    channel.queue_declare("measured", durable=True)
    channel.queue_declare("own", exclusive=True)
    channel.confirm_delivery()
    for queue in ("measured", "measured", "own"):
        channel.basic_publish("", queue, b"x")
    channel.basic_get("measured")

    def sums(name: str) -> float:
        return sum(page(port).get((name, ()), 0.0) for port in ports.values())

    until("two messages wait", lambda: sums("rabbitmq_queue_messages_ready") == 2, WITHIN_S)
    until("one is held", lambda: sums("rabbitmq_queue_messages_unacked") == 1, WITHIN_S)
    assert sums("rabbitmq_connections") == 1
    assert sums("rabbitmq_channel_messages_unacked") == 1
    assert sums("fedq_leader") == 1
    assert sums("fedq_exclusive_queues") == 1
    assert sums("fedq_lease_held") == 3
    labels = (("queue", "measured"), ("vhost", "/"))
    found = [page(port, "/metrics/per-object") for port in ports.values()]
    assert sum(each.get(("rabbitmq_queue_messages", labels), 0.0) for each in found) == 2
    connection.close()
    for name in ("a", "c"):
        cluster.kill(name)
    until("it is fenced", lambda: page(ports["b"])["fedq_lease_held", ()] == 0, WITHIN_S)
    for name in ("a", "c"):
        cluster.nodes[name].start()
    until("and heals", lambda: page(ports["b"])["fedq_lease_held", ()] == 1, WITHIN_S)
