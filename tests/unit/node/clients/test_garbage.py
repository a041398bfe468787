"""What clients leave behind goes by itself: nothing that only a garbage collector would find.

`fedq.shell.host.process` relies on it: what has survived for a while is never looked through again.
"""

import gc
from collections.abc import Callable

import pytest

from fedq.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    ChannelClose,
    ConfirmSelect,
    ConnectionClose,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxSelect,
    encode_method,
)
from tests.unit.node.harness import Client, Cluster

Habit = Callable[[Client], None]
REPLIES = "amq.rabbitmq.reply-to"


def says(*methods: Method) -> Habit:
    """A client that says these things, one after the other."""

    def say(client: Client) -> None:
        for method in methods:
            client.send(method)
        client.publish("", "x", exchange="amq.fanout")

    return say


def subscribes_to(no_ack: bool, **arguments: int) -> Habit:
    """A client with a queue of its own, and what a publish brings there."""
    return says(
        QueueDeclare(exclusive=True, arguments={**arguments}),
        QueueBind(exchange="amq.fanout"),
        BasicConsume(consumer_tag="c", no_ack=no_ack),
    )


def breaks_a_rule(client: Client) -> None:
    client.send(QueueDelete("nobody's", if_empty=True))
    client.write(encode_method(9, QueueDeclare()))
    client.cluster.settle()


HABITS: dict[str, Habit] = {
    "connects": lambda client: None,
    "consumes without acknowledging": subscribes_to(True),
    "holds deliveries": subscribes_to(False),
    "has limits": subscribes_to(True, **{"x-max-length": 2, "x-message-ttl": 60_000}),
    "consumes a shared queue": says(QueueDeclare("shared"), BasicQos(0, 1, False), BasicConsume()),
    "cancels": says(QueueDeclare("shared"), BasicConsume(consumer_tag="c"), BasicCancel("c")),
    "gets and gives back": says(QueueDeclare("shared"), BasicGet(), BasicNack(0, True, True)),
    "confirms": says(ConfirmSelect()),
    "transacts": says(QueueDeclare("shared"), TxSelect(), BasicGet(), TxCommit()),
    "asks for replies": says(BasicConsume(REPLIES, no_ack=True)),
    "closes its channel": says(ChannelClose(200, "", 0, 0)),
    "breaks a rule": breaks_a_rule,
    "names a queue": says(QueueDeclare("mine", exclusive=True), BasicConsume("mine")),
}


@pytest.mark.parametrize("politely", [True, False], ids=["closes", "hangs up"])
@pytest.mark.parametrize("habit", HABITS)
def test_a_client_that_goes_leaves_no_cycle(habit: str, politely: bool) -> None:
    cluster = Cluster()
    neighbour = cluster.client()

    def come_and_go() -> None:
        client = cluster.client()
        HABITS[habit](client)
        neighbour.publish("", "y", exchange="amq.fanout")
        if politely:
            client.write(encode_method(0, ConnectionClose(200, "", 0, 0)))
            cluster.settle()
        client.hang_up()
        cluster.pass_ms(1_000)

    come_and_go()
    gc.collect()
    gc.disable()
    try:
        come_and_go()
        assert gc.collect() == 0
    finally:
        gc.enable()
