"""`fedq pipeline placement` on Spark: what crossed, a plan from a real trace, and its moves."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, connect
from tests.integration.waiting import until
from tests.pipeline.spark.conftest import Driver, urls
from tests.pipeline.spark.test_audit import stopped

MESSAGES = 60


def event(kind: str, node: str, ms: int, fragment: int, count: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind, "node": node, "incarnation": 1, "batch": 1, "place": ms, "ms": ms,
        "vhost": "/", "queue": f"q{fragment}", "fragment": fragment,
        "positions": [[1, count]], **more,
    }  # fmt: skip


def test_what_went_where_is_added_up(spark: Driver) -> None:
    events = [
        event("enqueued", "a", 10, 1, 5, origin="b"),
        event("enqueued", "a", 20, 1, 3, origin="a"),
        event("enqueued", "a", 21, 1, 3, origin="a", reason="resent"),
        event("delivered", "b", 1_500, 1, 8),
        event("leads", "c", 5, 2, 0, positions=None),
        event("delivered", "a", 1_600, 2, 4, reason="stream"),
        event("delivered", "a", 1_700, -3, 9),
        event("delivered", "a", 1_800, 7, 9),
    ]
    found = spark.run("flows", events=events, targets={"1": "b"}, step_ms=1_000)
    first, second = found["flows"]
    assert (first["leads"], first["published"], first["delivered"]) == (
        "a", {"a": 3, "b": 5}, {"b": 8},
    )  # fmt: skip
    assert (second["queue"], second["leads"], second["delivered"]) == ("q2", "c", {"a": 4})
    assert found["steps"] == [[0, 8, 5, 3], [1_000, 12, 12, 4]]


@pytest.mark.sweep
def test_a_plan_from_a_real_trace_brings_a_queue_to_its_clients(
    spark: Driver, cluster: Cluster, tmp_path: Path
) -> None:
    names = list(cluster.nodes)
    connection = connect(cluster.nodes[names[0]].amqp)
    arguments = {"x-fedq-replicas": 2, "x-fedq-fragments": 1}
    connection.channel().queue_declare("far", durable=True, arguments=arguments)
    connection.close()
    primary = cluster.primary_of("far")
    near = next(name for name in names if name != primary)
    cluster.ask("trace", "start", "far", "--vhost", "/", "--queue", "far")
    connection = connect(cluster.nodes[near].amqp, heartbeat=0)
    channel = connection.channel()
    channel.confirm_delivery()
    # Without a fragment of its own: the queue keeps to one.
    for number in range(MESSAGES):
        channel.basic_publish("", "far", b"%d" % number, PERSISTENT)
    for _ in range(MESSAGES):
        until("a message", lambda: channel.basic_get("far", auto_ack=True)[0] is not None)
    cluster.ask("trace", "stop", "far")
    until("all nodes have written", lambda: stopped(channel, "fedq.trace.far"))
    options = {"url": urls(cluster), "stream": "fedq.trace.far"}
    found = spark.run("placement", options=options, place=str(tmp_path / "out"))
    connection.close()
    (move,) = found["moves"]
    assert (move["queue"], move["from"], move["to"]) == ("far", primary, near)
    assert (move["crossing"], move["then"]) == (2 * MESSAGES, 0)
    assert "Placement by" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    plan = tmp_path / "out" / "plan.json"
    assert json.loads(plan.read_text(encoding="utf-8")) == found
    done = cluster.ask("cluster", "rebalance", "--plan", str(plan))
    assert done["refused"] == 0
    until("it is there", lambda: cluster.primary_of("far") == near)
