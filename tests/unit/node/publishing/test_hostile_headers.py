"""What a publisher writes into its headers stops nobody, whatever becomes of its message."""

import struct

import pytest

from fedq.amqp.methods import BasicGet, BasicGetOk, QueueDeclare, QueueDeclareOk
from fedq.amqp.values import FieldTable
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Cluster

#: The last one's unscaled value has no positive counterpart.
COUNTS = (b"T" + b"\xff" * 8, b"l\x7f" + b"\xff" * 7, b"D\0\x80\0\0\0")


def _sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _headers(count: bytes) -> bytes:
    """Properties of a persistent message that claims to have died of age in queue `q`."""
    entry = b"\5count" + count + b"\5queueS\0\0\0\1q\6reasonS\0\0\0\7expired"
    return b"\x30\0" + _sized(b"\7x-deathA" + _sized(b"F" + _sized(entry))) + b"\2"


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [1, 3])
def test_an_odd_count_of_deaths_dies_like_any_other_message(size: int, count: bytes) -> None:
    cluster = Cluster(size)
    client = cluster.client("n1")
    dlx: FieldTable = {
        "x-message-ttl": 50,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    client.ask(QueueDeclare("q", durable=True, arguments=dlx), QueueDeclareOk)
    client.write(publish(1, "", "q", b"odd", _headers(count)))
    cluster.pass_ms(300)
    assert client.ask(BasicGet("dead"), BasicGetOk).message_count == 0
    # It is read from disk, too, with all that was to be said of it.
    for name in list(cluster.hosts):
        cluster.kill(name)
    for name in list(cluster.hosts):
        cluster.start(name)
    cluster.pass_ms(5_000)
    assert cluster.client("n1").ask(BasicGet("dead"), BasicGetOk).redelivered
