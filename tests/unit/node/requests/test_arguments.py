"""Arguments are kept on every node for as long as what has them: each thing may have a few KiB."""

import pytest

from fedq.amqp.methods import (
    ChannelClose,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core import limits
from tests.unit.node.harness import Cluster

#: One byte of a client is six in the map's JSON.
LARGE: FieldTable = {"x": "\x01" * (limits.ARGUMENTS_BYTES_MAX // 6 + 1)}


@pytest.mark.parametrize(
    "request_",
    [
        ExchangeDeclare("e", "direct", arguments=LARGE),
        QueueDeclare("q", arguments=LARGE),
        QueueDeclare("mine", exclusive=True, arguments=LARGE),
        QueueDeclare("", exclusive=True, arguments=LARGE),
        QueueBind("shared", "amq.topic", "k", arguments=LARGE),
        QueueBind("private", "amq.topic", "k", arguments=LARGE),
        ExchangeBind("amq.fanout", "amq.topic", "k", arguments=LARGE),
    ],
)
def test_arguments_beyond_a_few_kib_are_refused_with_a_sentence(request_: Method) -> None:
    cluster = Cluster(1)
    client = cluster.client()
    client.ask(QueueDeclare("shared"), QueueDeclareOk)
    client.ask(QueueDeclare("private", exclusive=True), QueueDeclareOk)
    closed = client.ask(request_, ChannelClose)
    assert closed.reply_code == 406
    assert "use fewer or shorter ones" in closed.reply_text


def test_arguments_of_the_size_that_clients_use_are_taken() -> None:
    client = Cluster(1).client()
    headers: FieldTable = {f"header-{number}": "value" * 10 for number in range(50)}
    client.ask(ExchangeDeclare("e", "headers", arguments=headers), ExchangeDeclareOk)
    client.ask(QueueDeclare("q", arguments=headers), QueueDeclareOk)
    client.ask(QueueBind("q", "e", arguments=headers), QueueBindOk)
