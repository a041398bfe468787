"""What waits for a slow subscriber is bounded; nobody else notices, and what was dropped counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import Incarnation, NodeId
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.node.private.bounding import Bounding
from fedq.node.settings import NodeSettings
from fedq.node.views.overview import NodeView, overview
from fedq.node.views.overview_types import ClientPlace, SubscriberOverview
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster

FAN = "fan"


def subscriber(cluster: Cluster, queue: str = "", **arguments: int | str) -> Client:
    """A client that subscribes to the exchange and acknowledges by receiving."""
    client = cluster.client()
    client.ask(ExchangeDeclare(FAN, "fanout"), ExchangeDeclareOk)
    table: FieldTable = {}
    for name, value in arguments.items():
        table[name.replace("_", "-")] = value
    client.ask(QueueDeclare(queue, exclusive=True, arguments=table), QueueDeclareOk)
    client.ask(QueueBind("", FAN), QueueBindOk)
    client.ask(BasicConsume("", no_ack=True), BasicConsumeOk)
    client.said.clear()
    return client


def fill(client: Client, writable: bool) -> None:
    """The client's socket is full, or has room again."""
    connection = client.connection
    client.host.inbox.append(lambda node: node.on_writable(connection, writable))
    client.cluster.settle()


def send(client: Client, numbers: range, each: int = 1) -> None:
    """Publishes messages, so many in one turn."""
    for start in range(numbers.start, numbers.stop, each):
        piece = range(start, min(start + each, numbers.stop))
        client.write(b"".join(publish(1, FAN, "", b"%d" % number) for number in piece))
        client.cluster.settle()


def heard(client: Client) -> list[int]:
    """The numbers of all deliveries since the last look."""
    client.cluster.settle()
    found = [
        int(said.body)
        for said in client.said
        if isinstance(said, Content) and isinstance(said.method, BasicDeliver)
    ]
    client.said.clear()
    return found


def queues(view: NodeView, slow: bool, size: int = 9) -> list[SubscriberOverview]:
    """All exclusive queues, gathered page by page."""
    found: list[SubscriberOverview] = []
    begin: ClientPlace | None = ClientPlace()
    while begin is not None:
        page = view.subscriber_page(None, begin, size, slow)
        assert len(page.items) <= size
        found += page.items
        begin = page.next_place
    return found


def test_the_oldest_messages_of_a_slow_subscriber_go_and_all_others_hear_everything() -> None:
    cluster = Cluster(1, exclusive_queue_messages=10)
    slow, quick, publisher = (subscriber(cluster) for _ in range(3))
    fill(slow, False)
    send(publisher, range(100))
    view = overview(cluster.node("n1"))
    assert heard(quick) == list(range(100))
    [found] = queues(view, slow=True)
    assert (found.connection, found.ready, found.dropped, found.is_stuck) == (
        slow.connection, 10, 90, True,
    )  # fmt: skip
    assert view.node().exclusive_dropped == 90
    fill(slow, True)
    assert heard(slow) == list(range(90, 100))
    [found] = queues(view, slow=True)
    assert (found.ready, found.dropped, found.is_stuck) == (0, 90, False)


def test_a_subscriber_that_keeps_up_loses_nothing_however_much_comes_at_once() -> None:
    cluster = Cluster(1, exclusive_queue_messages=1)
    quick, publisher = subscriber(cluster), subscriber(cluster)
    send(publisher, range(60), each=20)
    assert heard(quick) == list(range(60))
    assert overview(cluster.node("n1")).node().exclusive_dropped == 0


def test_such_a_queue_goes_the_short_way() -> None:
    cluster = Cluster(1, exclusive_queue_messages=10, exclusive_queue_bytes=1_000)
    subscriber(cluster)
    [private] = cluster.node("n1").state.private.values()
    assert private.sole_consumer is not None


@pytest.mark.parametrize(("asked", "left"), [(3, 3), (500, 10)])
def test_the_lesser_bound_counts(asked: int, left: int) -> None:
    cluster = Cluster(1, exclusive_queue_messages=10)
    slow = subscriber(cluster, x_max_length=asked)
    publisher = subscriber(cluster)
    fill(slow, False)
    send(publisher, range(50))
    [found] = queues(overview(cluster.node("n1")), slow=True)
    assert (found.ready, found.dropped) == (left, 50 - left)


def test_a_queue_that_asked_for_refusals_keeps_them() -> None:
    cluster = Cluster(1, exclusive_queue_messages=10)
    slow = subscriber(cluster, x_max_length=3, x_overflow="reject-publish")
    publisher = subscriber(cluster)
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    fill(slow, False)
    send(publisher, range(5))
    refused = [said for said in publisher.said if isinstance(said, BasicNack)]
    assert len(refused) == 2
    [found] = queues(overview(cluster.node("n1")), slow=True)
    assert (found.ready, found.dropped) == (3, 0)


def test_bytes_are_bounded_where_that_is_wanted() -> None:
    cluster = Cluster(1, exclusive_queue_messages=0, exclusive_queue_bytes=20)
    slow, publisher = subscriber(cluster), subscriber(cluster)
    fill(slow, False)
    send(publisher, range(10, 40))
    fill(slow, True)
    assert heard(slow) == list(range(30, 40))


def test_without_bounds_everything_waits() -> None:
    cluster = Cluster(1, exclusive_queue_messages=0)
    slow, publisher = subscriber(cluster), subscriber(cluster)
    fill(slow, False)
    send(publisher, range(300), each=50)
    fill(slow, True)
    assert heard(slow) == list(range(300))


def test_a_slow_subscriber_leaves_where_that_is_wanted_and_nobody_else_does() -> None:
    cluster = Cluster(1, exclusive_queue_messages=10, exclusive_queue_disconnects=True)
    slow, quick, publisher = (subscriber(cluster) for _ in range(3))
    fill(slow, False)
    send(publisher, range(10))
    assert len(queues(overview(cluster.node("n1")), slow=True)) == 1
    send(publisher, range(10, 30))
    [close] = [said for said in slow.said if isinstance(said, ConnectionClose)]
    assert close.reply_code == 506
    assert "limits.exclusive_queue_messages" in close.reply_text
    assert heard(quick) == list(range(30))
    view = overview(cluster.node("n1"))
    assert (view.node().slow_closed, view.node().exclusive_dropped) == (1, 0)
    assert len(queues(view, slow=False)) == 2


def test_who_said_how_long_its_queue_may_be_does_not_leave_for_that() -> None:
    cluster = Cluster(1, exclusive_queue_messages=10, exclusive_queue_disconnects=True)
    slow = subscriber(cluster, x_max_length=3)
    publisher = subscriber(cluster)
    fill(slow, False)
    send(publisher, range(30))
    view = overview(cluster.node("n1"))
    assert (view.node().slow_closed, view.node().exclusive_dropped) == (0, 27)


def test_many_slow_ones_leave_over_several_turns_and_all_do() -> None:
    cluster = Cluster(
        1, exclusive_queue_messages=2, exclusive_queue_disconnects=True, work_per_turn=100
    )
    slow = [subscriber(cluster) for _ in range(40)]
    publisher = subscriber(cluster)
    for client in slow:
        fill(client, False)
    send(publisher, range(5))
    cluster.pass_ms(1_000)
    assert all(any(isinstance(said, ConnectionClose) for said in each.said) for each in slow)
    assert overview(cluster.node("n1")).node().slow_closed == 40


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(1, 7))
def test_pages_of_any_size_give_each_queue_once(shape: list[int], size: int) -> None:
    """`shape`: how many queues each client has."""
    cluster = Cluster(1)
    wanted = 0
    for count in shape:
        client = cluster.client()
        for number in range(count):
            client.ask(QueueDeclare(f"q{wanted + number}", exclusive=True), QueueDeclareOk)
        wanted += count
    view = overview(cluster.node("n1"))
    found = [each.queue.name for each in queues(view, slow=False, size=size)]
    assert sorted(found) == sorted(f"q{number}" for number in range(wanted))
    assert queues(view, slow=True, size=size) == []


def test_other_virtual_hosts_are_left_out() -> None:
    cluster = Cluster(1)
    subscriber(cluster)
    view = overview(cluster.node("n1"))
    assert len(view.subscriber_page("/", ClientPlace(), 9, False).items) == 1
    assert view.subscriber_page("elsewhere", ClientPlace(), 9, False).items == []


@given(st.none() | st.integers(0, 20), st.integers(0, 20))
def test_no_policy_is_made_longer(asked: int | None, bound: int) -> None:
    settings = _settings(bound)
    policy = QueuePolicy(max_length=asked, message_ttl_ms=5)
    found = Bounding(settings).bounded(policy)
    limits = [each for each in (asked, bound or None) if each is not None]
    assert found.max_length == min(limits, default=None)
    assert found._replace(max_length=asked) == policy


def _settings(bound: int) -> NodeSettings:
    node = NodeId("n1")
    return NodeSettings(
        node=node, incarnation=Incarnation(1), peers={node: ""}, amqp_address="",
        exclusive_queue_messages=bound,
    )  # fmt: skip


def test_all_queues_without_arguments_share_one_policy() -> None:
    bounding = Bounding(_settings(5))
    assert bounding.bounded(PLAIN) is bounding.bounded(QueuePolicy())
