"""Credit of nodes for messages that are behind others which are on disk alone."""

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk
from tests.unit.amqp.wire import publish as wire_publish
from tests.unit.node.copies.test_long_queues import SMALL, body, filled, publish, tags_of
from tests.unit.node.harness import Cluster


def test_a_consumer_elsewhere_gets_all_where_some_messages_expire_on_their_own() -> None:
    """Every 30th message has an expiration: it is kept singly, in memory, behind others on disk."""
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 100)
    primary = cluster.primary_of("q")
    properties = encode_properties({"delivery_mode": 2, "expiration": "100000000"})
    number = 100
    while number < 400:
        if number % 10 == 0:
            client.write(wire_publish(1, "", "q", body(number).encode(), properties, 0))
            cluster.wait_for(lambda: client.has(BasicAck))
            client.take(BasicAck)
            number += 1
        else:
            publish(cluster, client, range(number, number + 9))
            number += 9
    [served] = cluster.node(primary).state.primaries.values()
    assert served.fragment.fresh.stowed_count > 200
    other = next(name for name in cluster.hosts if name != primary)
    consumer = cluster.client(other)
    consumer.ask(BasicQos(prefetch_count=7), BasicQosOk)
    consumer.ask(BasicConsume("q", "c"), BasicConsumeOk)
    got: list[str] = []

    def look() -> bool:
        tags = tags_of(consumer)
        got.extend(consumer.deliveries())
        if tags:
            consumer.send(BasicAck(tags[-1], multiple=True))
        return len(got) >= 400

    cluster.wait_for(look, 60_000)
    assert got == [body(n) for n in range(400)]
