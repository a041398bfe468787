"""What a node holds back, and what it must not drop: memory, fences, closing channels, absences."""

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    ExchangeDelete,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    encode_method,
)
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster

KIB = 1024


def count(client: Client, queue: str) -> int:
    return client.ask(QueueDeclare(queue, passive=True), QueueDeclareOk).message_count


def is_read(client: Client) -> bool:
    return client.is_read


def test_publishers_wait_while_memory_is_full_and_go_on_when_consumers_have_taken_enough() -> None:
    cluster = Cluster(1, memory_bytes_max=64 * KIB)
    publisher, reader = cluster.client(), cluster.client()
    publisher.ask(QueueDeclare("work"), QueueDeclareOk)
    publisher.publish("work", *["x" * KIB] * 80)
    cluster.pass_ms(1_000)
    assert not is_read(publisher)
    assert publisher.take(ConnectionBlocked).reason.startswith("low on memory")
    late = cluster.client()
    assert not late.has(ConnectionBlocked), "as with RabbitMQ, before it publishes"
    late.publish("work", "x")
    assert not is_read(late)
    assert late.take(ConnectionBlocked).reason == "low on memory"
    assert is_read(reader), "who only consumes goes on"
    reader.ask(BasicConsume("work", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(1_000)
    assert len(reader.deliveries()) == 81
    for client in (publisher, late):
        assert is_read(client)
        assert client.has(ConnectionUnblocked)


def test_publishers_elsewhere_are_held_back_by_a_full_node() -> None:
    cluster = Cluster(2, memory_bytes_max=64 * KIB)
    home, away = cluster.client("n1"), cluster.client("n2")
    home.ask(QueueDeclare("work", arguments={"x-fedq-replicas": 1}), QueueDeclareOk)
    away.ask(ConfirmSelect(), ConfirmSelectOk)
    away.publish("work", *["x" * KIB] * 80)
    cluster.pass_ms(1_000)
    away.said.clear()
    away.publish("work", "one more")
    assert not is_read(away)
    assert away.heard() == [ConnectionBlocked("low on memory: n1")], "stored, not said at once"
    cluster.pass_ms(1_500)
    assert away.has(BasicAck), "but once a second"
    assert not is_read(away)
    home.ask(BasicConsume("work", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(1_500)
    assert away.has(ConnectionUnblocked)
    assert is_read(away)


def test_what_a_channel_sent_before_it_closed_takes_effect() -> None:
    cluster = Cluster(3)
    client, other = cluster.client("n2"), cluster.client("n3")
    client.write(
        encode_method(1, QueueDeclare("work", durable=True))
        + publish(1, "", "work", b"kept")
        + encode_method(1, ChannelClose(200, "", 0, 0))
    )
    cluster.wait_for(lambda: client.has(ChannelCloseOk))
    assert list(map(type, client.heard())) == [QueueDeclareOk, ChannelCloseOk]
    client.ask(ChannelOpen(), ChannelOpenOk)
    assert client.heard() == [], "the new channel hears nothing of the old one"
    assert count(other, "work") == 1


def test_a_node_that_is_cut_off_confirms_nothing_that_its_old_map_cannot_route() -> None:
    cluster = Cluster(3)
    fenced, living = cluster.client("n3"), cluster.client("n1")
    fenced.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.cut("n3")
    cluster.pass_ms(1_000)
    living.ask(QueueDeclare("new", durable=True), QueueDeclareOk)
    fenced.publish("new", "precious")
    cluster.pass_ms(500)
    assert not [method for method in fenced.heard() if type(method).__name__ == "BasicAck"]
    cluster.mend("n3")
    cluster.pass_ms(2_000)
    acks = [method for method in fenced.heard() if type(method).__name__ == "BasicAck"]
    assert len(acks) == 1
    assert count(living, "new") == 1


def test_two_channels_that_declare_one_exclusive_name_share_one_queue() -> None:
    cluster = Cluster(3)
    client = cluster.client("n2", channels=2)
    declare = QueueDeclare("mine", exclusive=True)
    client.write(encode_method(1, declare) + encode_method(2, declare))
    cluster.pass_ms(500)
    assert [m.queue for m in client.heard() if isinstance(m, QueueDeclareOk)] == ["mine", "mine"]
    stranger = cluster.client("n1")
    stranger.send(declare)
    cluster.pass_ms(700)
    assert stranger.take(ChannelClose).reply_code == 405
    again = cluster.client("n3")
    again.send(declare)
    client.hang_up()
    cluster.pass_ms(200)
    assert again.take(QueueDeclareOk).queue == "mine", "who comes a moment too early waits"


def test_a_name_is_free_again_when_its_node_is_known_to_be_dead() -> None:
    cluster = Cluster(3)
    declare = QueueDeclare("mine", exclusive=True)
    cluster.client("n2").ask(declare, QueueDeclareOk)
    again = cluster.client("n3")
    cluster.kill("n2")
    assert again.ask(declare, QueueDeclareOk).queue == "mine"


def test_an_exchange_with_private_bindings_elsewhere_is_in_use() -> None:
    cluster = Cluster(3)
    client, other = cluster.client("n2"), cluster.client("n3")
    name = client.ask(QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    other.send(ExchangeDelete("amq.topic", True))
    assert other.take(ChannelClose).reply_code == 403
    client.ask(QueueBind(name, "amq.topic", "#"), QueueBindOk)
    marks = [b for b in cluster.node("n1").state.map.bindings if b.destination_kind == "node"]
    assert [(mark.source, mark.destination) for mark in marks] == [("amq.topic", "n2")]
    client.hang_up()
    cluster.pass_ms(1_500)
    left = [b for b in cluster.node("n1").state.map.bindings if b.destination_kind == "node"]
    assert left == []


def test_subscribers_of_a_node_that_was_only_cut_off_miss_nothing() -> None:
    cluster = Cluster(3)
    subscriber, publisher = cluster.client("n3"), cluster.client("n1")
    name = subscriber.ask(QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    subscriber.ask(QueueBind(name, "amq.fanout", ""), QueueBindOk)
    subscriber.ask(BasicConsume(name, no_ack=True), BasicConsumeOk)
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.cut("n3")
    publisher.publish("", "at once", exchange="amq.fanout")
    cluster.pass_ms(3_000)
    publisher.publish("", "while down", exchange="amq.fanout")
    cluster.pass_ms(500)
    assert [type(m).__name__ for m in publisher.heard()] == ["BasicAck", "BasicAck"]
    cluster.mend("n3")
    cluster.pass_ms(2_000)
    assert subscriber.deliveries() == ["at once", "while down"]


def test_who_deletes_a_queue_with_many_consumers_hears_of_each_after_the_answer() -> None:
    cluster = Cluster()
    client, other = cluster.client(channels=2), cluster.client()
    client.ask(QueueDeclare("work"), QueueDeclareOk)
    tags = [f"t{number}" for number in range(1_000)]
    for each, channel in ((client, 1), (client, 2), (other, 1)):
        each.write(
            b"".join(
                encode_method(channel, BasicConsume("work", tag, no_wait=True)) for tag in tags
            )
        )
    cluster.settle()
    said = client.ask(QueueDelete("work"), QueueDeleteOk)
    assert said.message_count == 0
    here = [method.consumer_tag for method in client.heard() if isinstance(method, BasicCancel)]
    assert sorted(here) == sorted(tags * 2)
    there = [method.consumer_tag for method in other.heard() if isinstance(method, BasicCancel)]
    assert there == tags
    for opened in cluster.node("n1").state.clients[client.connection].channels.values():
        assert not opened.consumers
        assert opened.notices is None


def test_a_wide_fan_out_takes_several_turns_and_lets_others_speak_in_between() -> None:
    cluster = Cluster()
    publisher, other = cluster.client(), cluster.client()
    readers = [cluster.client() for _ in range(4)]
    for reader in readers:
        reader.ask(QueueDeclare(exclusive=True), QueueDeclareOk)
        reader.ask(QueueBind(exchange="amq.fanout"), QueueBindOk)
        reader.ask(BasicConsume(no_ack=True), BasicConsumeOk)
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.node("n1").state.work.resize(14)
    # The second message to four queues is beyond a client's share of a turn, and five are to come.
    bodies = [letter * 300 for letter in "abcde"]
    said = b"".join(publish(1, "amq.fanout", "", body.encode()) for body in bodies)
    publisher.write(said + encode_method(1, ChannelClose(200, "", 0, 0)))
    progress: list[int] = []
    while len(progress) < 20 and (not progress or progress[-1] < 5):
        other.write(encode_method(1, ConfirmSelect()))
        cluster.turn()
        assert other.has(ConfirmSelectOk), "nobody waits for the fan-out of another"
        other.said.clear()
        progress.append(sum(isinstance(said, Content) for said in readers[-1].said))
        assert is_read(publisher) == (progress[-1] == 5)
    assert progress == [2, 4, 5]
    cluster.settle()
    assert [reader.deliveries() for reader in readers] == [bodies] * 4
    assert publisher.has(ChannelCloseOk)


def test_wide_fan_outs_of_several_publishers_take_turns() -> None:
    cluster = Cluster()
    publishers, reader = [cluster.client() for _ in range(3)], cluster.client()
    reader.ask(QueueDeclare(exclusive=True), QueueDeclareOk)
    reader.ask(QueueBind(exchange="amq.fanout"), QueueBindOk)
    reader.ask(BasicConsume(no_ack=True), BasicConsumeOk)
    cluster.node("n1").state.work.resize(2)
    for number, publisher in enumerate(publishers):
        bodies = [f"{number}.{index}".ljust(300).encode() for index in range(4)]
        publisher.write(b"".join(publish(1, "amq.fanout", "", body) for body in bodies))
    cluster.settle()
    heard = "".join(body[0] for body in reader.deliveries())
    assert sorted(heard) == sorted("012" * 4)
    # Whose turn it is first depends on what the node has just done for itself.
    for end in range(len(heard)):
        counts = [heard[:end].count(number) for number in "012"]
        assert max(counts) - min(counts) <= 2, heard


def test_a_fan_out_goes_on_when_its_publisher_has_gone() -> None:
    cluster = Cluster()
    publisher, reader = cluster.client(), cluster.client(channels=2)
    for channel in (1, 2):
        reader.ask(QueueDeclare(exclusive=True), QueueDeclareOk, channel)
        reader.ask(QueueBind(exchange="amq.fanout"), QueueBindOk, channel)
        reader.ask(BasicConsume(no_ack=True), BasicConsumeOk, channel)
    cluster.node("n1").state.work.resize(2)
    publisher.write(b"".join(publish(1, "amq.fanout", "", body.encode()) for body in "abc"))
    publisher.hang_up()
    assert reader.deliveries(1) == reader.deliveries(2) == list("abc")
    assert not cluster.node("n1").state.leaving


def test_a_fan_out_that_comes_from_another_node_takes_several_turns_too() -> None:
    cluster = Cluster(2)
    publisher, reader = cluster.client("n1"), cluster.client("n2", channels=2)
    for channel, key in ((1, "a"), (2, "b")):
        reader.ask(QueueDeclare(exclusive=True), QueueDeclareOk, channel)
        reader.ask(QueueBind(exchange="amq.direct", routing_key=key), QueueBindOk, channel)
        reader.ask(BasicConsume(no_ack=True), BasicConsumeOk, channel)
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    away = cluster.node("n2")
    away.state.work.resize(4)
    publishes = [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("a", "5"), ("c", "6")]
    publisher.write(
        b"".join(publish(1, "amq.direct", key, body.encode(), bits=1) for key, body in publishes)
    )
    most, turns = 0, 0
    while cluster.turn():
        turns += away.publishing.relays.has_more
        most = max(most, sum(isinstance(said, Content) for said in reader.said))
        is_done = not away.publishing.relays.has_more and most == 4
        assert is_done or not publisher.has(BasicAck), "confirmed before it was everywhere"
    assert turns >= 1
    assert reader.deliveries(1) == ["1", "4", "5"]
    assert reader.deliveries(2) == ["2"]
    returned = [said for said in publisher.said if isinstance(said, Content)]
    assert [each.body for each in returned] == [b"3", b"6"]
    assert publisher.take(BasicAck).delivery_tag == len(publishes)


def test_relays_that_wait_when_their_sender_dies_reach_their_queues() -> None:
    cluster = Cluster(3)
    publisher, reader = cluster.client("n2"), cluster.client("n3")
    reader.ask(QueueDeclare(exclusive=True), QueueDeclareOk)
    reader.ask(QueueBind(exchange="amq.fanout"), QueueBindOk)
    reader.ask(BasicConsume(no_ack=True), BasicConsumeOk)
    away = cluster.node("n3")
    away.state.work.resize(0)
    publisher.write(b"".join(publish(1, "amq.fanout", "", body.encode()) for body in "abc"))
    while not away.publishing.relays.has_more:
        assert cluster.turn()
    cluster.kill("n2")
    for _ in range(100):
        cluster.turn()
    assert reader.deliveries() == []
    away.state.work.resize(4)
    cluster.pass_ms(5_000)
    assert reader.deliveries() == list("abc")
    cluster.start("n2")
    cluster.pass_ms(5_000)
    cluster.client("n2").publish("", "d", exchange="amq.fanout")
    cluster.pass_ms(500)
    assert reader.deliveries() == ["d"]
