"""Whatever a decoder accepts, every later step survives: from a client's bytes to the next primary.

One chain, on whole nodes: field tables and property lists with the extremes of every type come in
as octets, as arguments of whatever is declared, bound and consumed, and as headers of messages.
They are routed, journalled, crossed to a backup by the peers' codec, put into the map's log and its
snapshot; messages die, with their headers written anew; then the primary is killed, starts again on
its disk, and all is asked for once more. What was accepted must be there, equal; nothing may raise
(the harness does, for anything that a node had to contain) or keep others from being served.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.content import DIRECT_REPLY_TO, decode_properties, headers_of
from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueUnbind,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.wiring.cluster_map.map import ClusterMap
from tests.examples import examples
from tests.property.amqp_extremes import property_lists, tables
from tests.property.amqp_strategies import any_method
from tests.property.test_amqp_deaths import is_taken
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster

_EMPTY = b"\0\0\0\0\xce"
#: Methods whose last field is a table of arguments.
_WITH_ARGUMENTS: tuple[Method, ...] = (
    QueueDeclare("odd", durable=True),
    QueueDeclare("odd own", exclusive=True),
    ExchangeDeclare("odd", "headers", durable=True),
    ExchangeDeclare("odd hash", "x-consistent-hash", durable=True),
    ExchangeDeclare("odd delay", "x-delayed-message", durable=True),
    QueueBind("safe", "amq.headers", "k"),
    QueueBind("own", "amq.headers", "k"),
    QueueUnbind("safe", "amq.headers", "k"),
    ExchangeBind("amq.fanout", "amq.headers", "k"),
    ExchangeUnbind("amq.fanout", "amq.headers", "k"),
    BasicConsume("safe", "odd"),
)
#: What a broker writes into the headers of a message that dies.
_WRITTEN = ("x-death", "x-first-death-queue", "x-first-death-reason", "x-first-death-exchange",
            "CC", "BCC", "x-delay")  # fmt: skip


def with_table(method: Method, table: bytes) -> bytes:
    """The frame of a method whose arguments are these octets."""
    frame = encode_method(1, method)
    assert frame.endswith(_EMPTY)
    payload = frame[7 : -len(_EMPTY)] + table
    return frame[:3] + len(payload).to_bytes(4, "big") + payload + b"\xce"


def _reopen(cluster: Cluster, client: Client, name: str) -> Client:
    """The client, or another one on that node, with channel 1 open."""
    if client.lost or client.has(ConnectionClose):
        return cluster.client(name)
    if client.has(ChannelClose):
        client.said.clear()
        client.write(encode_method(1, ChannelCloseOk()))
        client.ask(ChannelOpen(), ChannelOpenOk)
    return client


def _declare(cluster: Cluster) -> Client:
    """Queues that take what comes, and whose messages die into another."""
    client = cluster.client("n1")
    dlx: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    client.ask(QueueDeclare("safe", durable=True, arguments=dlx), QueueDeclareOk)
    return client


def _fetch(client: Client, queue: str, no_ack: bool) -> Content:
    client.send(BasicGet(queue, no_ack=no_ack))
    client.cluster.wait_for(lambda: client.has(BasicGetOk))
    found = next(
        said for said in client.said
        if isinstance(said, Content) and isinstance(said.method, BasicGetOk)
    )  # fmt: skip
    client.said.remove(found)
    return found


def _kept(properties: bytes) -> dict[str, str]:
    """What must be the same wherever a message is met: all but what a broker writes itself.

    As text, since not every number of a table equals itself.
    """
    found = decode_properties(properties)
    found.pop("headers", None)
    headers = headers_of(properties)
    for name in _WRITTEN:
        headers.pop(name, None)
    return {name: repr(value) for name, value in (*found.items(), *headers.items())}


def _accepts(properties: bytes) -> bool:
    """Whether it is a property list; one that says where its message goes may not be met again.

    Nor is one that asks for an answer which nobody here waits for.
    """
    if not is_taken(properties) or DIRECT_REPLY_TO.encode() in properties:
        return False
    return not {"CC", "BCC"} & headers_of(properties).keys()


def _lose_primary(cluster: Cluster, queue: str) -> Client:
    """The primary dies: it starts again on its disk, or others take over; a client of the new one.

    Three nodes: what it had crosses to the others, and comes back to it when it has started.
    """
    name = cluster.primary_of(queue)
    cluster.kill(name)
    if len(cluster.hosts) > 1:
        cluster.wait_for(lambda: cluster.primary_of(queue) != name)
    cluster.start(name)
    cluster.pass_ms(1_000)
    return cluster.client(cluster.primary_of(queue))


@pytest.mark.parametrize("size", [1, 3])
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(property_lists(lasting=True), min_size=1, max_size=12))
def test_what_a_message_says_of_itself_goes_the_whole_way(
    size: int, listed: Sequence[bytes]
) -> None:
    listed = [properties for properties in listed if _accepts(properties)]
    cluster = Cluster(size)
    client = _declare(cluster)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    for number, properties in enumerate(listed):
        client.write(publish(1, "", "safe", b"%d" % number, properties))
    cluster.pass_ms(200)
    assert not client.lost
    assert not client.has(ChannelClose), client.said
    for is_last in (False, True):
        for number, properties in enumerate(listed):
            found = _fetch(client, "safe", no_ack=False)
            assert found.body == b"%d" % number
            assert _kept(found.properties) == _kept(properties)
        client.send(BasicNack(0, True, not is_last))
        cluster.pass_ms(200)
        client = _lose_primary(cluster, "dead" if is_last else "safe")
    for number, properties in enumerate(listed):
        found = _fetch(client, "dead", no_ack=True)
        assert found.body == b"%d" % number
        assert _kept(found.properties) == _kept(properties)
        assert "x-death" in headers_of(found.properties)


said_by_clients = st.one_of(
    st.tuples(st.sampled_from(_WITH_ARGUMENTS), tables).map(lambda each: with_table(*each)),
    any_method.map(lambda method: encode_method(1, method)),
    st.tuples(
        st.sampled_from(["", "amq.headers", "amq.topic", "amq.fanout", "odd", "odd hash"]),
        st.sampled_from(["safe", "own", "dead", "a.b", ""]),
        property_lists(),
    ).map(lambda each: publish(1, each[0], each[1], b"body", each[2])),
)


@pytest.mark.parametrize("size", [1, 3])
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(said_by_clients, min_size=1, max_size=15))
def test_what_clients_say_is_survived_by_all_that_comes_after(
    size: int, said: Sequence[bytes]
) -> None:
    cluster = Cluster(size)
    client = _declare(cluster)
    client.ask(QueueDeclare("own", exclusive=True), QueueDeclareOk)
    client.ask(BasicConsume("dead", "reader"), BasicConsumeOk)
    for words in said:
        client.write(words)
        cluster.pass_ms(50)
        client = _reopen(cluster, client, "n1")
    cluster.pass_ms(1_000)
    _the_map_is_what_its_log_and_its_snapshots_say(cluster)
    before = _wiring(cluster)
    _lose_primary(cluster, "safe")
    assert _wiring(cluster) == before
    for name in cluster.hosts:
        for primary in cluster.node(name).state.primaries.values():
            primary.fragment.check()
        other = cluster.client(name)
        queue = other.ask(QueueDeclare(exclusive=True), QueueDeclareOk).queue
        other.publish(queue, "served")
        assert other.ask(BasicGet(queue, no_ack=True), BasicGetOk)


def _wiring(cluster: Cluster) -> tuple[object, ...]:
    """What lasts of what clients have declared, with its arguments; the same on all nodes."""
    found: list[tuple[object, ...]] = []
    for name in cluster.hosts:
        held = cluster.node(name).state.map
        exchanges = {
            k: each for k, each in held.exchanges.items() if each.durable and not each.auto_delete
        }
        queues = {
            key: each.arguments
            for key, each in held.queues.items()
            if each.durable and not each.auto_delete and "x-expires" not in each.arguments
        }
        ends = {(key.vhost, key.name) for key in (*exchanges, *queues)}
        bindings = [
            each for each in held.bindings
            if each.destination_kind != "node" and (each.vhost, each.destination) in ends
            and (each.vhost, each.source) in ends
        ]  # fmt: skip
        found.append((exchanges, queues, bindings))
    assert found[1:] == found[:-1]
    return found[0]


def _the_map_is_what_its_log_and_its_snapshots_say(cluster: Cluster) -> None:
    """Replayed from its commands, and restored from a snapshot, it is the same."""
    live = cluster.node("n1").state.map
    replayed = ClusterMap()
    for command in cluster.log:
        replayed.apply(command)
    restored = ClusterMap()
    restored.restore(live.snapshot())
    assert replayed.snapshot() == live.snapshot() == restored.snapshot()
