"""Publishes in one piece of bytes, with all kinds of routes: each goes its own way, in order."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
)
from fedq.core.errors import NOT_FOUND
from tests.examples import examples
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster

#: Queue -> (exchange, key, arguments). Private queues have names that begin with "p".
BINDINGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "all": ("topics", "#", {}),
    "as": ("topics", "a.*", {}),
    "pa": ("topics", "a.a", {}),
    "other": ("others", "#", {}),
    "ones": ("headers", "", {"n": 1}),
    "twos": ("headers", "", {"n": 2}),
}
#: Route -> the queues it leads to, by what the header "n" says.
ROUTES: dict[tuple[str, str], dict[int, tuple[str, ...]]] = {
    ("topics", "a.a"): {1: ("all", "as", "pa"), 2: ("all", "as", "pa")},
    ("topics", "a.b"): {1: ("all", "as"), 2: ("all", "as")},
    ("topics", "a.c"): {1: ("all", "as"), 2: ("all", "as")},
    ("topics", "b"): {1: ("all",), 2: ("all",)},
    ("topics", "c"): {1: ("all",), 2: ("all",)},
    ("others", "b"): {1: ("other",), 2: ("other",)},
    ("headers", "b"): {1: ("ones",), 2: ("twos",)},
    ("headers", "c"): {1: ("ones",), 2: ("twos",)},
    ("", "all"): {1: ("all",), 2: ("all",)},
    ("", "nobody"): {1: (), 2: ()},
    ("", "missing"): {1: (), 2: ()},
}
published = st.lists(
    st.tuples(st.sampled_from(list(ROUTES)), st.sampled_from([1, 2]), st.booleans()), max_size=25
)


def wired(confirms: bool) -> tuple[Client, Client]:
    """A consumer of all queues, each by its name, and a publisher, perhaps with confirms."""
    cluster = Cluster(1)
    consumer, publisher = cluster.client(), cluster.client()
    methods: list[Method] = [
        ExchangeDeclare("topics", "topic"),
        ExchangeDeclare("others", "topic"),
        ExchangeDeclare("headers", "headers"),
    ]
    for queue, (exchange, key, arguments) in BINDINGS.items():
        methods += [
            QueueDeclare(queue, exclusive=queue.startswith("p")),
            QueueBind(queue, exchange, key, arguments=arguments),
            BasicConsume(queue, queue, no_ack=True),
        ]
    consumer.send(*methods)
    consumer.cluster.wait_for(
        lambda: sum(isinstance(said, BasicConsumeOk) for said in consumer.said) == len(BINDINGS)
    )
    if confirms:
        publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    return consumer, publisher


def delivered(client: Client) -> dict[str, list[int]]:
    """Consumer tag -> numbers of the messages it got."""
    found: dict[str, list[int]] = {queue: [] for queue in BINDINGS}
    for said in client.said:
        if isinstance(said, Content) and isinstance(said.method, BasicDeliver):
            found[said.method.consumer_tag].append(int(said.body))
    return found


@settings(max_examples=examples(60))
@given(published, st.booleans())
def test_each_goes_its_own_way_in_order(
    batch: list[tuple[tuple[str, str], int, bool]], confirms: bool
) -> None:
    consumer, publisher = wired(confirms)
    data = b"".join(
        publish(
            1, exchange, key, b"%d" % number, encode_properties({"headers": {"n": n}}),
            int(mandatory),
        )
        for number, ((exchange, key), n, mandatory) in enumerate(batch)
    )  # fmt: skip
    publisher.write(data)
    publisher.cluster.settle()
    wanted: dict[str, list[int]] = {queue: [] for queue in BINDINGS}
    returned: list[str] = []
    for number, (route, n, mandatory) in enumerate(batch):
        for queue in ROUTES[route][n]:
            wanted[queue].append(number)
        if mandatory and not ROUTES[route][n]:
            returned.append(route[1])
    assert delivered(consumer) == wanted
    heard = publisher.heard()
    assert [each.routing_key for each in heard if isinstance(each, BasicReturn)] == returned
    acks = [each.delivery_tag for each in heard if isinstance(each, BasicAck)]
    assert max(acks, default=0) == (len(batch) if confirms else 0), "all are confirmed"


@pytest.mark.parametrize("confirms", [False, True])
def test_what_came_before_a_violation_is_published(confirms: bool) -> None:
    consumer, publisher = wired(confirms)
    routes = [("topics", "a.b"), ("topics", "a.c"), ("nowhere", "a.b"), ("topics", "a.b")]
    publisher.write(
        b"".join(
            publish(1, exchange, routing_key, b"%d" % number)
            for number, (exchange, routing_key) in enumerate(routes)
        )
    )
    publisher.cluster.settle()
    assert publisher.take(ChannelClose).reply_code == NOT_FOUND
    assert delivered(consumer)["as"] == [0, 1]
