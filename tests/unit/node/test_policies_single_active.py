"""One active consumer, or the highest rank, wherever the next is, with messages on their way."""

from collections.abc import Callable

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import ConnectionId, NodeId
from fedq.node.node import Node
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster

Leave = Callable[[Node, ConnectionId], None]


def cancel(node: Node, connection: ConnectionId) -> None:
    node.on_bytes(connection, encode_method(1, BasicCancel("first")))


def hang_up(node: Node, connection: ConnectionId) -> None:
    node.on_disconnected(connection)


class Stage:
    """The first consumer and the third are on one node, the second on another one."""

    def __init__(self, ranks: dict[str, int] | None = None, single: bool = True) -> None:
        self.cluster = Cluster(3)
        arguments: FieldTable = {"x-single-active-consumer": single}
        declare = QueueDeclare("orders", durable=True, arguments=arguments)
        self.cluster.client().ask(declare, QueueDeclareOk)
        self.home = self.cluster.primary_of("orders")
        here, there = (name for name in self.cluster.hosts if name != self.home)
        self.first, self.second, self.third = map(self.cluster.client, (here, there, here))
        for tag in ("first", "second", "third"):
            priority: FieldTable = {"x-priority": (ranks or {}).get(tag, 0)}
            getattr(self, tag).ask(BasicConsume("orders", tag, arguments=priority), BasicConsumeOk)
        self.publisher = self.cluster.client(self.home)

    def leave_while_messages_come(self, leave: Leave) -> None:
        """The fragment has sent messages when the first consumer goes."""
        self.publisher.write(b"".join(publish(1, "", "orders", body) for body in (b"a", b"b")))
        self.cluster._turn(self.cluster.hosts[NodeId(self.home)])
        host, connection = self.first.host, self.first.connection
        host.inbox.insert(0, lambda node: leave(node, connection))


def bodies(client: Client) -> list[str]:
    return [body.removeprefix("again: ") for body in client.deliveries()]


@pytest.mark.parametrize("leave", [cancel, hang_up])
def test_what_was_on_its_way_goes_to_the_next_in_order(leave: Leave) -> None:
    stage = Stage()
    stage.leave_while_messages_come(leave)
    stage.cluster.settle()
    assert bodies(stage.third) == [], "it is not its turn"
    assert bodies(stage.second) == ["a", "b"]
    stage.second.hang_up()
    assert bodies(stage.third) == ["a", "b"]


@pytest.mark.parametrize("ranks", [None, {"first": 5, "second": 1, "third": 0}])
def test_what_comes_together_with_the_word_that_all_have_heard_is_not_for_the_next_one_here(
    ranks: dict[str, int] | None,
) -> None:
    stage = Stage(ranks, single=ranks is None)
    cluster, host = stage.cluster, stage.first.host
    stage.leave_while_messages_come(cancel)
    leaves, *late = host.inbox
    host.inbox = [leaves]
    cluster._turn(host)
    cluster._turn(cluster.hosts[NodeId(stage.home)])
    host.inbox[:0] = late
    cluster.settle()
    assert bodies(stage.third) == []
    assert bodies(stage.second) == ["a", "b"]


@pytest.mark.parametrize("leave", [cancel, hang_up])
def test_what_was_on_its_way_to_a_higher_rank_goes_to_the_next_rank_elsewhere(
    leave: Leave,
) -> None:
    stage = Stage({"first": 5, "second": 1, "third": 0}, single=False)
    stage.leave_while_messages_come(leave)
    stage.cluster.settle()
    assert bodies(stage.third) == [], "a lower rank"
    assert bodies(stage.second) == ["a", "b"]
    stage.second.send(BasicCancel("second"))
    stage.publisher.publish("orders", "c")
    assert bodies(stage.third) == ["c"]


def test_a_second_consumer_that_comes_while_credit_is_used_does_not_double_it() -> None:
    cluster = Cluster(3)
    declare = QueueDeclare("orders", arguments={"x-single-active-consumer": True})
    cluster.client().ask(declare, QueueDeclareOk)
    home = cluster.primary_of("orders")
    away = next(name for name in cluster.hosts if name != home)
    cluster.client(home).publish("orders", *"abcdefgh")
    first, second = cluster.client(away), cluster.client(away)
    consume = encode_method(1, BasicQos(0, 3)) + encode_method(1, BasicConsume("orders", "mine"))
    # Each asks, and is admitted, in a turn of its own; so its node gives credit twice.
    first.write(consume)
    take_one_by_one(cluster, away)
    second.write(consume)
    for name in (away, home, away, home):
        take_one_by_one(cluster, name)
    cluster.settle()
    assert first.deliveries() == ["a", "b", "c"]
    first.send(BasicAck(0, True))
    assert first.deliveries() == ["d", "e", "f"], "nobody has seen them before"
    assert second.deliveries() == []


def take_one_by_one(cluster: Cluster, name: str) -> None:
    """All that has come to the node is taken in, each in a turn of its own."""
    host = cluster.hosts[NodeId(name)]
    came, host.inbox = host.inbox, []
    for each in came:
        later, host.inbox = host.inbox, [each]
        cluster._turn(host)
        host.inbox[:0] = later


def test_the_next_in_order_has_its_turn_when_the_primary_dies_meanwhile() -> None:
    stage = Stage()
    stage.leave_while_messages_come(cancel)
    stage.cluster.kill(stage.home)
    stage.cluster.wait_for(lambda: stage.cluster.primary_of("orders") != stage.home)
    stage.third.publish("orders", "c")
    stage.cluster.pass_ms(1_000)
    assert bodies(stage.third) == []
    assert bodies(stage.second)[-1] == "c"
