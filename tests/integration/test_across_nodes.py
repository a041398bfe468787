"""One queue name, three nodes: what only a federation has to get right.

Publish on a, consume on c; fragments drained from anywhere; counts, purge, get and delete of the
whole; order per channel; private queues, replies and subscriptions of other nodes.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import eventually
from tests.integration.stock import Address, BlockingChannel, connect, pika
from tests.integration.test_plain_consuming import pump, receive
from tests.integration.test_plain_queues import depth, put
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

Channels = dict[str, BlockingChannel]


@pytest.fixture
def on(nodes: dict[str, Address], open_connection: Connect) -> Channels:
    """A channel on each node, by the node's name."""
    return {name: open_connection(address).channel() for name, address in nodes.items()}


@pytest.fixture
def spread(on: Channels, name: str) -> Iterator[str]:
    """A queue in three fragments, with ten messages published through each node."""
    on["a"].queue_declare(name, arguments={"x-fedq-fragments": 3})
    for node, channel in on.items():
        put(channel, name, *(f"{node}{number}".encode() for number in range(10)))
    yield name
    probe = on["a"].connection.channel()
    probe.queue_delete(name)


EVERYTHING = sorted(f"{node}{number}".encode() for node in "abc" for number in range(10))


def test_published_on_a_consumed_on_c(on: Channels, name: str) -> None:
    on["b"].queue_declare(name)
    seen: list[bytes] = []
    on["c"].basic_consume(name, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    put(on["a"], name, *(b"%d" % number for number in range(100)))
    receive(on["c"], "all arrive", lambda: len(seen) >= 100)
    assert seen == [b"%d" % number for number in range(100)]
    on["b"].queue_delete(name)


def test_a_queue_declared_anywhere_is_there_everywhere(on: Channels, name: str) -> None:
    """After declare-ok and bind-ok, any node routes at once (promise P6)."""
    for round_ in range(5):
        queue = f"{name}-{round_}"
        on["a"].queue_declare(queue)
        on["b"].queue_bind(queue, "amq.topic", f"{queue}.#")
        put(on["c"], queue, b"by name")
        on["c"].basic_publish("amq.topic", f"{queue}.x", b"by key", mandatory=True)
        assert depth(on["b"], queue) == 2
        assert on["c"].queue_delete(queue).method.message_count == 2
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            on["a"].connection.channel().queue_declare(queue, passive=True)


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_a_consumer_on_any_node_drains_all_fragments(on: Channels, spread: str, node: str) -> None:
    seen: list[bytes] = []
    on[node].basic_consume(spread, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    receive(on[node], "all arrive", lambda: len(seen) >= 30)
    assert sorted(seen) == EVERYTHING
    assert depth(on["a"], spread) == 0


@pytest.mark.parametrize("prefetch", [0, 10])
def test_no_message_waits_behind_a_busy_consumer_of_the_nearest_node(
    on: Channels, name: str, prefetch: int
) -> None:
    """The consumer beside the fragment is busy with what it got first; the others do the rest."""
    on["a"].queue_declare(name, durable=True)
    seen: Counter[str] = Counter()
    unfinished: list[int] = []

    def work(node: str, channel: BlockingChannel, method: Any, _p: object, _b: bytes) -> None:
        seen[node] += 1
        if node == "a" and seen.total() < 190:
            unfinished.append(method.delivery_tag)
        else:
            channel.basic_ack(method.delivery_tag)

    for node, channel in on.items():
        channel.basic_qos(prefetch_count=prefetch)
        channel.basic_consume(name, partial(work, node))
    publisher = on["b"].connection.channel()
    for number in range(200):
        put(publisher, name, b"%d" % number)

        def arrived(count: int = number + 1) -> bool:
            for channel in on.values():
                channel.connection.process_data_events(0)
            return seen.total() >= count

        until(f"message {number} is with a consumer", arrived)
    assert len(unfinished) < 8, "the busy one got what it could not do"
    assert min(seen["b"], seen["c"]) > 50
    for tag in unfinished:
        on["a"].basic_ack(tag)
    publisher.queue_delete(name)


def test_consumers_on_all_nodes_share_all_fragments(on: Channels, spread: str) -> None:
    seen: Counter[bytes] = Counter()
    for channel in on.values():
        channel.basic_qos(prefetch_count=2)

        def keep(own: BlockingChannel, method: Any, _properties: object, body: bytes) -> None:
            seen[body] += 1
            own.basic_ack(method.delivery_tag)

        channel.basic_consume(spread, keep)

    def all_seen() -> bool:
        for channel in on.values():
            pump(channel)
        return len(seen) == 30

    until("all are consumed", all_seen)
    assert sorted(seen) == EVERYTHING
    assert set(seen.values()) == {1}


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_counts_gets_purges_and_deletes_act_on_the_whole(
    on: Channels, spread: str, node: str
) -> None:
    assert depth(on[node], spread) == 30
    got = sorted(on[node].basic_get(spread, auto_ack=True)[2] for _ in range(12))
    assert len(set(got)) == 12
    assert depth(on[node], spread) == 18
    assert on[node].queue_purge(spread).method.message_count == 18
    assert on[node].basic_get(spread) == (None, None, None)
    put(on["b"], spread, b"late", b"later")
    assert on[node].queue_delete(spread).method.message_count == 2


def test_get_is_empty_only_when_every_fragment_is(on: Channels, spread: str) -> None:
    """Promise P5: thirty gets on one node find thirty messages without a single get-empty."""
    got = [on["b"].basic_get(spread, auto_ack=True)[2] for _ in range(30)]
    assert sorted(got) == EVERYTHING
    assert on["b"].basic_get(spread, auto_ack=True)[0] is None


def test_each_channel_keeps_its_order(nodes: dict[str, Address], on: Channels, name: str) -> None:
    """Promise P4, with three publishers on three nodes and one consumer."""
    on["a"].queue_declare(name, arguments={"x-fedq-fragments": 3})
    threads: list[threading.Thread] = []

    def publish(node: str) -> None:
        connection = connect(nodes[node])
        put(connection.channel(), name, *(f"{node}:{number}".encode() for number in range(200)))
        connection.close()

    for node in nodes:
        threads.append(threading.Thread(target=publish, args=(node,), daemon=True))
        threads[-1].start()
    seen: list[list[str]] = []
    on["b"].basic_qos(prefetch_count=20)

    def keep(channel: BlockingChannel, method: Any, _properties: object, body: bytes) -> None:
        seen.append(body.decode().split(":"))
        channel.basic_ack(method.delivery_tag)

    on["b"].basic_consume(name, keep)
    receive(on["b"], "all arrive", lambda: len(seen) >= 600)
    for thread in threads:
        thread.join()
    for node in nodes:
        assert [int(number) for own, number in seen if own == node] == list(range(200))
    on["c"].queue_delete(name)


def holds(channel: BlockingChannel, queue: str, count: int) -> bool:
    """Whether the queue holds so many messages."""
    return depth(channel, queue) == count


def test_subscribers_on_all_nodes_hear_a_fanout(on: Channels, name: str) -> None:
    on["a"].exchange_declare(name, "fanout")
    queues: dict[str, list[str]] = {}
    for node, channel in on.items():
        queues[node] = [channel.queue_declare("", exclusive=True).method.queue for _ in range(5)]
        for queue in queues[node]:
            channel.queue_bind(queue, name)
    on["b"].confirm_delivery()
    for number in range(3):
        on["b"].basic_publish(name, "", b"%d" % number)
    for node, channel in on.items():
        for queue in queues[node]:
            eventually("all three are there", partial(holds, channel, queue, 3))
            seen = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)]
            assert seen == [b"0", b"1", b"2"]
    on["c"].exchange_delete(name)


def test_subscribers_hear_only_their_topics(on: Channels, name: str) -> None:
    """And from the moment of bind-ok on, whichever node is published to."""
    on["a"].exchange_declare(name, "topic")
    queue = on["c"].queue_declare("", exclusive=True).method.queue
    on["c"].queue_bind(queue, name, "stock.*")
    on["a"].confirm_delivery()
    on["a"].basic_publish(name, "stock.nyse", b"yes", mandatory=True)
    on["a"].basic_publish(name, "stock.nyse.late", b"no")
    on["b"].confirm_delivery()
    on["b"].basic_publish(name, "stock.xetra", b"yes, too", mandatory=True)
    eventually("both are there", lambda: depth(on["c"], queue) == 2)
    assert {on["c"].basic_get(queue, auto_ack=True)[2] for _ in range(2)} == {b"yes", b"yes, too"}
    on["c"].queue_unbind(queue, name, "stock.*")
    on["c"].confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        on["c"].basic_publish(name, "stock.nyse", b"x", mandatory=True)
    on["b"].exchange_delete(name)


def test_mandatory_knows_queues_of_other_nodes(on: Channels, name: str) -> None:
    on["a"].exchange_declare(name, "direct")
    queue = on["c"].queue_declare("", exclusive=True).method.queue
    on["c"].queue_bind(queue, name, "there")
    on["a"].confirm_delivery()
    on["a"].basic_publish(name, "there", b"kept", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        on["a"].basic_publish(name, "nowhere", b"returned", mandatory=True)
    on["c"].queue_delete(queue)
    with pytest.raises(pika.exceptions.UnroutableError):
        on["a"].basic_publish("", queue, b"its queue is gone", mandatory=True)
    on["b"].exchange_delete(name)


def test_a_request_on_a_is_answered_from_b(on: Channels, name: str) -> None:
    """RPC: the reply goes to a private queue of another node, by its name alone."""
    on["b"].queue_declare(name)
    reply_queue = on["a"].queue_declare("", exclusive=True).method.queue
    replies: list[tuple[str, bytes]] = []

    def answer(
        channel: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes
    ) -> None:
        back = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, body.upper(), back)
        channel.basic_ack(method.delivery_tag)

    on["b"].basic_consume(name, answer)
    on["a"].basic_consume(
        reply_queue,
        lambda _c, _m, properties, body: replies.append((properties.correlation_id, body)),
        auto_ack=True,
    )
    for number in range(10):
        request = pika.BasicProperties(reply_to=reply_queue, correlation_id=str(number))
        on["a"].basic_publish("", name, b"question %d" % number, request)

    def all_answered() -> bool:
        pump(on["b"])
        pump(on["a"])
        return len(replies) == 10

    until("all are answered", all_answered)
    assert replies == [(str(number), b"QUESTION %d" % number) for number in range(10)]
    on["b"].queue_delete(name)


def test_an_exclusive_name_is_taken_on_every_node(on: Channels, name: str) -> None:
    on["a"].queue_declare(name, exclusive=True)
    for node in ("b", "c"):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as locked:
            on[node].connection.channel().queue_declare(name)
        assert locked.value.reply_code == 405


def test_idle_consumers_elsewhere_get_work_at_once(on: Channels, name: str) -> None:
    """Prefetch 1 on every node: no message waits behind a busy consumer while another idles."""
    on["a"].queue_declare(name)
    held: list[tuple[str, int]] = []
    for node, channel in on.items():
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(
            name, lambda _c, method, _p, _b, node=node: held.append((node, method.delivery_tag))
        )
    put(on["a"].connection.channel(), name, b"1", b"2", b"3")

    def all_busy() -> bool:
        for channel in on.values():
            pump(channel)
        return len(held) == 3

    until("each consumer holds one", all_busy)
    assert sorted(node for node, _ in held) == ["a", "b", "c"]
    on["a"].connection.channel().queue_delete(name)
