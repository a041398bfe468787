"""One active consumer, wherever the next one is, with messages on their way to the last one."""

from collections.abc import Callable

import pytest

from fedq.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
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

    def __init__(self) -> None:
        self.cluster = Cluster(3)
        arguments = {"x-single-active-consumer": True}
        declare = QueueDeclare("orders", durable=True, arguments={**arguments})
        self.cluster.client().ask(declare, QueueDeclareOk)
        self.home = self.cluster.primary_of("orders")
        here, there = (name for name in self.cluster.hosts if name != self.home)
        self.first, self.second, self.third = map(self.cluster.client, (here, there, here))
        for tag in ("first", "second", "third"):
            getattr(self, tag).ask(BasicConsume("orders", tag), BasicConsumeOk)
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


def test_the_next_in_order_has_its_turn_when_the_primary_dies_meanwhile() -> None:
    stage = Stage()
    stage.leave_while_messages_come(cancel)
    stage.cluster.kill(stage.home)
    stage.cluster.wait_for(lambda: stage.cluster.primary_of("orders") != stage.home)
    stage.third.publish("orders", "c")
    stage.cluster.pass_ms(1_000)
    assert bodies(stage.third) == []
    assert bodies(stage.second)[-1] == "c"
