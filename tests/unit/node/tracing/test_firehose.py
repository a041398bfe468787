"""The firehose: publishes and deliveries once more, on an exchange of their own."""

from typing import Any

import pytest

from fedq.amqp.content import decode_properties, encode_properties
from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.errors import ACCESS_REFUSED
from fedq.core.ids import NodeId
from fedq.node.records.tracing import taps
from fedq.wiring.cluster_map.operations_access import AddVhost
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.tracing.traced import change, events, firehose, start
from tests.unit.node.uncompiled import only_uncompiled


def watcher(cluster: Cluster, node: str = "n1", key: str = "#") -> Client:
    """A client that hears what the firehose says."""
    client = cluster.client(node)
    client.ask(QueueDeclare("watch", exclusive=True), QueueDeclareOk)
    client.ask(QueueBind("watch", "amq.rabbitmq.trace", key), QueueBindOk)
    client.ask(BasicConsume("watch", "w", no_ack=True), BasicConsumeOk)
    cluster.settle()
    return client


def heard(client: Client) -> list[tuple[str, str, dict[str, Any]]]:
    """Keys, bodies and headers of what it heard since the last look."""
    client.cluster.pass_ms(200)
    said = [each for each in client.said if isinstance(each, Content)]
    client.said = [each for each in client.said if not isinstance(each, Content)]
    found = []
    for each in said:
        assert isinstance(each.method, BasicDeliver)
        headers: Any = decode_properties(each.properties)["headers"]
        found.append((each.method.routing_key, each.body.decode(), headers))
    return found


def test_a_publish_and_its_delivery_are_heard_with_what_rabbitmq_says_of_them() -> None:
    cluster = Cluster()
    watching, working = watcher(cluster), cluster.client()
    working.ask(QueueDeclare("q"), QueueDeclareOk)
    firehose(cluster, True)
    properties = encode_properties({"message_id": "m", "headers": {"n": 1}})
    working.write(publish(1, "", "q", b"body", properties))
    working.ask(BasicGet("q", no_ack=True), BasicGetOk)
    (key, body, put), (other, _, got) = heard(watching)
    assert (key, body, other) == ("publish.", "body", "deliver.q")
    assert put["properties"] == {"message_id": "m", "headers": {"n": 1}}
    assert (put["exchange_name"], put["routing_keys"]) == ("", ["q"])
    assert (put["routed_queues"], put["user"], put["vhost"]) == (["q"], "guest", "/")
    assert (put["channel"], put["node"]) == (1, "n1")
    assert got["redelivered"] == 0
    assert "routed_queues" not in got


def test_it_is_heard_on_any_node_and_only_while_it_is_on() -> None:
    cluster = Cluster(3)
    watching, working = watcher(cluster, "n3"), cluster.client("n1")
    working.ask(QueueDeclare("q"), QueueDeclareOk)
    working.publish("q", "before")
    firehose(cluster, True)
    working.publish("q", "on")
    assert [(key, body) for key, body, _ in heard(watching)] == [("publish.", "on")]
    firehose(cluster, False)
    working.publish("q", "after")
    assert heard(watching) == []
    assert all(cluster.node(name).state.tracer is None for name in cluster.hosts)


def test_another_virtual_host_is_not_heard() -> None:
    cluster = Cluster()
    watching, working = watcher(cluster), cluster.client()
    change(cluster, AddVhost("shop"))
    firehose(cluster, True, "shop")
    working.publish("nowhere", "x")
    assert heard(watching) == []


def test_a_binding_chooses_what_is_heard() -> None:
    cluster = Cluster()
    watching, working = watcher(cluster, key="deliver.q"), cluster.client()
    working.ask(QueueDeclare("q"), QueueDeclareOk)
    working.ask(ExchangeDeclare("x", "fanout"), ExchangeDeclareOk)
    working.ask(QueueBind("q", "x", ""), QueueBindOk)
    firehose(cluster, True)
    working.publish("", "a", "b", exchange="x")
    assert heard(watching) == []
    working.ask(BasicConsume("q", "c", no_ack=True), BasicConsumeOk)
    assert [body for _, body, _ in heard(watching)] == ["a", "b"]


def test_confirms_count_the_clients_publishes_alone() -> None:
    cluster = Cluster()
    watching, working = watcher(cluster), cluster.client()
    working.ask(ConfirmSelect(), ConfirmSelectOk)
    working.ask(QueueDeclare("q"), QueueDeclareOk)
    firehose(cluster, True)
    working.publish("q", "a", "b", "c")
    assert len(heard(watching)) == 3
    acked = [each for each in working.heard() if hasattr(each, "multiple")]
    assert [getattr(each, "delivery_tag") for each in acked][-1] == 3  # noqa: B009


@only_uncompiled
def test_what_is_beyond_a_turns_bound_is_left_out_and_told(monkeypatch: Any) -> None:
    monkeypatch.setattr(taps, "TAPS_MAX", 10)
    cluster = Cluster()
    watching, working = watcher(cluster), cluster.client()
    firehose(cluster, True)
    working.write(b"".join(publish(1, "", "nowhere", b"%d" % n) for n in range(50)))
    assert len(heard(watching)) == 10
    assert any(
        "the firehose left out 40 messages" in line for line in cluster.hosts[NodeId("n1")].story
    )


def test_names_that_fill_a_short_string_are_cut() -> None:
    cluster = Cluster()
    watching, working = watcher(cluster), cluster.client()
    name = "x" * 255
    working.ask(QueueDeclare(name), QueueDeclareOk)
    firehose(cluster, True)
    working.publish(name, "a")
    working.ask(BasicGet(name, no_ack=True), BasicGetOk)
    keys = [key for key, _, _ in heard(watching)]
    assert keys == ["publish.", ("deliver." + name)[:255]]


def test_properties_without_room_are_left_out() -> None:
    cluster = Cluster()
    watching, working = watcher(cluster), cluster.client()
    firehose(cluster, True)
    properties = encode_properties({"headers": {"long": "x" * 100_000}})
    working.write(publish(1, "", "nowhere", b"a", properties))
    ((_, body, headers),) = heard(watching)
    assert body == "a"
    assert len(headers["properties"].get("headers", {}).get("long", "")) in (0, 100_000)


@pytest.mark.parametrize("levels", [28, 29, 30, 31])
def test_headers_that_would_stand_too_deep_are_left_out(levels: int) -> None:
    """Else whoever reads them, another node above all, would refuse what this one says."""
    cluster = Cluster(2)
    watching, working = watcher(cluster, "n2"), cluster.client("n1")
    firehose(cluster, True)
    table: dict[str, Any] = {}
    for _ in range(levels):
        table = {"a": table}
    working.write(publish(1, "", "nowhere", b"a", encode_properties({"headers": table})))
    ((_, body, headers),) = heard(watching)
    assert body == "a"
    assert headers["properties"] == ({"headers": table} if levels < 30 else {})
    assert all(host.stops == 0 for host in cluster.hosts.values())


def test_dead_letters_of_what_it_said_are_not_heard() -> None:
    """Else one publish would be told of for ever."""
    cluster = Cluster()
    working = cluster.client()
    working.ask(ExchangeDeclare("dx", "fanout"), ExchangeDeclareOk)
    dying: Any = {"x-message-ttl": 0, "x-dead-letter-exchange": "dx"}
    working.ask(QueueDeclare("dying", arguments=dying), QueueDeclareOk)
    working.ask(QueueBind("dying", "amq.rabbitmq.trace", "deliver.#"), QueueBindOk)
    for number in range(2):
        working.ask(QueueDeclare(f"q{number}"), QueueDeclareOk)
        working.ask(QueueBind(f"q{number}", "dx", ""), QueueBindOk)
        working.ask(BasicConsume(f"q{number}", f"t{number}", no_ack=True), BasicConsumeOk)
    firehose(cluster, True)
    working.write(publish(1, "dx", "k", b"once"))
    cluster.pass_ms(2_000)
    # The message in both queues, and what was said of these deliveries, in both again.
    assert sum(isinstance(each, Content) for each in working.said) == 2 + 2 * 2


def test_it_takes_what_is_left_of_a_turn_and_no_more() -> None:
    cluster = Cluster(work_per_turn=2_000)
    working = cluster.client()
    for number in range(50):
        working.ask(QueueDeclare(f"q{number}"), QueueDeclareOk)
        working.ask(QueueBind(f"q{number}", "amq.rabbitmq.trace", "publish.#"), QueueBindOk)
    firehose(cluster, True)
    work = cluster.node("n1").state.work
    working.write(b"".join(publish(1, "", "nowhere", b"x") for _ in range(1_000)))
    least = 0
    while cluster.turn():
        least = min(least, work.left)
    assert least > -1_000


def test_keys_that_are_no_utf_8_are_heard_and_traced() -> None:
    cluster = Cluster()
    watching, working = watcher(cluster), cluster.client()
    firehose(cluster, True)
    start(cluster)
    data = publish(1, "", "k" * 3, b"a").replace(b"kkk", b"k\xffk")
    working.write(data)
    ((_, body, headers),) = heard(watching)
    assert (body, headers["routing_keys"]) == ("a", [b"k\xffk"])
    assert [event.routing_key for event in events(cluster) if event.kind == "accepted"] == [
        "k\ufffdk"
    ]


def test_nobody_publishes_to_it_nor_deletes_it() -> None:
    cluster = Cluster()
    for method in (ExchangeDelete("amq.rabbitmq.trace"), None):
        client = cluster.client()
        if method is not None:
            client.send(method)
        else:
            client.publish("x", "a", exchange="amq.rabbitmq.trace")
        cluster.wait_for(lambda: client.has(ChannelClose))  # noqa: B023
        assert client.take(ChannelClose).reply_code == ACCESS_REFUSED
    client = cluster.client()
    same = ExchangeDeclare("amq.rabbitmq.trace", "topic", durable=True, internal=True)
    client.ask(same, ExchangeDeclareOk)
