"""`fedq pipeline audit` on Spark: each planted fault by name, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedq.core.trace_records import STOPPED, decode
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, BlockingChannel, connect, pika
from tests.integration.waiting import until
from tests.pipeline.jobs.histories import BEGIN_MS, NODES, PLANTS, Event, Finding, history, judged
from tests.pipeline.spark.conftest import Driver, killing
from tests.pipeline.spark.test_streaming import declare

#: Each judgement is planned for longer than a lane of `make test` may take: `make spark-all`.
pytestmark = pytest.mark.sweep
HEAD = ("node", "incarnation", "batch", "place", "true_ms")


def found_in(verdict: dict[str, Any]) -> list[Finding]:
    return sorted(
        Finding(each["promise"], each["rule"], each["fragment"],
                -1 if each["position"] is None else each["position"])
        for each in verdict["findings"]
    )  # fmt: skip


def test_it_agrees_with_a_loop_over_many_histories(spark: Driver) -> None:
    """Some queues, which do not know each other, and one that has more than all of them."""
    events, expected = history(77, ["", *PLANTS] * 2)
    large, of_large = history(9, ["overtaken"], count=2_000)
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


def of_a_node_that_was_killed() -> list[Event]:
    """Node b leads a fragment, and is killed: what it saw at last it had no time to write.

    Publishes 1 and 2 are there; it acknowledged 1 as its consumer's node, too. Number 3 was
    confirmed, and delivered by the next primary, but nobody says where it is. Number 4 comes long
    after, is confirmed, and in no queue.
    """
    base = 1 << 40
    channel: dict[str, Any] = {"connection": 3, "channel": 1}
    queue: dict[str, Any] = {"vhost": "/", "queue": "q", "fragment": 5}
    first, second = {**queue, "reign": 1}, {**queue, "reign": 2}
    shown = [[base + 2, base + 3]]

    def told(node: str, at_ms: int, kind: str, incarnation: int = 1, **fields: Any) -> Event:
        return {"node": node, "incarnation": incarnation, "kind": kind, "ms": BEGIN_MS + at_ms,
                **fields}  # fmt: skip

    def published(number: int, at_ms: int, **where: Any) -> list[Event]:
        numbers = [[number, number]]
        return [
            told("a", at_ms, "routed", sequences=numbers, numbers=numbers, **channel, **where),
            told("a", at_ms + 10, "confirmed", sequences=numbers, **channel),
        ]

    def enqueued(number: int, at_ms: int) -> Event:
        places = [[base + number, base + number]]
        return told("b", at_ms, "enqueued", numbers=[[number, number]], positions=places,
                    origin="a", origin_incarnation=1, **first)  # fmt: skip

    events = [
        *(told(node, 0, "started") for node in "abc"),
        told("b", 1, "leads", **first), told("b", 2, "standing", **first),
        *published(1, 30_000, **first), enqueued(1, 30_005),
        *published(2, 31_000, **first), enqueued(2, 31_005),
        *published(3, 31_950, **first),
        told("c", 34_000, "leads", **second),
        told("c", 34_001, "standing", positions=[[base + 2, base + 3]], amount=2, **second),
        told("b", 36_000, "started", 2),
        told("c", 40_000, "delivered", positions=shown, consumer="x", tags=[[1, 2]],
             connection=4, channel=1, **second),
        *published(4, 60_000, **second),
        told("c", 90_000, "standing", positions=[[base + 2, base + 3]], amount=2, **second),
        *(told(node, 99_000, "stopped", 2 if node == "b" else 1) for node in "abc"),
    ]  # fmt: skip
    for place, event in enumerate(events):
        event |= {"batch": 1, "place": place}
    return events


def test_what_a_process_had_no_time_to_write_is_undecided(spark: Driver) -> None:
    """Before, P1 was refuted of a healthy cluster one of whose nodes was killed."""
    events = of_a_node_that_was_killed()
    verdict = spark.run("judge", events=events)
    assert found_in(verdict) == [Finding("P1", "confirmed, in no queue", 5, -1)]
    assert " as publish 4 of channel 1 of connection 3 at a" in verdict["findings"][0]["text"]
    assert verdict["undecided"] == 2
    healthy = [event for event in events if event.get("sequences") != [[4, 4]]]
    verdict = spark.run("judge", events=healthy)
    assert (verdict["findings"], verdict["undecided"]) == ([], 2)
    assert verdict["verdicts"]["P1"] == "open"
    assert verdict["verdicts"]["P2"] == "kept"
    # Had it ended with a word, all of that were findings.
    at_ms = BEGIN_MS + 33_000
    word = {"node": "b", "incarnation": 1, "kind": "stopped", "ms": at_ms, "batch": 1, "place": 999}
    verdict = spark.run("judge", events=[*healthy, word])
    assert found_in(verdict) == [
        Finding("P1", "confirmed, in no queue", 5, -1),
        Finding("P1", "confirmed, never delivered", 5, (1 << 40) + 1),
    ]
    assert verdict["undecided"] == 0


def test_a_primary_that_nobody_heard_of_leaves_its_publishes_undecided(spark: Driver) -> None:
    """It led for a moment, between two others, and its node never came back."""
    events = of_a_node_that_was_killed()
    for event in events:
        if event.get("sequences") == [[4, 4]] and event["kind"] == "routed":
            event["reign"] = 3
    verdict = spark.run("judge", events=events)
    assert (verdict["findings"], verdict["undecided"]) == ([], 3)


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


def test_a_primary_that_is_killed_right_after_a_confirm_refutes_nothing(
    spark: Driver, cluster: Cluster, url: str, tmp_path: Path
) -> None:
    """What it had no time to write nobody else has: that is undecided."""
    connection = connect(cluster.nodes["a"].amqp)
    arguments = {"x-fedq-replicas": 3}
    connection.channel().queue_declare("survived", durable=True, arguments=arguments)
    cluster.ask("trace", "start", "killed", "--vhost", "/", "--queue", "survived")
    connection.close()
    cluster.wait_whole("survived")
    primary = cluster.primary_of("survived")
    other = next(name for name in cluster.nodes if name != primary)
    connection = connect(cluster.nodes[other].amqp, heartbeat=0)
    channel = connection.channel()
    channel.confirm_delivery()
    with killing(cluster):
        for number in range(50):
            # Each returns when it is confirmed.
            channel.basic_publish("", "survived", b"%d" % number, PERSISTENT)
        cluster.kill(primary)
        channel.basic_publish("", "survived", b"after", PERSISTENT)
        got = 0
        while got < 51:
            method, _, _ = channel.basic_get("survived", auto_ack=True)
            got += method is not None
    cluster.ask("trace", "stop", "killed")
    until("all nodes have written", lambda: stopped(channel, "fedq.trace.killed"))
    options = {"url": url, "stream": "fedq.trace.killed"}
    found = spark.run("audit", options=options, place=str(tmp_path / "out"))
    connection.close()
    assert found["findings"] == []
    # Unless the node was so slow to die that it wrote all.
    assert found["verdicts"]["P1"] == ("open" if found["undecided"] else "kept")
