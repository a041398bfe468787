"""Several operations in one write: each sees what the ones before it have caused."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicNack,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    encode_method,
)
from fedq.amqp.values import FieldTable
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster


def asked(client: Client, *said: bytes | Method) -> None:
    """All of it in one write."""
    client.write(b"".join(s if isinstance(s, bytes) else encode_method(1, s) for s in said))
    client.cluster.pass_ms(300)


def names(client: Client) -> list[str]:
    """What was heard, in order."""
    said, client.said = client.said, []
    return [type(each.method if isinstance(each, Content) else each).__name__ for each in said]


class Place:
    """A queue of node n1, exclusive or shared, and a client that pipelines."""

    def __init__(self, client_at: str, exclusive: bool, arguments: FieldTable) -> None:
        self.cluster = Cluster(2)
        self.client = self.cluster.client(client_at, channels=2)
        owner = self.client if exclusive else self.cluster.client("n1")
        owner.ask(QueueDeclare("q", exclusive=exclusive, arguments=arguments), QueueDeclareOk)


KINDS = pytest.mark.parametrize(
    ("client_at", "exclusive"), [("n1", True), ("n1", False), ("n2", False)]
)


@KINDS
def test_a_waiting_consumer_comes_before_a_later_get(client_at: str, exclusive: bool) -> None:
    place = Place(client_at, exclusive, {})
    client = place.client
    client.ask(BasicConsume("q", "c"), BasicConsumeOk, 2)
    place.cluster.pass_ms(300)
    asked(client, publish(1, "", "q", b"m"), BasicGet("q"))
    assert sorted(names(client)) == ["BasicDeliver", "BasicGetEmpty"]


@KINDS
def test_what_expired_at_once_is_not_got(client_at: str, exclusive: bool) -> None:
    place = Place(client_at, exclusive, {})
    now = encode_properties({"expiration": "0"})
    asked(place.client, publish(1, "", "q", b"m", now), BasicGet("q"))
    assert names(place.client) == ["BasicGetEmpty"]


@KINDS
def test_what_is_over_the_length_is_not_got_and_not_counted(
    client_at: str, exclusive: bool
) -> None:
    place = Place(client_at, exclusive, {"x-max-length": 1})
    client = place.client
    three = [publish(1, "", "q", body) for body in (b"a", b"b", b"c")]
    asked(client, *three, QueueDeclare("q", passive=True), BasicGet("q"))
    assert client.take(QueueDeclareOk).message_count == 1
    assert client.take(BasicGetOk).message_count == 0


@pytest.mark.parametrize(
    ("method", "answer"),
    [(QueuePurge("q"), QueuePurgeOk(1)), (QueueDelete("q"), QueueDeleteOk(1))],
)
@KINDS
def test_what_is_over_the_length_is_neither_purged_nor_deleted(
    client_at: str, exclusive: bool, method: Method, answer: Method
) -> None:
    place = Place(client_at, exclusive, {"x-max-length": 1})
    asked(place.client, publish(1, "", "q", b"a"), publish(1, "", "q", b"b"), method)
    assert place.client.take(type(answer)) == answer


def test_a_new_consumer_gets_only_what_the_length_left() -> None:
    place = Place("n1", True, {"x-max-length": 1})
    asked(
        place.client, publish(1, "", "q", b"a"), publish(1, "", "q", b"b"), BasicConsume("q", "c")
    )
    assert place.client.deliveries() == ["b"]


@KINDS
def test_deliveries_come_before_cancel_ok(client_at: str, exclusive: bool) -> None:
    place = Place(client_at, exclusive, {})
    client = place.client
    client.ask(BasicConsume("q", "c"), BasicConsumeOk)
    place.cluster.pass_ms(300)
    asked(client, publish(1, "", "q", b"m"), BasicCancel("c"))
    assert names(client) == ["BasicDeliver", "BasicCancelOk"]


@KINDS
def test_what_was_given_back_is_there_for_a_later_get(client_at: str, exclusive: bool) -> None:
    place = Place(client_at, exclusive, {})
    client = place.client
    asked(client, publish(1, "", "q", b"m"), BasicGet("q"))
    tag = client.take(BasicGetOk).delivery_tag
    asked(client, BasicNack(tag, requeue=True), BasicGet("q"))
    assert client.take(BasicGetOk).redelivered


def test_nothing_is_handed_out_in_the_first_turn_after_a_pause_beyond_the_lease() -> None:
    cluster = Cluster(3)
    client = cluster.client("n2", channels=2)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    client.ask(BasicConsume("q", "c"), BasicConsumeOk, 2)
    cluster.now_ms += 5_000
    client.write(publish(1, "", "q", b"m") + encode_method(1, BasicGet("q")))
    cluster.turn()
    assert names(client) == []
