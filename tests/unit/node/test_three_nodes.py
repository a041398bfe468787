"""One queue, three nodes: what clients notice of the nodes between them and the queue."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    encode_method,
)
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import PERSISTENT, Client, Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(3)


def consume(client: Client, queue: str, tag: str = "c", channel: int = 1) -> None:
    client.ask(BasicConsume(queue, tag), BasicConsumeOk, channel)
    client.cluster.pass_ms(100)


def declared(cluster: Cluster, fragments: int = 1) -> list[Client]:
    """A client on each node; the queue `orders` is declared on the first."""
    clients = [cluster.client(name, channels=2) for name in ("n1", "n2", "n3")]
    request = QueueDeclare("orders", durable=True, arguments={"x-fedq-fragments": fragments})
    clients[0].ask(request if fragments > 1 else request._replace(arguments={}), QueueDeclareOk)
    return clients


# --- a queue that lives elsewhere ----------------------------------------------------------------


def test_a_queue_is_used_from_any_node(cluster: Cluster) -> None:
    _, two, three = declared(cluster)
    consume(three, "orders")
    two.publish("orders", "a", "b")
    assert three.deliveries() == ["a", "b"]
    three.send(BasicAck(1), BasicNack(2, requeue=True))
    cluster.pass_ms(100)
    assert three.deliveries() == ["again: b"]


def test_what_a_remote_consumer_leaves_returns_to_its_place(cluster: Cluster) -> None:
    one, two, _ = declared(cluster)
    consume(two, "orders")
    one.publish("orders", "a", "b", "c")
    two.send(BasicAck(2))
    two.hang_up()
    consume(one, "orders")
    assert one.deliveries() == ["again: a", "again: c"]


def test_a_rank_that_has_enough_here_does_not_let_a_lower_one_pass_those_elsewhere() -> None:
    cluster = Cluster(3)
    here, low, there = cluster.client("n1"), cluster.client("n1"), cluster.client("n2")
    here.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    here.ask(BasicQos(0, 1), BasicQosOk)
    first = BasicConsume("orders", "c", arguments={"x-priority": 1})
    here.ask(first, BasicConsumeOk)
    there.ask(first, BasicConsumeOk)
    consume(low, "orders")
    here.publish("orders", "a", "b", "c")
    cluster.pass_ms(100)
    assert here.deliveries() == ["a"]
    assert there.deliveries() == ["b", "c"]
    assert low.deliveries() == []


def test_scarce_consumers_share_a_remote_queue(cluster: Cluster) -> None:
    one, two, three = declared(cluster)
    for client in (two, three):
        client.ask(BasicQos(0, 1), BasicQosOk)
        consume(client, "orders")
    one.publish("orders", *"abcd")
    cluster.pass_ms(100)
    first, second = two.deliveries(), three.deliveries()
    assert len(first) == len(second) == 1
    two.send(BasicAck(1))
    cluster.pass_ms(100)
    assert (len(two.deliveries()), three.deliveries()) == (1, [])


def test_a_message_never_waits_beside_a_free_consumer(cluster: Cluster) -> None:
    """One node takes a lot, another one message at a time: between them they take everything."""
    one, two, three = declared(cluster)
    for client, limit in ((two, 8), (three, 1)):
        client.ask(BasicQos(0, limit), BasicQosOk)
        consume(client, "orders")
    for _ in range(3):
        one.publish("orders", *"abcdefghi")
        cluster.pass_ms(100)
        got = (len(two.deliveries()), len(three.deliveries()))
        assert got == (8, 1)
        two.send(BasicAck(0, True))
        three.send(BasicAck(0, True))
        cluster.pass_ms(100)


def counts(clients: list[Client]) -> list[int]:
    """How many deliveries each got since the last look."""
    return [len(client.deliveries()) for client in clients]


def at_the_primary_and_elsewhere(cluster: Cluster, prefetch: int = 0) -> list[Client]:
    """One consumer on each node; the first is on that of the queue's only fragment."""
    clients = list(declared(cluster))
    for client in clients:
        if prefetch:
            client.ask(BasicQos(0, prefetch), BasicQosOk)
        consume(client, "orders")
    return clients


@pytest.mark.parametrize("prefetch", [0, 10])
def test_no_message_waits_behind_a_busy_consumer_while_another_is_idle(
    cluster: Cluster, prefetch: int
) -> None:
    clients = at_the_primary_and_elsewhere(cluster, prefetch)
    clients[1].publish("orders", *"abc")
    assert counts(clients) == [1, 1, 1]
    # Who is done first has the next one, wherever it is.
    clients[2].send(BasicAck(1))
    cluster.pass_ms(50)
    clients[0].publish("orders", "d")
    assert counts(clients) == [0, 0, 1]


def test_a_new_primary_looks_who_keeps_up_too(cluster: Cluster) -> None:
    _, two, three = at_the_primary_and_elsewhere(cluster)
    cluster.kill("n1")
    cluster.pass_ms(3_000)
    two.publish("orders", "a", "b")
    assert counts([two, three]) == [1, 1]
    for client in (two, three):
        client.send(BasicAck(1))
    cluster.pass_ms(50)
    three.publish("orders", "c", "d")
    assert counts([two, three]) == [1, 1]


@pytest.mark.parametrize("turns", range(8))
def test_a_consumer_that_is_just_being_admitted_is_not_taken_for_busy(
    cluster: Cluster, turns: int
) -> None:
    """What the first one holds is not counted as the newcomer's, whoever else comes meanwhile."""
    one, two, _ = declared(cluster)
    consume(one, "orders")
    one.publish("orders", "a")
    two.write(encode_method(1, BasicConsume("orders", "c")))
    for _ in range(turns):
        cluster.turn()
    consume(one, "orders", "d", channel=2)
    one.publish("orders", "b", "c")
    assert counts([one, two]) == [2, 1]


def test_delayed_messages_are_nobodys_when_it_is_looked_who_keeps_up(cluster: Cluster) -> None:
    one, two, _ = declared(cluster)
    kind = ExchangeDeclare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    one.ask(kind, ExchangeDeclareOk)
    one.ask(QueueBind("orders", "later"), QueueBindOk)
    delay = encode_properties({"headers": {"x-delay": 60_000}})
    one.write(publish(1, "later", "", b"m", delay) * 5)
    consume(one, "orders")
    consume(two, "orders")
    one.publish("orders", "a", "b")
    assert counts([one, two]) == [1, 1]


def test_the_nearest_consumer_has_all_that_it_keeps_up_with(cluster: Cluster) -> None:
    clients = at_the_primary_and_elsewhere(cluster)
    for number in range(1, 20):
        clients[2].publish("orders", str(number))
        assert counts(clients) == [1, 0, 0]
        clients[0].send(BasicAck(number))


def test_who_acknowledges_nothing_gets_everything_soon(cluster: Cluster) -> None:
    clients = at_the_primary_and_elsewhere(cluster)
    clients[0].publish("orders", *map(str, range(300)))
    cluster.pass_ms(400)
    got = counts(clients)
    assert sum(got) == 300
    assert min(got) >= 50


@pytest.mark.parametrize("where", [0, 1])
def test_a_consumer_without_rivals_gets_everything_at_once(cluster: Cluster, where: int) -> None:
    clients = list(declared(cluster))
    consume(clients[where], "orders")
    clients[2].publish("orders", *map(str, range(300)))
    assert len(clients[where].deliveries()) == 300


def test_a_consumer_that_acknowledges_by_receiving_is_never_behind(cluster: Cluster) -> None:
    clients = list(declared(cluster))
    clients[0].ask(BasicConsume("orders", "c", no_ack=True), BasicConsumeOk)
    consume(clients[1], "orders")
    clients[2].publish("orders", *map(str, range(300)))
    assert counts(clients) == [300, 0, 0]


def test_a_turn_that_begins_after_the_lease_hands_nothing_out(cluster: Cluster) -> None:
    """The process was stopped for long, and reads what had come meanwhile."""
    one, *_ = declared(cluster)
    one.publish("orders", "a")
    cluster.cut("n1")
    cluster.now_ms += 5_000
    one.send(BasicGet("orders"))
    assert not one.has(BasicGetOk)


def test_a_confirm_waits_for_the_second_copys_disk(cluster: Cluster) -> None:
    one, *_ = declared(cluster)
    one.ask(ConfirmSelect(), ConfirmSelectOk)
    for name in ("n2", "n3"):
        cluster.disk_waits(name, True)
    one.publish("orders", "a")
    cluster.pass_ms(300)
    assert one.heard() == []
    for name in ("n2", "n3"):
        cluster.disk_waits(name, False)
    cluster.pass_ms(100)
    assert one.heard() == [BasicAck(1, False)]


# --- many fragments ------------------------------------------------------------------------------


def test_get_is_empty_only_when_every_fragment_is(cluster: Cluster) -> None:
    one, two, three = declared(cluster, fragments=3)
    three.publish("orders", "far")
    assert one.ask(BasicGet("orders"), BasicGetOk).routing_key == "orders"
    two.ask(BasicGet("orders"), BasicGetEmpty)
    one.send(BasicNack(1, requeue=True))
    assert two.ask(BasicGet("orders"), BasicGetOk).redelivered
    one.ask(BasicGet("orders"), BasicGetEmpty)


def test_counts_purge_and_delete_concern_the_whole_queue(cluster: Cluster) -> None:
    clients = declared(cluster, fragments=3)
    for client in clients:
        client.publish("orders", "a", "b")
    passive = QueueDeclare("orders", passive=True)
    for client in clients:
        assert client.ask(passive, QueueDeclareOk).message_count == 6
    refused = clients[1].ask(QueueDelete("orders", if_empty=True), ChannelClose, 2)
    assert refused.reply_code == 406
    assert clients[1].ask(QueuePurge("orders"), QueuePurgeOk).message_count == 6
    clients[2].publish("orders", "c")
    assert clients[0].ask(QueueDelete("orders"), QueueDeleteOk).message_count == 1
    for client in clients:
        assert client.ask(passive, ChannelClose).reply_code == 404


def test_one_consumer_empties_every_fragment(cluster: Cluster) -> None:
    clients = declared(cluster, fragments=3)
    for client, body in zip(clients, "abc", strict=True):
        client.publish("orders", body)
    clients[0].ask(BasicQos(0, 1), BasicQosOk)
    consume(clients[0], "orders")
    found: list[str] = []
    for tag in range(1, 4):
        found += clients[0].deliveries()
        clients[0].send(BasicAck(tag))
        cluster.pass_ms(100)
    assert sorted(found) == ["a", "b", "c"]


def test_a_channels_messages_stay_in_order_through_one_fragment(cluster: Cluster) -> None:
    clients = declared(cluster, fragments=3)
    consume(clients[2], "orders")
    for number in range(20):
        clients[1].publish("orders", str(number))
    cluster.pass_ms(100)
    assert clients[2].deliveries() == [str(number) for number in range(20)]


def test_a_busy_publisher_gets_a_fragment_of_its_own() -> None:
    cluster = Cluster(3, fragment_threshold=10)
    one, two, _ = declared(cluster)
    for _ in range(3):
        two.publish("orders", *"abcdef")
    cluster.pass_ms(300)
    state = cluster.node("n1").state
    (queue,) = (info for key, info in state.map.queues.items() if key.name == "orders")
    assert len(queue.fragments) == 2
    assert one.ask(QueueDeclare("orders", passive=True), QueueDeclareOk).message_count == 18


# --- consumers of the whole cluster --------------------------------------------------------------


def test_an_exclusive_consumer_is_alone_in_the_cluster(cluster: Cluster) -> None:
    one, two, _ = declared(cluster)
    two.ask(BasicConsume("orders", "c", exclusive=True), BasicConsumeOk)
    assert one.ask(BasicConsume("orders", "d"), ChannelClose).reply_code == 403
    two.ask(BasicCancel("c"), BasicCancelOk)
    cluster.pass_ms(100)
    one.ask(BasicConsume("orders", "d"), BasicConsumeOk, 2)


def test_an_auto_delete_queue_waits_for_the_last_consumer_of_all_nodes(cluster: Cluster) -> None:
    one, two, three = (cluster.client(name) for name in ("n1", "n2", "n3"))
    one.ask(QueueDeclare("brief", auto_delete=True), QueueDeclareOk)
    cluster.pass_ms(300)
    consume(two, "brief")
    consume(three, "brief")
    two.hang_up()
    cluster.pass_ms(300)
    one.publish("brief", "a")
    assert three.deliveries() == ["a"]
    three.ask(BasicCancel("c"), BasicCancelOk)
    cluster.pass_ms(500)
    assert one.ask(BasicGet("brief"), ChannelClose).reply_code == 404


def test_consumers_hear_that_their_queue_is_deleted_elsewhere(cluster: Cluster) -> None:
    one, two, _ = declared(cluster)
    consume(two, "orders")
    one.ask(QueueDelete("orders"), QueueDeleteOk)
    cluster.pass_ms(100)
    assert two.take(BasicCancel) == BasicCancel("c", True)
    # The name is free at once, and the new queue is another one.
    one.ask(QueueDeclare("orders"), QueueDeclareOk)
    one.publish("orders", "a")
    assert two.deliveries() == []


# --- private queues and fan-out ------------------------------------------------------------------


def subscribe(client: Client, exchange: str, key: str) -> str:
    name = client.ask(QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    client.ask(QueueBind(name, exchange, key), QueueBindOk)
    client.ask(BasicConsume(name, "sub", no_ack=True), BasicConsumeOk)
    return name


def test_a_publish_reaches_the_subscribers_of_every_node(cluster: Cluster) -> None:
    one, two, three = (cluster.client(name) for name in ("n1", "n2", "n3"))
    one.ask(ExchangeDeclare("news", "topic"), ExchangeDeclareOk)
    for client in (one, two, three):
        subscribe(client, "news", "sport.#")
    two.publish("sport.chess", "a", exchange="news")
    two.publish("weather", "b", exchange="news")
    assert [client.deliveries() for client in (one, two, three)] == [["a"], ["a"], ["a"]]


def test_mandatory_is_exact_across_nodes(cluster: Cluster) -> None:
    """The return comes before the confirm, and only if no node had a queue for it."""
    one, two, three = (cluster.client(name) for name in ("n1", "n2", "n3"))
    one.ask(ExchangeDeclare("news", "direct"), ExchangeDeclareOk)
    subscribe(two, "news", "chess")
    three.ask(ConfirmSelect(), ConfirmSelectOk)
    three.publish("chess", "a", exchange="news", mandatory=True)
    assert three.heard() == [BasicAck(1, False)]
    two.hang_up()
    cluster.pass_ms(100)
    three.publish("chess", "b", exchange="news", mandatory=True)
    assert three.heard() == [BasicReturn(312, "NO_ROUTE", "news", "chess"), BasicAck(2, False)]


def test_a_reply_finds_a_server_named_queue_without_the_map(cluster: Cluster) -> None:
    one, two, _ = (cluster.client(name) for name in ("n1", "n2", "n3"))
    name = one.ask(QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    one.ask(BasicConsume(name, "c", no_ack=True), BasicConsumeOk)
    two.publish(name, "answer", mandatory=True)
    assert one.deliveries() == ["answer"]
    one.hang_up()
    two.publish(name, "too late", mandatory=True)
    assert two.take(BasicReturn).reply_code == 312


def test_an_exclusive_name_is_taken_on_every_node(cluster: Cluster) -> None:
    one, two, three = (cluster.client(name, channels=2) for name in ("n1", "n2", "n3"))
    one.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    for client in (two, three):
        closed = client.ask(QueueDeclare("mine", exclusive=True), ChannelClose)
        assert closed.reply_code == 405
    two.publish("mine", "a", channel=2)
    assert one.ask(BasicGet("mine"), BasicGetOk).routing_key == "mine"


def test_a_deleted_exclusive_queue_is_gone_everywhere(cluster: Cluster) -> None:
    one, two = cluster.client("n1"), cluster.client("n2")
    one.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    one.ask(QueueDelete("mine"), QueueDeleteOk)
    for client in (one, two):
        assert client.ask(QueueDeclare("mine", passive=True), ChannelClose).reply_code == 404


@pytest.mark.parametrize("where", [0, 1])
def test_what_a_client_asks_comes_behind_what_it_published(cluster: Cluster, where: int) -> None:
    client = declared(cluster)[where]
    message = publish(1, "", "orders", b"a", PERSISTENT, 0)
    client.write(message + encode_method(1, BasicGet("orders", no_ack=True)))
    client.cluster.wait_for(lambda: client.has(BasicGetOk))
    client.write(message + encode_method(1, QueuePurge("orders")))
    client.cluster.wait_for(lambda: client.has(QueuePurgeOk))
    assert client.take(QueuePurgeOk).message_count == 1


@pytest.mark.parametrize("exclusive", [True, False])
def test_who_deletes_a_queue_hears_that_first(cluster: Cluster, exclusive: bool) -> None:
    client = cluster.client("n2")
    client.ask(QueueDeclare("brief", exclusive=exclusive), QueueDeclareOk)
    client.ask(BasicConsume("brief", "c"), BasicConsumeOk)
    client.send(QueueDelete("brief"))
    client.cluster.wait_for(lambda: client.has(BasicCancel))
    assert [type(method) for method in client.heard()] == [QueueDeleteOk, BasicCancel]
