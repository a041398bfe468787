"""Publishers with names: what one repeats is taken once, whatever happened in between."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicReject,
    ChannelClose,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.values import Long, TableValue, Timestamp
from fedq.core.limits import PUBLISHERS_KNOWN_MAX
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Cluster
from tests.unit.node.publishing.named import (
    MANY,
    again,
    all_of,
    bodies,
    headers,
    known_to,
    queue_on,
    send,
)


def test_a_repeat_is_confirmed_and_not_enqueued() -> None:
    cluster = Cluster(1)
    client = queue_on(cluster)
    send(client, "q", MANY)
    assert client.heard() == [BasicAck(5, multiple=True)]
    send(client, "q", range(3, 8))
    assert client.heard() == [BasicAck(10, multiple=True)]
    client.hang_up()
    client = again(cluster, "n1")
    send(client, "q", range(1, 9))
    assert client.heard() == [BasicAck(8, multiple=True)]
    assert all_of(cluster) == bodies(range(1, 9))


def test_gaps_are_allowed_and_publishers_are_told_apart() -> None:
    cluster = Cluster(1)
    client = queue_on(cluster)
    send(client, "q", [2, 9, 7, 2**40])
    send(client, "q", [9, 2**40, 2**63 - 1])
    send(client, "q", [1, 2], publisher="ü")
    client.publish("q", "plain", "plain")
    assert all_of(cluster) == [
        *bodies([2, 9, 2**40, 2**63 - 1]),
        *bodies([1, 2], "ü"),
        *["plain"] * 2,
    ]


def test_what_is_gone_from_the_queue_is_known_all_the_same() -> None:
    cluster = Cluster(1)
    client = queue_on(cluster)
    send(client, "q", MANY)
    client.ask(BasicConsume("q", "c", no_ack=True), BasicConsumeOk)
    assert client.deliveries() == bodies(MANY)
    send(client, "q", MANY)
    assert client.deliveries() == []


@pytest.mark.parametrize("through", ["n1", "n2", "n3"])
def test_a_repeat_through_another_node_after_its_node_died(through: str) -> None:
    cluster = Cluster(3, fragment_threshold=1)
    client = queue_on(cluster, "n2", x_fedq_replicas=3)
    send(client, "q", MANY)
    assert client.has(BasicAck)
    cluster.kill("n2")
    if through == "n2":
        cluster.pass_ms(3_000)
        cluster.start("n2")
    cluster.pass_ms(3_000)
    client = again(cluster, through)
    send(client, "q", range(1, 8))
    cluster.wait_for(lambda: client.has(BasicAck))
    assert all_of(cluster, "n3") == [*bodies(MANY, mark="again: "), *bodies([6, 7])]


def test_all_nodes_start_again() -> None:
    cluster = Cluster(3)
    client = queue_on(cluster, "n1", x_fedq_replicas=2)
    send(client, "q", MANY)
    cluster.wait_for(lambda: client.has(BasicAck))
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    for name in ("n2", "n3", "n1"):
        cluster.start(name)
    cluster.pass_ms(12_000)
    client = again(cluster, "n3")
    send(client, "q", range(1, 7))
    cluster.wait_for(lambda: client.has(BasicAck))
    assert [body.removeprefix("again: ") for body in all_of(cluster)] == bodies(range(1, 7))


def test_all_of_a_publisher_goes_to_the_first_fragment_from_any_node() -> None:
    cluster = Cluster(3)
    client = queue_on(cluster, "n1", x_fedq_fragments=3)
    for name in ("n1", "n2", "n3"):
        client = again(cluster, name)
        client.publish("q", f"plain of {name}")
        send(client, "q", MANY)
        client.publish("q", f"later of {name}")
    found = all_of(cluster)
    assert sorted(found) == sorted(
        [*bodies(MANY), *(f"{when} of n{n}" for n in (1, 2, 3) for when in ("plain", "later"))]
    )
    assert known_to(cluster.node("n1")) == {"p": 5}


def test_several_queues_by_one_publish_take_it_once_each() -> None:
    cluster = Cluster(1)
    client = queue_on(cluster)
    client.ask(
        QueueDeclare("other", arguments={"x-max-length": 2, "x-overflow": "reject-publish"}),
        QueueDeclareOk,
    )
    client.ask(ExchangeDeclare("e", "fanout"), ExchangeDeclareOk)
    client.ask(ExchangeBind("amq.fanout", "e"), ExchangeBindOk)
    client.ask(QueueBind("q", "amq.fanout"), QueueBindOk)
    client.ask(QueueBind("other", "amq.fanout"), QueueBindOk)
    client.said.clear()
    send(client, "", [1, 2, 3, 4], exchange="e")
    nacks = [BasicNack(3, False, False), BasicNack(4, False, False)]
    assert client.heard() == [BasicAck(2, multiple=True), *nacks]
    assert all_of(cluster, queue="q") == bodies([1, 2, 3, 4])
    client.ask(BasicConsume("other", "c", no_ack=True), BasicConsumeOk)
    assert client.deliveries() == bodies([1, 2])
    send(client, "", [1, 2, 3, 4], exchange="e")
    send(client, "", [4, 5], exchange="e")
    assert client.deliveries() == bodies([3, 4, 5]), "it had refused some of these"
    assert all_of(cluster, queue="q") == [*bodies([1, 2, 3, 4], mark="again: "), *bodies([5])]


def test_what_was_refused_may_come_again_behind_what_was_taken() -> None:
    cluster = Cluster(3)
    client = queue_on(cluster, x_max_length=2, x_overflow="reject-publish", x_fedq_replicas=3)
    send(client, "q", [1, 2, 3, 4])
    cluster.settle()
    client.said.clear()
    assert all_of(cluster) == bodies([1, 2])
    client.ask(BasicGet("q", no_ack=True), BasicGetOk)
    client.said.clear()
    send(client, "q", [9])
    assert client.heard() == [BasicAck(5)]
    primary = cluster.primary_of("q")
    cluster.kill(primary)
    cluster.pass_ms(3_000)
    client = again(cluster, "n3")
    client.ask(BasicGet("q", no_ack=True), BasicGetOk)
    client.ask(BasicGet("q", no_ack=True), BasicGetOk)
    client.said.clear()
    send(client, "q", [2, 3, 4, 9, 4])
    assert client.heard() == [BasicAck(5, multiple=True)]
    assert all_of(cluster, "n3") == bodies([3, 4])


def test_a_transaction_takes_what_is_new() -> None:
    cluster = Cluster(3)
    client = queue_on(cluster, "n2")
    send(client, "q", [1, 2])
    client.ask(TxSelect(), TxSelectOk, 2)
    send(client, "q", [1, 2, 3, 4, 3], channel=2)
    client.publish("q", "plain", channel=2)
    client.ask(TxCommit(), TxCommitOk, 2)
    send(client, "q", [1, 4], channel=2)
    client.ask(TxCommit(), TxCommitOk, 2)
    assert all_of(cluster) == [*bodies([1, 2, 3, 4]), "plain"]


def test_a_dead_letter_is_nobodys_publish() -> None:
    """It keeps its headers, and the publisher may publish to where it goes."""
    cluster = Cluster(1)
    client = queue_on(cluster)
    table: dict[str, TableValue] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    client.ask(QueueDeclare("dying", durable=True, arguments=table), QueueDeclareOk)
    send(client, "dying", [1, 9])
    for _ in range(2):
        got = client.ask(BasicGet("dying"), BasicGetOk)
        client.send(BasicReject(got.delivery_tag, requeue=False))
    client.said.clear()
    send(client, "q", [1, 2])
    send(client, "dying", [1])
    assert all_of(cluster) == [*bodies([1, 9]), *bodies([1, 2])]
    client.ask(BasicGet("dying"), BasicGetEmpty)


def test_nothing_is_handed_out_before_it_is_committed() -> None:
    """Else its publisher might repeat what a consumer has had, and nobody would know."""
    cluster = Cluster(3)
    client = queue_on(cluster, x_fedq_replicas=2)
    reader = cluster.client("n1")
    reader.ask(BasicConsume("q", "c"), BasicConsumeOk)
    send(client, "q", [1])
    assert reader.deliveries() == bodies([1])
    cluster.disk_waits("n1", True)
    send(client, "q", [2, 3])
    client.ask(BasicGet("q"), BasicGetEmpty)
    cluster.pass_ms(100)
    assert reader.deliveries() == []
    cluster.disk_waits("n1", False)
    cluster.pass_ms(100)
    assert reader.deliveries() == bodies([2, 3])


def test_a_plain_queue_waits_for_nothing() -> None:
    cluster = Cluster(1)
    client = queue_on(cluster)
    cluster.disk_waits("n1", True)
    client.publish("q", "plain")
    client.ask(BasicConsume("q", "c"), BasicConsumeOk)
    assert client.deliveries() == ["plain"]


def test_the_one_that_is_idle_for_longest_is_forgotten_on_all_copies() -> None:
    cluster = Cluster(3)
    client = queue_on(cluster, x_fedq_replicas=3)
    send(client, "q", [1])
    for number in range(PUBLISHERS_KNOWN_MAX):
        client.write(publish(1, "", "q", b"", headers(f"other {number}", 1)))
    client.write(publish(1, "", "q", b"", headers("other 0", 2)))
    cluster.pass_ms(200)
    known = [known_to(cluster.node(name)) for name in ("n1", "n2", "n3")]
    assert known[0] == known[1] == known[2]
    assert len(known[0]) == PUBLISHERS_KNOWN_MAX
    assert "p" not in known[0]
    assert list(known[0])[-1] == "other 0"


@pytest.mark.parametrize(
    ("publisher", "sequence", "words"),
    [
        ("p", None, "without a 'x-fedq-sequence'"), (None, 1, "without a 'x-fedq-publisher'"),
        ("p", 0, "from 1 to"), ("p", -1, "from 1 to"), ("p", "1", "that is an integer"),
        ("p", True, "that is an integer"), ("p", Timestamp(7), "that is an integer"),
        ("p", 1.0, "that is an integer"), ("", 1, "1 to 255 bytes"),
        ("ü" * 128, 1, "1 to 255 bytes"),
        (7, 1, "that is a string"), (b"p", 1, "that is a string"), ({"p": 1}, 1, "a string"),
    ],
)  # fmt: skip
def test_headers_that_make_no_sense_close_the_channel(
    publisher: TableValue, sequence: TableValue, words: str
) -> None:
    cluster = Cluster(1)
    client = queue_on(cluster)
    good = publish(1, "", "q", b"p1", headers("p", 1))
    client.write(good + publish(1, "", "q", b"bad", headers(publisher, sequence)) + good)
    cluster.settle()
    [closed] = client.heard()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 406
    assert words in closed.reply_text
    assert all_of(cluster) == ["p1"]


@pytest.mark.parametrize("sequence", [1, Long(1), 300, 2**33])
def test_any_type_of_integer_is_a_sequence(sequence: int) -> None:
    cluster = Cluster(1)
    client = queue_on(cluster)
    for _ in range(2):
        client.write(publish(1, "", "q", b"one", headers("p", sequence)))
    cluster.settle()
    assert client.has(BasicAck)
    assert known_to(cluster.node("n1")) == {"p": sequence}
    assert all_of(cluster) == ["one"]
