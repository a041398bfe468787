"""What clients notice of ends: of channels, connections, and queues that go with a consumer."""

import pytest

from fedq.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from fedq.amqp.values import TableValue
from fedq.core.errors import NOT_FOUND
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster

BYE = encode_method(1, ChannelClose(200, "bye", 0, 0))


def kinds(heard: list[Method]) -> list[str]:
    return [type(method).__name__ for method in heard]


# --- auto-delete ---------------------------------------------------------------------------------


def leave(client: Client) -> None:
    client.ask(BasicCancel("c"), BasicCancelOk)


def close(client: Client) -> None:
    client.ask(ChannelClose(200, "bye", 0, 0), ChannelCloseOk)
    client.ask(ChannelOpen(), ChannelOpenOk)


@pytest.mark.parametrize("consumer_at", ["n1", "n2"])
@pytest.mark.parametrize("end", [leave, close])
def test_a_queue_that_went_with_its_last_consumer_can_be_declared_anew(
    consumer_at: str, end: object
) -> None:
    cluster = Cluster(3)
    owner, consumer = cluster.client("n1", channels=2), cluster.client(consumer_at)
    owner.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    consumer.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    assert callable(end)
    end(consumer)
    # Other properties: it is another queue. What is confirmed there stays there.
    consumer.ask(QueueDeclare("brief", durable=True), QueueDeclareOk)
    consumer.ask(ConfirmSelect(), ConfirmSelectOk)
    consumer.publish("brief", "precious")
    cluster.pass_ms(1_000)
    assert "BasicAck" in kinds(consumer.heard())
    again = owner.ask(QueueDeclare("brief", passive=True), QueueDeclareOk, 2)
    assert again.message_count == 1


@pytest.mark.parametrize("consumer_at", ["n1", "n2"])
def test_after_connection_close_ok_the_queues_that_went_with_it_are_gone(consumer_at: str) -> None:
    cluster = Cluster(3)
    consumer, next_one = cluster.client(consumer_at), cluster.client(consumer_at)
    consumer.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    consumer.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    consumer.ask(ConnectionClose(200, "bye", 0, 0), ConnectionCloseOk, 0)
    next_one.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    next_one.publish("brief", "precious")
    cluster.pass_ms(1_000)
    next_one.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    assert next_one.deliveries() == ["precious"]


def test_a_connection_can_be_closed_at_a_node_that_is_cut_off() -> None:
    cluster = Cluster(3)
    client = cluster.client("n3")
    client.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    client.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    cluster.cut("n3")
    client.ask(ConnectionClose(200, "bye", 0, 0), ConnectionCloseOk, 0)


def test_who_hangs_up_while_its_queues_go_is_not_written_to() -> None:
    cluster = Cluster(3)
    client, other = cluster.client("n2"), cluster.client("n1")
    client.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    client.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    client.write(encode_method(0, ConnectionClose(200, "bye", 0, 0)))
    cluster.turn()
    client.hang_up()
    cluster.pass_ms(1_000)
    assert client.heard() == []
    other.send(QueueDeclare("brief", passive=True))
    assert other.take(ChannelClose).reply_code == 404


def test_who_leaves_one_of_several_consumers_need_not_wait(
    cluster_of_three: tuple[Cluster, Client, Client],
) -> None:
    cluster, one, two = cluster_of_three
    one.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    for client in (one, two):
        client.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    leave(two)
    cluster.pass_ms(500)
    one.publish("brief", "a")
    assert one.deliveries() == ["a"]


def test_who_comes_while_the_queue_goes_hears_that_it_is_gone(
    cluster_of_three: tuple[Cluster, Client, Client],
) -> None:
    cluster, one, two = cluster_of_three
    one.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    one.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    one.write(encode_method(1, BasicCancel("c")))
    cluster.turn()
    two.send(BasicConsume("brief", "d"))
    cluster.pass_ms(1_000)
    assert one.has(BasicCancelOk)
    assert two.take(ChannelClose).reply_code == 404


@pytest.fixture
def cluster_of_three() -> tuple[Cluster, Client, Client]:
    cluster = Cluster(3)
    return cluster, cluster.client("n1"), cluster.client("n2")


# --- channel.close and connection.close ----------------------------------------------------------


def test_channel_close_does_not_overtake_a_publish_that_is_refused() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.write(publish(1, "nowhere", "k", b"x") + BYE)
    cluster.settle()
    refused, closed = client.heard()
    assert isinstance(refused, ChannelClose)
    assert refused.reply_code == 404
    assert isinstance(closed, ChannelCloseOk)


def test_connection_close_does_not_overtake_a_publish_that_is_refused() -> None:
    cluster = Cluster()
    client = cluster.client()
    end = encode_method(0, ConnectionClose(200, "bye", 0, 0))
    client.write(publish(1, "nowhere", "k", b"x") + end)
    cluster.settle()
    assert kinds(client.heard()) == ["ChannelClose", "ConnectionCloseOk"]


@pytest.mark.parametrize("queue_at", ["n1", "n2"])
def test_channel_close_waits_for_what_was_got_before(queue_at: str) -> None:
    cluster = Cluster(3)
    owner, client = cluster.client(queue_at), cluster.client("n2", channels=1)
    owner.ask(QueueDeclare("work", durable=True), QueueDeclareOk)
    owner.publish("work", "a")
    client.write(encode_method(1, BasicGet("work")) + BYE)
    cluster.wait_for(lambda: client.has(ChannelCloseOk))
    assert kinds(client.heard()) == ["BasicGetOk", "ChannelCloseOk"]
    client.ask(ChannelOpen(), ChannelOpenOk)
    again = client.ask(BasicGet("work"), BasicGetOk)
    assert again.redelivered
    assert client.heard() == [], "nothing of the old channel comes on the new one"


def test_what_consumers_held_is_back_before_close_ok() -> None:
    cluster = Cluster()
    client, other = cluster.client(), cluster.client()
    client.ask(QueueDeclare("work"), QueueDeclareOk)
    client.ask(BasicConsume("work", "c"), BasicConsumeOk)
    client.publish("work", "a", "b")
    assert client.deliveries() == ["a", "b"]
    client.ask(ChannelClose(200, "bye", 0, 0), ChannelCloseOk)
    counted = other.ask(QueueDeclare("work", passive=True), QueueDeclareOk)
    assert (counted.message_count, counted.consumer_count) == (2, 0)


def test_a_channel_can_be_closed_at_a_node_that_is_cut_off() -> None:
    cluster = Cluster(3)
    client = cluster.client("n3")
    client.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    client.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    cluster.cut("n3")
    cluster.pass_ms(1_000)
    client.send(ChannelClose(200, "bye", 0, 0))
    assert client.has(ChannelCloseOk)


def test_what_follows_the_clients_close_means_nothing() -> None:
    cluster = Cluster()
    client, other = cluster.client(), cluster.client()
    client.write(BYE + encode_method(1, QueueDeclare("late")) + encode_method(1, BasicQos(0, 1)))
    cluster.settle()
    assert kinds(client.heard()) == ["ChannelCloseOk"]
    other.send(QueueDeclare("late", passive=True))
    assert other.take(ChannelClose).reply_code == 404


def test_the_answer_to_connection_close_is_the_last_word() -> None:
    cluster = Cluster()
    client = cluster.client()
    end = encode_method(0, ConnectionClose(200, "bye", 0, 0))
    client.write(end + encode_method(1, QueueDeclare("late")))
    cluster.settle()
    assert [type(method) for method in client.heard()] == [ConnectionCloseOk]


# --- x-expires -----------------------------------------------------------------------------------


def expired(fragments: int = 1) -> Cluster:
    """Three nodes; the queue's time is over, and the map has not decided that it ends."""
    cluster = Cluster(3)
    arguments: dict[str, TableValue] = {"x-expires": 400, "x-fedq-fragments": fragments}
    cluster.client("n1").ask(QueueDeclare("brief", arguments=arguments), QueueDeclareOk)
    cluster.proposals_lost = True
    cluster.pass_ms(450)
    return cluster


@pytest.mark.parametrize("fragments", [1, 3])
@pytest.mark.parametrize("at", ["n1", "n2"])
def test_a_queue_that_may_be_going_is_not_said_to_be_there(at: str, fragments: int) -> None:
    cluster = expired(fragments)
    client, other = cluster.client(at, channels=2), cluster.client(at)
    client.send(QueueDeclare("brief", passive=True))
    other.send(BasicGet("brief"))
    cluster.pass_ms(50)
    assert not client.has(QueueDeclareOk)
    assert fragments > 1 or not other.has(BasicGetEmpty)
    cluster.proposals_lost = False
    cluster.pass_ms(1_000)
    assert client.take(ChannelClose).reply_code == NOT_FOUND


def test_who_declares_a_queue_that_is_going_gets_a_new_one() -> None:
    cluster = expired()
    client = cluster.client("n2")
    arguments: dict[str, TableValue] = {"x-expires": 400, "x-fedq-fragments": 1}
    client.send(QueueDeclare("brief", arguments=arguments))
    cluster.pass_ms(50)
    cluster.proposals_lost = False
    cluster.wait_for(lambda: client.has(QueueDeclareOk))
    client.take(QueueDeclareOk)
    cluster.pass_ms(300)
    client.ask(QueueDeclare("brief", passive=True), QueueDeclareOk)
