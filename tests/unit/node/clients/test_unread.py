"""What a client asks for and does not read: it waits, so that few bytes cannot hold many."""

import pytest

from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from fedq.core.ids import NodeId
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster

KIB = 1024
MIB = 1024 * KIB


def stops_reading(cluster: Cluster, client: Client) -> None:
    """The client's socket is full, as its driver says."""
    connection = client.connection
    client.host.inbox.append(lambda node: node.on_writable(connection, False))
    cluster.settle()


def reads_again(cluster: Cluster, client: Client) -> None:
    connection = client.connection
    client.host.inbox.append(lambda node: node.on_writable(connection, True))
    cluster.settle()


class Stuck:
    """The bytes that a client got: its socket is full as soon as it holds what a real one may."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.held = 0
        self._cluster, self._client = cluster, client
        client.receive = self._receive  # type: ignore[method-assign]

    def _receive(self, data: bytes) -> None:
        if self.held <= 256 * KIB < self.held + len(data):
            connection = self._client.connection
            self._client.host.inbox.append(lambda node: node.on_writable(connection, False))
        self.held += len(data)


def in_bytes(*methods: Method, channel: int = 1) -> bytes:
    return b"".join(encode_method(channel, method) for method in methods)


def stored(cluster: Cluster, size: int, count: int = 1) -> None:
    owner = cluster.client("n1")
    owner.ask(QueueDeclare("q"), QueueDeclareOk)
    owner.publish("q", *["x" * size] * count)
    cluster.pass_ms(200)


def test_gets_that_are_not_read_hold_one_message_not_all_of_them() -> None:
    cluster = Cluster()
    stored(cluster, 300 * KIB)
    client = cluster.client()
    stuck = Stuck(cluster, client)
    client.write(b"".join(in_bytes(BasicGet("q"), BasicReject(tag, True)) for tag in range(1, 201)))
    cluster.pass_ms(1_000)
    assert stuck.held < 2 * 300 * KIB + 1_000
    assert not client.is_read


def test_who_reads_gets_all_that_it_asked_for() -> None:
    cluster = Cluster()
    stored(cluster, 300 * KIB)
    client = cluster.client()
    client.write(b"".join(in_bytes(BasicGet("q"), BasicReject(n, True)) for n in range(1, 21)))
    cluster.wait_for(lambda: len(client.said) == 20)
    assert [client.take(BasicGetOk).delivery_tag for _ in range(20)] == list(range(1, 21))
    assert client.is_read


def test_what_waited_is_answered_in_order_when_the_client_reads_again() -> None:
    cluster = Cluster()
    stored(cluster, 10)
    client = cluster.client()
    stops_reading(cluster, client)
    client.send(QueueDeclare("q", passive=True), BasicGet("q", no_ack=True))
    assert client.said == []
    assert not client.is_read
    reads_again(cluster, client)
    assert client.take(QueueDeclareOk).message_count == 1
    assert client.take(BasicGetOk).delivery_tag == 1
    assert client.is_read


@pytest.mark.parametrize("confirmed", [False, True])
def test_returns_are_not_heaped_up_for_who_does_not_read_them(confirmed: bool) -> None:
    cluster = Cluster()
    client = cluster.client()
    if confirmed:
        client.ask(ConfirmSelect(), ConfirmSelectOk)
    stuck = Stuck(cluster, client)
    for _ in range(100):
        if client.is_read:
            client.write(publish(1, "", "nowhere", b"x" * 64 * KIB, bits=1))
            cluster.settle()
    assert stuck.held < 2 * 256 * KIB
    assert not client.is_read


def test_settlements_and_unanswered_publishes_of_a_slow_reader_take_effect() -> None:
    cluster = Cluster()
    stored(cluster, 10)
    client, other = cluster.client(), cluster.client()
    client.ask(BasicGet("q"), BasicGetOk)
    stops_reading(cluster, client)
    client.send(BasicReject(1, True))
    client.publish("q", "another")
    assert other.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 2
    assert client.is_read


def test_answers_of_other_nodes_wait_for_the_reader_too() -> None:
    cluster = Cluster(2)
    stored(cluster, 300 * KIB, 10)
    client = cluster.client("n2", channels=20)
    stuck = Stuck(cluster, client)
    client.write(b"".join(in_bytes(BasicGet("q"), channel=n) for n in range(1, 21)))
    cluster.pass_ms(2_000)
    assert stuck.held < 3 * 300 * KIB
    reader = cluster.client("n1")
    reader.ask(BasicConsume("q", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(1_000)
    held = cluster.node("n2").state.clients[client.connection].channels
    with_client = sum(len(channel.unacked) for channel in held.values())
    assert len(reader.deliveries()) + with_client == 10, "what was not answered is in the queue"


def test_who_reads_nothing_is_cut_off_when_the_node_has_no_room_for_it() -> None:
    cluster = Cluster(1, memory_bytes_max=4 * MIB)
    stored(cluster, 600 * KIB)
    clients = [cluster.client() for _ in range(4)]
    sockets = [Stuck(cluster, client) for client in clients]
    for client in clients:
        client.write(in_bytes(BasicGet("q"), BasicReject(1, True)))
        cluster.settle()
    assert sum(stuck.held for stuck in sockets) < 3 * 601 * KIB, "a quarter is all that there is"
    innocent = cluster.client()
    innocent.send(BasicGet("q", no_ack=True))
    cluster.wait_for(lambda: innocent.has(BasicGetOk))
    assert NodeId("n1") in cluster.hosts
    assert len(cluster.node("n1").state.clients) < 6, "who held the room has lost its connection"
