"""`fedq pipeline audit` on Spark: each planted fault by name, and nothing else."""

import json
from pathlib import Path
from typing import Any

from fedq.core.trace_records import STOPPED, decode
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, BlockingChannel, pika
from tests.integration.waiting import until
from tests.pipeline.jobs.histories import NODES, PLANTS, Event, Finding, history, judged
from tests.pipeline.spark.conftest import Driver
from tests.pipeline.spark.test_streaming import declare

HEAD = ("node", "incarnation", "batch", "place", "true_ms")


def found_in(verdict: dict[str, Any]) -> list[Finding]:
    return sorted(
        Finding(each["promise"], each["rule"], each["fragment"],
                -1 if each["position"] is None else each["position"])
        for each in verdict["findings"]
    )  # fmt: skip


def test_it_agrees_with_a_loop_over_many_histories(spark: Driver) -> None:
    """Forty queues, which do not know each other, and one that has more than all of them."""
    events, expected = history(77, ["", *PLANTS] * 5)
    large, of_large = history(9, ["overtaken"], count=6_000)
    for event in large:
        # In processes of their own.
        event |= {"incarnation": 2, "fragment": event.get("fragment", 0) + 100}
        event |= {"origin_incarnation": 2} if "origin_incarnation" in event else {}
    verdict = spark.run("judge", events=[*events, *large])
    assert judged(events) == expected
    moved = [each._replace(fragment=each.fragment + 100) for each in of_large]
    assert found_in(verdict) == sorted([*expected, *moved])
    assert verdict["verdicts"] == dict.fromkeys(("P1", "P2", "P3", "P4"), "refuted")
    assert all(verdict["judged"].values())
    assert (verdict["coverage"]["lost_events"], verdict["coverage"]["missing_batches"]) == (0, 0)


def test_what_is_right_is_kept_and_what_is_missing_leaves_it_open(spark: Driver) -> None:
    events, _ = history(5, [""] * 8)
    verdict = spark.run("judge", events=events)
    assert verdict["findings"] == []
    assert verdict["verdicts"] == dict.fromkeys(("P1", "P2", "P3", "P4"), "kept")
    assert verdict["coverage"]["nodes"] == list(NODES)
    gap = {**events[0], "kind": "gap", "amount": 7, "positions": None, "place": 10_000}
    holed = [event for event in events if (event["node"], event["batch"]) != ("a", 2)]
    coverage = spark.run("survey", events=[*holed, gap])
    assert (coverage["lost_events"], coverage["missing_batches"]) == (7, 1)


def body_of(events: list[Event]) -> bytes:
    """A batch, as a node writes it."""
    first = events[0]
    head = {"fedq_trace": 1, "trace": "t", "node": first["node"], "incarnation": 1,
            "batch": first["batch"], "ms": first["ms"]}  # fmt: skip
    told = [
        {name: value for name, value in event.items() if name not in HEAD and value}
        for event in events
    ]
    return "\n".join(map(json.dumps, [head, *told])).encode()


def test_a_trace_is_read_from_its_stream_and_becomes_a_page(
    spark: Driver, channel: BlockingChannel, url: str, tmp_path: Path
) -> None:
    events, expected = history(3, ["twice", "", "vanished"])
    channel.queue_declare("fedq.trace.t", durable=True, arguments={"x-queue-type": "stream"})
    batches: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        batches.setdefault((event["node"], event["batch"]), []).append(event)
    for batch in batches.values():
        channel.basic_publish("", "fedq.trace.t", body_of(batch))
    options = {"url": url, "stream": "fedq.trace.t"}
    verdict = spark.run("audit", options=options, place=str(tmp_path / "out"))
    assert found_in(verdict) == expected
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == verdict
    page = (tmp_path / "out" / "index.html").read_text()
    assert "never delivered" in page
    from pyarrow import parquet

    assert parquet.read_table(tmp_path / "out" / "findings.parquet").num_rows == len(expected)
    declare(channel, "no-trace")
    channel.basic_publish("", "no-trace", b'{"hello": 1}')
    error = spark.error(
        "audit", options={"url": url, "stream": "no-trace"}, place=str(tmp_path / "other")
    )
    assert "has 1 messages that are no trace" in error


def test_what_nodes_trace_keeps_the_promises(
    spark: Driver, cluster: Cluster, channel: BlockingChannel, url: str, tmp_path: Path
) -> None:
    """Real traffic: acknowledged, rejected, given back, expired, and repeated under a name."""
    cluster.ask("trace", "start", "real", "--vhost", "/", "--queue", "audited")
    channel.queue_declare("audited", durable=True)
    for number in range(1, 41):
        headers = {"x-fedq-publisher": "me", "x-fedq-sequence": (number + 1) // 2}
        named = pika.BasicProperties(delivery_mode=2, headers=headers)
        channel.basic_publish("", "audited", b"%d" % number, named)
    expiring = pika.BasicProperties(expiration="1")
    for number in range(40):
        channel.basic_publish("", "audited", b"plain", PERSISTENT if number % 8 else expiring)
    got = 0
    while True:
        method, _, _ = channel.basic_get("audited")
        if method is None:
            break
        got += not method.redelivered
        if method.delivery_tag % 7 == 0 and not method.redelivered:
            channel.basic_nack(method.delivery_tag)
        elif method.delivery_tag % 5 == 0:
            channel.basic_reject(method.delivery_tag, requeue=False)
        else:
            channel.basic_ack(method.delivery_tag)
    assert got >= 20 + 35
    cluster.ask("trace", "stop", "real")
    until("all nodes have written what they saw", lambda: stopped(channel, "fedq.trace.real"))
    options = {"url": url, "stream": "fedq.trace.real"}
    found = spark.run("audit", options=options, place=str(tmp_path / "out"))
    assert found["findings"] == []
    assert found["coverage"]["lost_events"] == 0
    assert found["verdicts"] == dict.fromkeys(("P1", "P2", "P3", "P4"), "kept")


def stopped(channel: BlockingChannel, stream: str) -> bool:
    """Whether all nodes have written that the trace is in force no more."""
    channel.basic_qos(prefetch_count=100)
    told: set[str] = set()
    arguments = {"x-stream-offset": "first"}
    for method, _, body in channel.consume(stream, arguments=arguments, inactivity_timeout=1):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        batch = decode(body)
        told |= {batch.head.node for each in batch.events if each.kind == STOPPED}
    channel.cancel()
    return len(told) == 3
