"""Traces and the firehose of three real nodes: started by the command line, read with pika."""

from collections.abc import Iterator
from typing import Any

import pytest

from fedq.core.trace_records import Event, decode
from tests.integration.firehose_story import STORY, tell
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, Address, connect
from tests.integration.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("traces"), ("a", "b", "c")) as running:
        # It comes once all nodes have said which release they are.
        until("the firehose has its exchange", lambda: has_exchange(running))
        yield running


def has_exchange(cluster: Cluster) -> bool:
    names = [each["name"] for each in cluster.ask("exchange", "list", node="b")["exchanges"]]
    return "amq.rabbitmq.trace" in names


def read(address: Address, stream: str) -> list[Event]:
    """All events in the stream of a trace that all nodes have stopped."""
    found: list[Event] = []
    connection = connect(address)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)

    def take(_: Any, method: Any, properties: Any, body: bytes) -> None:
        assert properties.content_type == "application/x-ndjson"
        assert properties.type == "fedq.trace.1"
        found.extend(decode(body).events)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(stream, take, arguments={"x-stream-offset": "first"})

    def is_read() -> bool:
        connection.process_data_events(0.1)
        return sum(event.kind == "stopped" for event in found) == 3

    until(f"all is read from {stream}", is_read)
    connection.close()
    return found


def test_a_trace_tells_what_happened_to_messages(cluster: Cluster) -> None:
    begun = cluster.ask("trace", "start", "orders", "--vhost", "/", "--queue", "jobs")
    assert (begun["created"], begun["stream"]) == (True, "fedq.trace.orders")
    again = cluster.ask("trace", "start", "orders", "--vhost", "/", "--queue", "jobs")
    assert again["created"] is False
    listed = cluster.ask("trace", "list", node="c")
    assert [trace["name"] for trace in listed["traces"]] == ["orders"]
    publisher = connect(cluster.nodes["a"].amqp)
    channel = publisher.channel()
    channel.queue_declare("graves", durable=True)
    dying = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
    channel.queue_declare("jobs", durable=True, arguments={**dying, "x-message-ttl": 1_000})
    channel.confirm_delivery()
    for number in range(4):
        channel.basic_publish("", "jobs", b"%d" % number, PERSISTENT)
    consumer = connect(cluster.nodes["b"].amqp)
    taking = consumer.channel()
    taking.basic_qos(prefetch_count=2)
    taken = []
    for method, _, body in taking.consume("jobs", inactivity_timeout=5):
        assert method is not None
        taken.append((body, method.redelivered))
        if len(taken) == 2:
            taking.basic_reject(method.delivery_tag, requeue=False)
            break
        taking.basic_ack(method.delivery_tag)
    taking.close()
    consumer.close()

    def all_died() -> bool:
        return bool(channel.queue_declare("graves", passive=True).method.message_count == 3)

    until("what is left expires", all_died)
    cluster.ask("trace", "stop", "orders", node="b")
    found = read(cluster.nodes["c"].amqp, "fedq.trace.orders")
    publisher.close()
    by_kind: dict[str, list[Event]] = {}
    for event in found:
        by_kind.setdefault(event.kind, []).append(event)
    assert "gap" not in by_kind
    assert _count(by_kind["accepted"], "sequences") == 4
    assert _count(by_kind["routed"], "numbers") == _count(by_kind["enqueued"], "positions") == 4
    assert _count(by_kind["confirmed"], "sequences") == 4
    assert _count(by_kind["acked"], "positions") == 1
    assert _count(by_kind["rejected"], "positions") == 1
    dead = {event.reason for event in by_kind["dead_lettered"]}
    assert dead == {"rejected", "expired"}
    assert _count(by_kind["dead_lettered"], "positions") == 3
    assert {event.queue for event in found if event.queue} == {"jobs"}
    assert cluster.ask("trace", "list")["traces"] == []


def _count(events: list[Event], what: str) -> int:
    return sum(last - first + 1 for event in events for first, last in getattr(event, what))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("start", "a name"), "no name of a trace"),
        (("start", "x", "--queue", "q"), "needs the virtual host"),
        (("start", "x", "--vhost", "no"), "does not exist"),
        (("start", "x", "--max-age", "soon"), "x-max-age"),
        (("start", "x", "--max-bytes", "5"), "max_bytes"),
        (("stop", "no"), "no trace named"),
        (("firehose", "maybe"), "neither on nor off"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(
    cluster: Cluster, command: tuple[str, ...], words: str
) -> None:
    with pytest.raises(LookupError, match=words):
        cluster.ask("trace", *command)


def test_the_firehose_is_what_users_of_rabbitmq_know(cluster: Cluster) -> None:
    def switch(on: bool) -> None:
        cluster.ask("trace", "firehose", "on" if on else "off")

    assert tell(cluster.nodes["b"].amqp, switch) == STORY
