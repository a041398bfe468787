"""What expires, or is due, is so at its time and not with the next tick."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import TICK_MS, Client, Cluster

#: Turns for what is due come together, within this.
STEP_MS = 5


def deliver_times(client: Client, until: int) -> list[int]:
    """When each delivery came, looked at before each turn that a node asks for."""
    cluster, times = client.cluster, []
    start_ms = cluster.now_ms
    host = cluster.hosts[client.host.name]
    while cluster.now_ms < start_ms + until and 0 < host.due_ms < start_ms + TICK_MS:
        cluster.now_ms = host.due_ms
        host.due_ms = 0
        host.inbox.append(lambda _: None)
        cluster.settle()
        times += [cluster.now_ms - start_ms] * len(client.deliveries())
    return times


@pytest.mark.parametrize("exclusive", [False, True])
def test_messages_die_at_their_time(exclusive: bool) -> None:
    cluster = Cluster()
    client = cluster.client(channels=2)
    letters: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.ask(QueueDeclare("dead"), QueueDeclareOk)
    client.ask(QueueDeclare("brief", exclusive=exclusive, arguments=letters), QueueDeclareOk)
    client.ask(BasicConsume("dead", "c"), BasicConsumeOk, 2)
    lives = [7, 21, 22, 38]
    client.write(
        b"".join(
            publish(1, "", "brief", b"m", encode_properties({"expiration": str(life)}))
            for life in lives
        )
    )
    cluster.settle()
    times = deliver_times(client, TICK_MS)
    assert len(times) == len(lives)
    assert all(0 <= came - life <= STEP_MS for came, life in zip(times, lives, strict=True)), times


def test_delayed_messages_come_at_their_time() -> None:
    cluster = Cluster()
    client = cluster.client(channels=2)
    kind = ExchangeDeclare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    client.ask(kind, ExchangeDeclareOk)
    client.ask(QueueDeclare("work"), QueueDeclareOk)
    client.ask(QueueBind("work", "later"), QueueBindOk)
    client.ask(BasicConsume("work", "c"), BasicConsumeOk, 2)
    client.write(publish(1, "later", "", b"m", encode_properties({"headers": {"x-delay": 13}})))
    cluster.settle()
    (came,) = deliver_times(client, TICK_MS)
    assert 13 <= came <= 13 + STEP_MS


def test_what_expires_together_costs_few_turns() -> None:
    cluster = Cluster()
    client = cluster.client(channels=2)
    client.ask(QueueDeclare("brief", arguments={"x-message-ttl": 30}), QueueDeclareOk)
    host = cluster.hosts[client.host.name]
    client.write(
        b"".join(
            publish(1, "", "brief", b"m", encode_properties({"expiration": str(life)}))
            for life in range(1, 31)
        )
    )
    cluster.settle()
    turns, start_ms = 0, cluster.now_ms
    while 0 < host.due_ms < start_ms + TICK_MS:
        cluster.now_ms, host.due_ms = host.due_ms, 0
        host.inbox.append(lambda _: None)
        cluster.settle()
        turns += 1
    assert turns <= 30 // STEP_MS + 1
    counted = client.ask(QueueDeclare("brief", passive=True), QueueDeclareOk)
    assert counted.message_count == 0
