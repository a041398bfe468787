"""What clients of a single node notice: order, acknowledgement, prefetch, refusals, confirms."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


@pytest.fixture
def client(cluster: Cluster) -> Client:
    client = cluster.client(channels=2)
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    return client


def consume(client: Client, queue: str = "orders", tag: str = "c", channel: int = 1) -> None:
    client.ask(BasicConsume(queue, tag), BasicConsumeOk, channel)


# --- order and redelivery ------------------------------------------------------------------------


def test_messages_come_in_the_order_of_publishing(client: Client) -> None:
    client.publish("orders", "a", "b", "c")
    consume(client)
    client.publish("orders", "d")
    assert client.deliveries() == ["a", "b", "c", "d"]


def test_what_is_requeued_returns_to_its_old_place_and_is_marked(client: Client) -> None:
    client.ask(BasicQos(0, 2), BasicQosOk)
    consume(client)
    client.publish("orders", "a", "b", "c", "d")
    assert client.deliveries() == ["a", "b"]
    client.send(BasicNack(2, multiple=True, requeue=True))
    assert client.deliveries() == ["again: a", "again: b"]
    client.send(BasicAck(4, multiple=True))
    assert client.deliveries() == ["c", "d"]


def test_messages_of_a_lost_client_go_to_the_next_one_in_order(
    cluster: Cluster, client: Client
) -> None:
    consume(client)
    client.publish("orders", "a", "b", "c")
    client.send(BasicAck(2))
    other = cluster.client()
    client.hang_up()
    consume(other)
    assert other.deliveries() == ["again: a", "again: c"]


def test_a_rejected_message_is_gone_without_requeue(client: Client) -> None:
    consume(client)
    client.publish("orders", "a", "b")
    client.send(BasicReject(1, requeue=False), BasicReject(2, requeue=True))
    assert client.deliveries() == ["a", "b", "again: b"]


def test_recover_brings_back_everything_on_the_channel(client: Client) -> None:
    consume(client)
    client.publish("orders", "a", "b")
    client.deliveries()
    client.ask(BasicRecover(requeue=True), BasicRecoverOk)
    assert client.deliveries() == ["again: a", "again: b"]


def test_unacknowledged_messages_stay_with_a_cancelled_consumers_channel(client: Client) -> None:
    consume(client)
    client.publish("orders", "a")
    client.deliveries()
    client.ask(BasicCancel("c"), BasicCancelOk)
    assert client.ask(QueueDeclare("orders", passive=True), QueueDeclareOk).message_count == 0
    client.send(BasicAck(1))
    client.ask(BasicGet("orders"), BasicGetEmpty)


# --- prefetch ------------------------------------------------------------------------------------


def test_prefetch_counts_for_each_new_consumer(client: Client) -> None:
    client.ask(BasicQos(0, 1), BasicQosOk)
    consume(client, tag="first")
    client.ask(BasicQos(0, 2), BasicQosOk)
    consume(client, tag="second")
    client.publish("orders", *"abcdef")
    assert len(client.deliveries()) == 3


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_global_prefetch_holds_for_all_consumers_of_a_channel(client: Client, limit: int) -> None:
    client.ask(BasicQos(0, limit, True), BasicQosOk)
    consume(client, tag="first")
    consume(client, tag="second")
    client.publish("orders", *"abcdef")
    assert client.deliveries() == list("abcdef"[:limit])
    client.send(BasicAck(1))
    assert len(client.deliveries()) == 1


def tags(client: Client) -> list[str]:
    """To which consumers messages came, in order."""
    return [found.consumer_tag for found in client.heard() if isinstance(found, BasicDeliver)]


def test_a_global_prefetch_is_shared_by_the_consumers_of_a_queue(client: Client) -> None:
    client.ask(BasicQos(0, 10, True), BasicQosOk)
    consume(client, tag="first")
    consume(client, tag="second")
    client.publish("orders", *"abcdefghijklmnopqrst")
    assert sorted(tags(client)) == ["first"] * 5 + ["second"] * 5
    # One acknowledgement at a time: in turn, too.
    for tag in range(1, 11):
        client.send(BasicAck(tag))
    assert sorted(tags(client)) == ["first"] * 5 + ["second"] * 5


def test_a_global_prefetch_is_shared_by_the_queues_of_a_channel(client: Client) -> None:
    names = ["one", "two", "three"]
    for name in names:
        client.ask(QueueDeclare(name), QueueDeclareOk)
        client.publish(name, *"abcdefghij")
    client.ask(BasicQos(0, 1, True), BasicQosOk)
    for name in names:
        consume(client, name, tag=name)
    seen = tags(client)
    for tag in range(1, 19):
        client.send(BasicAck(tag))
        seen += tags(client)
    assert [seen.count(name) for name in names] == [7, 6, 6]


def test_what_was_got_does_not_count_against_a_global_prefetch(client: Client) -> None:
    client.publish("orders", *"abcd")
    client.ask(BasicQos(0, 2, True), BasicQosOk)
    for _ in range(3):
        client.ask(BasicGet("orders"), BasicGetOk)
    consume(client)
    client.publish("orders", "e", "f", "g")
    assert client.deliveries() == ["d", "e"]
    # Nor does it become room when it is acknowledged, or was given back.
    client.send(BasicAck(1), BasicNack(2, requeue=True))
    assert client.deliveries() == []
    client.send(BasicAck(4))
    assert client.deliveries() == ["again: b"]
    client.ask(BasicRecover(requeue=True), BasicRecoverOk)
    assert len(client.deliveries()) == 2


def test_what_was_got_in_a_transaction_does_not_count_either(client: Client) -> None:
    client.publish("orders", *"abcd")
    client.ask(TxSelect(), TxSelectOk)
    client.ask(BasicQos(0, 1, True), BasicQosOk)
    client.ask(BasicGet("orders"), BasicGetOk)
    consume(client)
    assert client.deliveries() == ["b"]
    client.send(BasicAck(1))
    client.ask(TxRollback(), TxRollbackOk)
    client.send(BasicAck(1))
    client.ask(TxCommit(), TxCommitOk)
    assert client.deliveries() == []
    client.send(BasicAck(2))
    client.ask(TxCommit(), TxCommitOk)
    assert client.deliveries() == ["c"]


def test_consumers_take_turns(client: Client) -> None:
    consume(client, channel=1)
    consume(client, channel=2)
    client.publish("orders", *"abcdef")
    assert sorted(client.deliveries(1) + client.deliveries(2)) == list("abcdef")
    client.publish("orders", "g", "h")
    assert (len(client.deliveries(1)), len(client.deliveries(2))) == (1, 1)


def test_another_client_is_served_while_one_waits(cluster: Cluster, client: Client) -> None:
    client.ask(BasicQos(0, 1), BasicQosOk)
    consume(client)
    other = cluster.client()
    consume(other)
    client.publish("orders", *"abcd")
    assert len(client.deliveries()) == 1
    assert len(other.deliveries()) == 3


# --- get, counts, purge --------------------------------------------------------------------------


def test_get_takes_one_and_says_how_many_are_left(client: Client) -> None:
    client.publish("orders", "a", "b")
    first = client.ask(BasicGet("orders"), BasicGetOk)
    assert (first.redelivered, first.message_count, first.delivery_tag) == (False, 1, 1)
    client.send(BasicNack(1, requeue=True))
    again = client.ask(BasicGet("orders"), BasicGetOk)
    assert (again.redelivered, again.message_count, again.delivery_tag) == (True, 1, 2)


def test_purge_leaves_what_consumers_hold(client: Client) -> None:
    client.ask(BasicQos(0, 1), BasicQosOk)
    consume(client)
    client.publish("orders", *"abc")
    assert client.ask(QueuePurge("orders"), QueuePurgeOk).message_count == 2
    client.send(BasicNack(1, requeue=True))
    assert client.deliveries() == ["a", "again: a"]


def test_delete_says_how_many_went_and_tells_the_consumers(client: Client) -> None:
    client.ask(BasicQos(0, 1), BasicQosOk)
    consume(client)
    client.publish("orders", *"abc")
    client.deliveries()
    assert client.ask(QueueDelete("orders"), QueueDeleteOk, 2).message_count == 2
    assert client.take(BasicCancel) == BasicCancel("c", True)
    assert client.ask(BasicGet("orders"), ChannelClose).reply_code == 404


# --- names ---------------------------------------------------------------------------------------


def test_an_empty_name_means_the_queue_declared_last(client: Client) -> None:
    client.ask(QueueDeclare("invoices"), QueueDeclareOk)
    client.publish("invoices", "a")
    assert client.ask(BasicGet(""), BasicGetOk).routing_key == "invoices"
    # Another channel has declared nothing.
    assert client.ask(BasicGet(""), ChannelClose, 2).reply_code == 404
    # But a declaration without a name means a new queue, and there is none to be found.
    assert client.ask(QueueDeclare("", passive=True), ChannelClose).reply_code == 404


def test_the_server_names_queues_and_never_twice_alike(client: Client) -> None:
    first = client.ask(QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    second = client.ask(QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    assert first != second
    assert first.startswith("amq.gen-")
    client.publish(first, "a")
    assert client.ask(BasicGet(first), BasicGetOk).routing_key == first


def test_an_exclusive_queue_goes_with_its_connection(cluster: Cluster, client: Client) -> None:
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    other = cluster.client(channels=2)
    assert other.ask(BasicGet("mine"), ChannelClose).reply_code == 405
    client.hang_up()
    cluster.pass_ms(1_000)
    assert other.ask(BasicGet("mine"), ChannelClose, 2).reply_code == 404


def test_an_auto_delete_queue_goes_with_its_last_consumer(cluster: Cluster, client: Client) -> None:
    client.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    cluster.pass_ms(500)
    consume(client, "brief", "one", channel=1)
    consume(client, "brief", "two", channel=2)
    client.ask(BasicCancel("one"), BasicCancelOk)
    cluster.pass_ms(500)
    client.ask(QueueDeclare("brief", passive=True), QueueDeclareOk)
    client.ask(BasicCancel("two"), BasicCancelOk, 2)
    cluster.pass_ms(500)
    closed = client.ask(QueueDeclare("brief", passive=True), ChannelClose)
    assert closed.reply_text == "NOT_FOUND - no queue 'brief' in vhost '/'"


# --- refusals ------------------------------------------------------------------------------------

NO_QUEUE = "NOT_FOUND - no queue 'nowhere' in vhost '/'"
NO_EXCHANGE = "NOT_FOUND - no exchange 'nowhere' in vhost '/'"


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (BasicGet("nowhere"), 404, NO_QUEUE),
        (BasicConsume("nowhere"), 404, NO_QUEUE),
        (QueueDeclare("nowhere", passive=True), 404, NO_QUEUE),
        (QueuePurge("nowhere"), 404, NO_QUEUE),
        (QueueBind("nowhere", "amq.direct"), 404, NO_QUEUE),
        (QueueBind("orders", "nowhere"), 404, NO_EXCHANGE),
        (ExchangeDeclare("nowhere", passive=True), 404, NO_EXCHANGE),
        (QueueDeclare("amq.mine"), 403,
         "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"),
        (QueueBind("orders", ""), 403,
         "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (QueueDeclare("orders"), 406,
         "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'orders' in vhost '/': "
         "received 'false' but current is 'true'"),
        (QueueDeclare("new", arguments={"x-fedq-fragments": 0}), 406,
         "PRECONDITION_FAILED - invalid arg 'x-fedq-fragments' for queue 'new' in vhost '/': "
         "{value_zero,0}"),
        (QueueDelete("orders", if_empty=True), 406,
         "PRECONDITION_FAILED - queue 'orders' in vhost '/' not empty"),
        (BasicAck(7), 406, "PRECONDITION_FAILED - unknown delivery tag 7"),
    ],
)  # fmt: skip
def test_a_refusal_closes_the_channel_and_says_why(
    client: Client, method: Method, code: int, text: str
) -> None:
    client.publish("orders", "a")
    closed = client.ask(method, ChannelClose)
    assert (closed.reply_code, closed.reply_text) == (code, text)
    # The other channel, and a new one with the same number, go on.
    assert client.ask(BasicGet("orders"), BasicGetOk, 2)
    client.send(ChannelCloseOk())
    client.ask(ChannelOpen(), ChannelOpenOk)
    assert not client.lost


def test_the_queue_of_another_connection_is_locked(cluster: Cluster, client: Client) -> None:
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    other = cluster.client(channels=2)
    methods: list[Method] = [QueueDeclare("mine", exclusive=True), BasicGet("mine")]
    for channel, method in enumerate(methods, 1):
        closed = other.ask(method, ChannelClose, channel)
        assert closed.reply_code == 405
        assert closed.reply_text.startswith(
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '/'"
        )


def test_an_exclusive_consumer_is_alone(client: Client) -> None:
    client.ask(BasicConsume("orders", "c", exclusive=True), BasicConsumeOk)
    closed = client.ask(BasicConsume("orders", "d"), ChannelClose, 2)
    assert closed.reply_code == 403
    assert closed.reply_text == "ACCESS_REFUSED - queue 'orders' in vhost '/' in exclusive use"


def test_nobody_becomes_exclusive_beside_another(client: Client) -> None:
    consume(client)
    assert (
        client.ask(BasicConsume("orders", "d", exclusive=True), ChannelClose, 2).reply_code == 403
    )


def test_a_reused_consumer_tag_ends_the_connection(client: Client) -> None:
    consume(client)
    client.send(BasicConsume("orders", "c"))
    assert client.close_reason == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'c'")


# --- confirms and returns ------------------------------------------------------------------------


def test_confirms_are_cumulative(client: Client) -> None:
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("orders", *"abc")
    assert client.heard() == [BasicAck(3, True)]
    client.publish("orders", "d")
    assert client.heard() == [BasicAck(4, False)]


def test_a_persistent_message_is_confirmed_when_it_is_on_disk(
    cluster: Cluster, client: Client
) -> None:
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.disk_waits("n1", True)
    client.publish("orders", "a")
    client.publish("orders", "b", persistent=False)
    assert client.heard() == []
    cluster.disk_waits("n1", False)
    cluster.pass_ms(50)
    assert client.heard() == [BasicAck(2, True)]


def test_a_message_is_returned_before_it_is_confirmed(client: Client) -> None:
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("nowhere", "a", mandatory=True)
    assert client.heard() == [BasicReturn(312, "NO_ROUTE", "", "nowhere"), BasicAck(1, False)]


def test_what_nobody_wants_is_confirmed_too(client: Client) -> None:
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("nowhere", "a")
    client.publish("orders", "b", mandatory=True)
    assert client.heard() == [BasicAck(1, False), BasicAck(2, False)]


def test_nothing_follows_on_a_channel_that_was_closed(client: Client) -> None:
    """The confirm of an earlier publish goes out before channel.close, or never."""
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.write(publish(1, "", "nowhere", b"a") + publish(1, "nowhere", "k", b"b"))
    client.cluster.settle()
    heard = client.heard()
    assert isinstance(heard[-1], ChannelClose), heard
    assert heard[:-1] in ([], [BasicAck(1, False)])


def test_nothing_follows_on_a_connection_that_was_closed(client: Client) -> None:
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    consume(client)
    again = BasicConsume("orders", "c")
    client.write(publish(1, "", "nowhere", b"a") + encode_method(1, again))
    client.cluster.settle()
    heard = client.heard()
    assert isinstance(heard[-1], ConnectionClose), heard


# --- the order of requests -----------------------------------------------------------------------


def test_what_follows_a_request_that_waits_takes_effect_after_it(client: Client) -> None:
    """All in one write: declare needs the cluster, the rest needs what it declares."""
    client.write(
        encode_method(1, QueueDeclare("late"))
        + publish(1, "", "late", b"a")
        + encode_method(1, QueueBind("late", "amq.direct", "k"))
        + publish(1, "amq.direct", "k", b"b")
        + encode_method(1, BasicConsume("late", "c"))
        + publish(1, "", "late", b"c")
    )
    client.cluster.pass_ms(200)
    assert client.deliveries() == ["a", "b", "c"]
    assert [type(method) for method in client.heard()] == [
        QueueDeclareOk, QueueBindOk, BasicConsumeOk,
    ]  # fmt: skip


def test_an_exclusive_queue_can_be_declared_again_once_deleted(client: Client) -> None:
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    client.ask(QueueDelete("mine"), QueueDeleteOk)
    client.send(QueueDeclare("mine", exclusive=True))
    client.cluster.pass_ms(1_000)
    assert client.heard() == [QueueDeclareOk("mine", 0, 0)]


def test_a_consumer_of_direct_replies_shares_no_tag(client: Client) -> None:
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    client.send(BasicConsume("amq.rabbitmq.reply-to", "c", no_ack=True))
    client.cluster.pass_ms(100)
    assert client.close_reason == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'c'")
