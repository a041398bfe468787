"""Names and arguments as RabbitMQ takes them, and whose name a publisher may give."""

import re

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicConsume,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from fedq.amqp.values import FieldTable
from fedq.wiring.cluster_map.operations_access import SetTags
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client(channels=4)


# --- line ends -----------------------------------------------------------------------------------


def test_line_ends_are_no_part_of_a_queues_name(client: Client) -> None:
    assert client.ask(QueueDeclare("wo\r\nrk"), QueueDeclareOk).queue == "work"
    assert client.ask(QueueDeclare("\nwork", passive=True), QueueDeclareOk).queue == "work"
    client.ask(QueueBind("wo\nrk", "amq.fan\rout"), QueueBindOk)
    client.publish("", "a", exchange="amq.fanout")
    assert client.ask(BasicGet("work"), BasicGetOk).message_count == 0
    client.ask(QueueUnbind("wo\nrk", "amq.fan\rout"), QueueUnbindOk)
    client.publish("", "b", exchange="amq.fanout")
    assert client.ask(QueueDelete("work\r\n"), QueueDeleteOk).message_count == 0
    refused = client.ask(QueueDeclare("work", passive=True), ChannelClose)
    assert refused.reply_text == "NOT_FOUND - no queue 'work' in vhost '/'"


def test_line_ends_are_no_part_of_an_exchanges_name(client: Client) -> None:
    client.ask(ExchangeDeclare("ev\nents", "fanout"), ExchangeDeclareOk)
    client.ask(ExchangeDeclare("events", passive=True), ExchangeDeclareOk)
    client.ask(ExchangeBind("events\r", "amq.\nfanout"), ExchangeBindOk)
    client.ask(ExchangeDelete("\revents"), ExchangeDeleteOk)
    assert client.ask(ExchangeDeclare("events", passive=True), ChannelClose).reply_code == 404


def test_reserved_names_cannot_be_had_by_line_ends(client: Client) -> None:
    assert client.ask(QueueDeclare("am\nq.mine"), ChannelClose).reply_code == 403


def test_line_ends_alone_do_not_stand_for_the_last_declared_queue(client: Client) -> None:
    client.ask(QueueDeclare("work"), QueueDeclareOk)
    client.ask(QueueDelete("\r\n"), QueueDeleteOk)
    client.ask(QueueDeclare("work", passive=True), QueueDeclareOk)
    assert client.ask(QueueBind("\n", "amq.fanout"), ChannelClose).reply_code == 404
    made = client.ask(QueueDeclare("\r\n", exclusive=True), QueueDeclareOk, 2).queue
    assert made.startswith("amq.gen-")


def test_names_are_taken_literally_where_rabbitmq_does(client: Client) -> None:
    client.ask(QueueDeclare("work"), QueueDeclareOk)
    assert client.ask(BasicGet("wo\nrk"), ChannelClose).reply_code == 404
    client.write(publish(2, "amq.fan\nout", "", b"x"))
    client.cluster.settle()
    assert client.take(ChannelClose).reply_code == 404


# --- names that the node makes -------------------------------------------------------------------


def test_made_names_have_letters_digits_dashes_and_underscores_alone(client: Client) -> None:
    for exclusive in (True, False):
        made = client.ask(QueueDeclare("", exclusive=exclusive), QueueDeclareOk).queue
        assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]+", made)


# --- arguments without effect --------------------------------------------------------------------


def test_what_has_no_effect_is_refused(client: Client) -> None:
    arguments: FieldTable = {"x-consumer-timeout": 60_000}
    refused = client.ask(QueueDeclare("work", durable=True, arguments=arguments), ChannelClose)
    assert refused.reply_code == 406
    assert "invalid arg 'x-consumer-timeout' for queue 'work' in vhost '/': it has no effect" in (
        refused.reply_text
    )


def test_a_consumer_cannot_have_a_timeout_of_its_own(client: Client) -> None:
    client.ask(QueueDeclare("work"), QueueDeclareOk)
    timed = BasicConsume("work", "c", arguments={"x-consumer-timeout": 60_000})
    assert client.ask(timed, ChannelClose).reply_code == 406


# --- user-id -------------------------------------------------------------------------------------


def test_only_an_impersonator_publishes_under_other_names(cluster: Cluster, client: Client) -> None:
    of_other = encode_properties({"user_id": "somebody"})
    client.ask(QueueDeclare("work"), QueueDeclareOk)
    client.write(publish(1, "", "work", b"a", of_other))
    cluster.settle()
    assert client.take(ChannelClose).reply_code == 406
    node = cluster.node("n1")
    host = client.host
    host.inbox.append(
        lambda _: node.on_change_asked(SetTags("guest", ("impersonator",)), lambda _: None)
    )
    cluster.pass_ms(200)
    client.ask(ConfirmSelect(), ConfirmSelectOk, 2)
    client.write(publish(2, "", "work", b"b", of_other))
    cluster.settle()
    assert client.ask(BasicGet("work"), BasicGetOk, 3).message_count == 0
