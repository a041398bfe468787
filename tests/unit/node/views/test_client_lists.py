"""Lists of connections, channels and consumers of a node, page by page; connections that end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import ConnectionId, QueueKey
from fedq.core.limits import LISTED_PER_PAGE_MAX
from fedq.node.records.client_state import Client as ClientRecord
from fedq.node.views.overview import NodeView, overview
from fedq.node.views.overview_types import ClientPlace, ConsumerOverview
from tests.unit.node.harness import Client, Cluster


def consumers(view: NodeView, size: int, vhost: str | None = None) -> list[ConsumerOverview]:
    """All consumers, gathered page by page."""
    found: list[ConsumerOverview] = []
    begin: ClientPlace | None = ClientPlace()
    while begin is not None:
        page = view.consumer_page(vhost, begin, size)
        assert len(page.items) <= size
        found += page.items
        begin = page.next_place
    return found


def consume(client: Client, tag: str, channel: int = 1, **more: object) -> None:
    arguments = {"x-priority": more.pop("priority")} if "priority" in more else {}
    request = BasicConsume("jobs", tag, arguments=arguments, **more)  # type: ignore[arg-type]
    client.ask(request, BasicConsumeOk, channel)


@given(st.lists(st.lists(st.integers(1, 3), max_size=6), max_size=4), st.integers(1, 7))
def test_pages_of_any_size_give_each_consumer_once(shape: list[list[int]], size: int) -> None:
    """`shape`: for each client the channels of its consumers."""
    cluster = Cluster(1)
    wanted = []
    for at, channels in enumerate(shape):
        client = cluster.client(channels=3)
        client.ask(QueueDeclare("jobs"), QueueDeclareOk)
        for number, channel in enumerate(channels):
            consume(client, f"t{number}", channel)
            wanted.append((at, channel, f"t{number}"))
    view = overview(cluster.node("n1"))
    found = consumers(view, size)
    numbers = sorted({each.connection for each in found})
    clients = [at for at, channels in enumerate(shape) if channels]
    assert len(numbers) == len(clients)
    by_number = dict(zip(numbers, clients, strict=True))
    places = [(by_number[each.connection], each.channel, each.tag) for each in found]
    assert places == sorted(wanted)
    assert consumers(view, size, "elsewhere") == []


def test_who_comes_and_goes_between_two_pages_hides_nobody() -> None:
    cluster = Cluster(1)
    client = cluster.client()
    client.ask(QueueDeclare("jobs"), QueueDeclareOk)
    for tag in "abcd":
        consume(client, tag)
    view = overview(cluster.node("n1"))
    first = view.consumer_page(None, ClientPlace(), 2)
    assert first.next_place is not None
    client.ask(BasicCancel("b"), BasicCancelOk)
    consume(client, "bb")
    second = view.consumer_page(None, first.next_place, 9)
    assert [each.tag for each in (*first.items, *second.items)] == ["a", "b", "bb", "c", "d"]


def test_a_page_looks_at_no_more_than_it_may() -> None:
    """Of many clients none of which matches; each page goes on where the last one ended."""
    cluster = Cluster(1)
    cluster.client()
    node = cluster.node("n1")
    clients = node.state.clients
    [known] = clients.values()
    last = known.connection
    for _ in range(2 * LISTED_PER_PAGE_MAX):
        last = ConnectionId(last + 1)
        clients[last] = ClientRecord(last, known.machine, "", None)
    view = overview(node)
    for page_of in (view.connection_page, view.channel_page, view.consumer_page):
        begin: ClientPlace | None = ClientPlace()
        begins = []
        while begin is not None:
            begins.append(begin.connection)
            page = page_of("elsewhere", begin, 1)
            assert not page.items
            begin = page.next_place
        assert begins == [0, *(known.connection + n * LISTED_PER_PAGE_MAX for n in (1, 2))]


def test_what_a_channel_and_its_consumers_are_like() -> None:
    cluster = Cluster(1)
    client = cluster.client(channels=3)
    client.ask(QueueDeclare("jobs"), QueueDeclareOk)
    client.ask(BasicQos(0, 5, False), BasicQosOk)
    client.ask(BasicQos(0, 9, True), BasicQosOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    consume(client, "c", priority=3)
    client.publish("jobs", "one", "two")
    client.ask(TxSelect(), TxSelectOk, 2)
    client.publish("jobs", "three", channel=2)
    client.take(BasicDeliver)
    client.send(BasicAck(1))
    cluster.settle()
    view = overview(cluster.node("n1"))
    one, two, three = view.channel_page(None, ClientPlace(), 9).items
    assert (one.consumers, one.unacknowledged, one.prefetch, one.prefetch_global) == (1, 1, 5, 9)
    assert (one.confirms, one.unconfirmed, one.transacts) == (True, 0, False)
    assert (two.confirms, two.transacts, two.uncommitted) == (False, True, 1)
    assert [each.number for each in (one, two, three)] == [1, 2, 3]
    [consumer] = consumers(view, 9)
    assert (consumer.queue, consumer.tag) == (QueueKey("/", "jobs"), "c")
    assert (consumer.no_ack, consumer.prefetch, consumer.priority) == (False, 5, 3)
    assert consumer.active is True
    later = view.channel_page(None, ClientPlace(one.connection, 2), 9)
    assert [each.number for each in later.items] == [2, 3]


@pytest.mark.parametrize("exclusive", [True, False])
def test_of_a_single_active_consumer_only_the_first_may_be(exclusive: bool) -> None:
    cluster = Cluster(1)
    client = cluster.client()
    single: FieldTable = {"x-single-active-consumer": True}
    client.ask(QueueDeclare("jobs", exclusive=exclusive, arguments=single), QueueDeclareOk)
    for tag in "ab":
        consume(client, tag)
    view = overview(cluster.node("n1"))
    # The primary of a shared queue has the last word: others' consumers may have been earlier.
    assert [each.active for each in consumers(view, 9)] == [True if exclusive else None, False]
    fragments = view.local_fragments(QueueKey("/", "jobs"))
    assert [each.active for each in fragments] == ([] if exclusive else ["n1"])


# --- ends -----------------------------------------------------------------------------------------


def end(cluster: Cluster, number: int | None, user: str | None, vhost: str | None) -> int:
    told: list[int] = []
    connection = None if number is None else ConnectionId(number)
    cluster.hosts[cluster.node("n1").state.me].inbox.append(
        lambda node: node.clients.evictions.on_asked(
            connection, user, vhost, "go away", told.append
        )
    )
    cluster.settle()
    [count] = told
    return count


def test_one_connection_ends_with_the_operators_words() -> None:
    cluster = Cluster(1)
    one, two = cluster.client(), cluster.client()
    view = overview(cluster.node("n1"))
    first, _ = view.connection_page(None, ClientPlace(), 9).items
    assert end(cluster, first.connection, None, None) == 1
    assert one.close_reason == (320, "CONNECTION_FORCED - go away")
    assert not two.lost
    left = view.connection_page(None, ClientPlace(), 9).items
    assert [each.connection for each in left] == [two.connection]
    assert end(cluster, 999, None, None) == 0


def test_all_of_a_user_or_virtual_host_end_and_what_they_held_is_free() -> None:
    cluster = Cluster(1)
    clients = [cluster.client() for _ in range(3)]
    clients[0].ask(QueueDeclare("own", exclusive=True), QueueDeclareOk)
    stranger = cluster.knock()
    assert end(cluster, None, "guest", "elsewhere") == 0
    assert end(cluster, None, "guest", None) == 3
    assert [each.close_reason for each in clients] == [(320, "CONNECTION_FORCED - go away")] * 3
    assert not stranger.lost
    late = cluster.client()
    late.ask(QueueDeclare("own", exclusive=True), QueueDeclareOk)
    assert end(cluster, None, None, "/") == 1


def test_a_page_of_connections_looks_at_their_channels_too() -> None:
    """What a connection has unacknowledged is a sum over its channels: they count."""
    cluster = Cluster(1)
    for _ in range(7):
        cluster.client(channels=LISTED_PER_PAGE_MAX // 3)
    view = overview(cluster.node("n1"))
    begin: ClientPlace | None = ClientPlace()
    sizes = []
    while begin is not None:
        page = view.connection_page(None, begin, 500)
        sizes.append(len(page.items))
        begin = page.next_place
    assert sizes == [3, 3, 1]
    assert len(view.connections(500)) == 3
