"""Streams in several fragments: a key has its own, readers read all, those with a name share."""

from collections import Counter
from typing import Any

import pytest

from fedq.amqp.content import decode_properties, encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
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
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.ids import QueueKey
from fedq.core.message import make_route
from fedq.core.versions import PARTED
from fedq.node.views.overview import overview
from fedq.wiring.routing.partitions import partition_of
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster

KEY = QueueKey("/", "s")
#: Keys with their fragments, of three: what was stored once must be found there in all releases.
FRAGMENTS = {"": 0, "a": 2, "b": 2, "c": 0, "d": 2, "f": 0, "g": 1, "orders.eu": 1}
EVERYWHERE = pytest.mark.parametrize("size", [1, 3])


def parted(cluster: Cluster, count: int = 3, **arguments: TableValue) -> Client:
    """A client that has declared the stream "s", to which all keys of an exchange lead."""
    client = cluster.client()
    table: FieldTable = {"x-queue-type": "stream", "x-fedq-fragments": count}
    table |= {word.replace("_", "-"): value for word, value in arguments.items()}
    client.ask(QueueDeclare("s", durable=True, arguments=table), QueueDeclareOk)
    client.ask(ExchangeDeclare("x", "fanout", durable=True), ExchangeDeclareOk)
    client.ask(QueueBind("s", "x", ""), QueueBindOk)
    cluster.settle()
    return client


def put(client: Client, key: str, *bodies: str) -> None:
    client.publish(key, *bodies, exchange="x")
    client.cluster.settle()


def reads(
    client: Client, prefetch: int = 100, tag: str = "r", offset: TableValue = "first",
    **more: TableValue,
) -> None:  # fmt: skip
    """The client reads all fragments."""
    client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
    table: FieldTable = {"x-stream-offset": offset}
    table |= {"x-" + word.replace("_", "-"): value for word, value in more.items()}
    client.ask(BasicConsume("s", tag, arguments=table), BasicConsumeOk)
    client.cluster.settle()


def got(client: Client) -> list[tuple[int, int, str]]:
    """Fragments, offsets and bodies of what was delivered since the last look."""
    found = [said for said in client.said if isinstance(said, Content)]
    client.said = [said for said in client.said if not isinstance(said, Content)]
    told: list[tuple[int, int, str]] = []
    for each in found:
        headers: Any = decode_properties(each.properties)["headers"]
        body = each.body.decode()
        told.append((headers["x-fedq-fragment"], headers["x-stream-offset"], body))
    return told


def by_fragment(told: list[tuple[int, int, str]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for fragment, _, body in told:
        found.setdefault(fragment, []).append(body)
    return found


def primaries(cluster: Cluster, node: str = "n1") -> list[str]:
    """Who serves the fragments, in order."""
    known = cluster.node(node).state.map
    return [known.fragments[fragment].primary for fragment in known.queues[KEY].fragments]


def other_node(cluster: Cluster) -> str:
    return list(cluster.hosts)[-1]


def test_the_fragment_of_a_key_never_changes() -> None:
    assert {key: partition_of(make_route("x", key), 3) for key in FRAGMENTS} == FRAGMENTS
    assert partition_of(make_route("another", "g"), 3) == 1, "the exchange does not count"


def test_keys_are_spread_evenly() -> None:
    found = Counter(partition_of(make_route("", f"key {n}"), 64) for n in range(64 * 100))
    assert len(found) == 64
    assert max(found.values()) < 2 * min(found.values())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_fragments_are_spread_over_the_nodes(size: int) -> None:
    cluster = Cluster(size)
    parted(cluster, 7)
    shares = Counter(primaries(cluster))
    assert sum(shares.values()) == 7
    assert len(shares) == size
    assert max(shares.values()) - min(shares.values()) <= 1


@EVERYWHERE
def test_a_message_goes_to_the_fragment_of_its_key_from_anywhere(size: int) -> None:
    cluster = Cluster(size)
    parted(cluster)
    publishers = [cluster.client(name) for name in cluster.hosts]
    for each in publishers:
        each.ask(ConfirmSelect(), ConfirmSelectOk)
    for number in range(4):
        for key in FRAGMENTS:
            put(publishers[number % size], key, f"{key}{number}")
    cluster.pass_ms(200)
    assert all(each.has(BasicAck) for each in publishers)
    for name in cluster.hosts:
        reader = cluster.client(name)
        reads(reader)
        told = by_fragment(got(reader))
        assert sum(map(len, told.values())) == 4 * len(FRAGMENTS)
        for key, fragment in FRAGMENTS.items():
            mine = [body for body in told[fragment] if body[:-1] == key]
            assert mine == [f"{key}{number}" for number in range(4)], "order holds for a key"


def test_one_batch_goes_to_several_fragments_and_is_confirmed_as_one() -> None:
    cluster = Cluster(3)
    client = parted(cluster)
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    client.ask(QueueBind("q", "x", ""), QueueBindOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    for key in FRAGMENTS:
        client.publish(key, "1", "2", exchange="x")
    cluster.pass_ms(200)
    acks = [said for said in client.heard() if isinstance(said, BasicAck)]
    assert max(each.delivery_tag for each in acks) == 2 * len(FRAGMENTS)
    reader = cluster.client("n2")
    reads(reader)
    assert {f: len(bodies) for f, bodies in by_fragment(got(reader)).items()} == {0: 6, 1: 4, 2: 6}
    passive = client.ask(QueueDeclare("q", passive=True), QueueDeclareOk)
    assert passive.message_count == 16


@EVERYWHERE
def test_offsets_are_those_of_each_fragment(size: int) -> None:
    cluster = Cluster(size)
    client = parted(cluster)
    for key in ("c", "g", "a"):
        put(client, key, *[f"{key}{number}" for number in range(5)])
    reader = cluster.client(other_node(cluster))
    for tag, offset, begin in (("a", "first", 0), ("b", 3, 3), ("c", "next", 5), ("d", "last", 0)):
        reads(reader, tag=tag, offset=offset)
        told = got(reader)
        assert sorted(told) == [
            (fragment, number, f"{key}{number}")
            for fragment, key in enumerate("cga") for number in range(begin, 5)
        ]  # fmt: skip
        reader.ask(BasicCancel(tag), BasicCancelOk)


def test_a_prefetch_is_shared_by_all_fragments_and_none_is_passed_over() -> None:
    cluster = Cluster(3)
    client = parted(cluster)
    for key in ("c", "g", "a"):
        put(client, key, *[f"{key}{number}" for number in range(20)])
    reader = cluster.client("n2")
    reads(reader, prefetch=2)
    told = got(reader)
    assert len(told) == 2
    for _ in range(29):
        reader.send(BasicAck(0, True))
        cluster.pass_ms(60)
        now = got(reader)
        assert len(now) == 2
        told += now
    for begin in range(0, 24, 8):
        # What has to be asked for is a way behind, and comes all the same.
        assert len({fragment for fragment, _, _ in told[begin : begin + 8]}) == 3
    assert len(told) == 60
    assert all(len(bodies) == 20 for bodies in by_fragment(told).values())


def test_publishes_wait_for_their_own_fragment() -> None:
    cluster = Cluster(3)
    parted(cluster)
    publisher, reader = cluster.client("n1"), cluster.client("n1")
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    reads(reader)
    lost = primaries(cluster).index("n3")
    key = next(key for key, fragment in FRAGMENTS.items() if fragment == lost)
    put(publisher, key, "before")
    cluster.pass_ms(200)
    cluster.kill("n3", unseen=True)
    for number in range(5):
        put(publisher, key, str(number))
    assert len([said for said in publisher.heard() if isinstance(said, BasicAck)]) == 1
    cluster.wait_for(lambda: primaries(cluster)[lost] != "n3")
    cluster.pass_ms(1_000)
    told = got(reader)
    assert [body for _, _, body in told] == ["before", "0", "1", "2", "3", "4"]
    assert {fragment for fragment, _, _ in told} == {lost}


def test_filters_hold_in_each_fragment() -> None:
    cluster = Cluster(3)
    client = parted(cluster)
    for key in ("c", "g", "a"):
        for value in ("x", "y"):
            data = encode_properties({"headers": {"x-stream-filter-value": value}})
            client.write(publish(1, "x", key, f"{key}{value}".encode(), data))
    cluster.settle()
    reader = cluster.client("n3")
    reads(reader, stream_filter="y")
    assert by_fragment(got(reader)) == {0: ["cy"], 1: ["gy"], 2: ["ay"]}


def test_counts_are_sums_and_the_number_is_fixed() -> None:
    cluster = Cluster(3)
    client = parted(cluster)
    for key in FRAGMENTS:
        put(client, key, "1")
    cluster.pass_ms(100)
    passive = client.ask(QueueDeclare("s", passive=True), QueueDeclareOk)
    assert passive.message_count == len(FRAGMENTS)
    for count in (1, 2, 4):
        other = cluster.client("n2")
        table: FieldTable = {"x-queue-type": "stream", "x-fedq-fragments": count}
        closed = other.ask(QueueDeclare("s", durable=True, arguments=table), ChannelClose)
        assert closed.reply_code == 406
        assert "x-fedq-fragments" in closed.reply_text
    reader = cluster.client("n3")
    reads(reader)
    client.ask(QueueDelete("s"), QueueDeleteOk)
    cluster.pass_ms(100)
    assert not any(cluster.node(name).state.streams for name in cluster.hosts)
    assert not any(cluster.node(name).state.parted for name in cluster.hosts)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "{value_zero,0}"),
        (-1, "{value_negative,-1}"),
        (65, '"65 is more than 64"'),
        ("x", '"expected integer, got longstr"'),
        (True, '"expected integer, got bool"'),
    ],
)
def test_odd_numbers_are_refused(count: TableValue, text: str) -> None:
    cluster = Cluster(1)
    client = cluster.client()
    table: FieldTable = {"x-queue-type": "stream", "x-fedq-fragments": count}
    closed = client.ask(QueueDeclare("s", durable=True, arguments=table), ChannelClose)
    assert closed.reply_code == 406
    assert f"invalid arg 'x-fedq-fragments' for queue 's' in vhost '/': {text}" == (
        closed.reply_text.removeprefix("PRECONDITION_FAILED - ")
    )


def test_as_many_as_may_be_can_be_declared_read_and_deleted() -> None:
    cluster = Cluster(1)
    client = parted(cluster, 64)
    for number in range(200):
        client.publish(str(number), str(number), exchange="x")
    reads(client, prefetch=1_000)
    told = got(client)
    assert sorted(int(body) for _, _, body in told) == list(range(200))
    assert len({fragment for fragment, _, _ in told}) > 50
    client.ask(QueueDelete("s"), QueueDeleteOk)
    assert not cluster.node("n1").state.primaries


def test_before_all_nodes_know_them_they_are_refused() -> None:
    cluster = Cluster(1)
    cluster.node("n1").state.map.cluster_version = PARTED - 1
    client = cluster.client()
    table: FieldTable = {"x-queue-type": "stream", "x-fedq-fragments": 2}
    closed = client.ask(QueueDeclare("s", durable=True, arguments=table), ChannelClose)
    assert closed.reply_code == 406
    assert "there are no streams in several fragments before" in closed.reply_text


def test_a_transaction_is_atomic_on_one_key() -> None:
    cluster = Cluster(3)
    client = parted(cluster)
    client.ask(TxSelect(), TxSelectOk)
    put(client, "c", "1", "2")
    put(client, "f", "3")
    client.ask(TxCommit(), TxCommitOk)
    put(client, "c", "4")
    put(client, "d", "5")
    assert client.ask(TxCommit(), ChannelClose).reply_code == 406
    reader = cluster.client("n2")
    reads(reader)
    assert by_fragment(got(reader)) == {0: ["1", "2", "3"]}


# --- those with a name ---------------------------------------------------------------------------


def shares(readers: list[Client]) -> list[dict[int, list[str]]]:
    return [by_fragment(got(reader)) for reader in readers]


def group(cluster: Cluster, count: int) -> list[Client]:
    """So many readers with one name, on different nodes."""
    nodes = list(cluster.hosts)
    readers = [cluster.client(nodes[-1 - number % len(nodes)]) for number in range(count)]
    for reader in readers:
        reads(reader, fedq_consumer_name="app")
    cluster.pass_ms(100)
    return readers


@EVERYWHERE
@pytest.mark.parametrize(("count", "most"), [(1, 6), (2, 3), (3, 2), (4, 2), (8, 1)])
def test_those_with_a_name_share_the_fragments(size: int, count: int, most: int) -> None:
    cluster = Cluster(size)
    client = parted(cluster, 6)
    readers = group(cluster, count)
    for number in range(60):
        client.publish(str(number), str(number), exchange="x")
    cluster.pass_ms(200)
    found = shares(readers)
    served = [fragment for each in found for fragment in each]
    assert sorted(served) == list(range(6)), "one of them reads a fragment"
    assert max(map(len, found)) == most
    bodies = [body for each in found for mine in each.values() for body in mine]
    assert sorted(map(int, bodies)) == list(range(60))


@EVERYWHERE
def test_a_fragment_changes_hands_when_all_is_acknowledged(size: int) -> None:
    cluster = Cluster(size)
    client = parted(cluster)
    keys = ("c", "g", "a")
    for key in keys:
        put(client, key, *[f"{key}{number}" for number in range(3)])
    [first] = group(cluster, 1)
    assert sum(map(len, by_fragment(got(first)).values())) == 9
    second = cluster.client("n1")
    reads(second, fedq_consumer_name="app")
    for key in keys:
        put(client, key, f"{key}3")
    cluster.pass_ms(200)
    now, then = shares([first, second])
    assert not then, "what the first one has not acknowledged is its own"
    assert len(now) in (1, 2), "of what it is to give back it gets no more"
    first.send(BasicAck(0, True))
    cluster.pass_ms(200)
    more, then = shares([first, second])
    assert not more
    assert {**now, **then} == {number: [f"{key}3"] for number, key in enumerate(keys)}
    # And back, with what was not acknowledged, as soon as the other one goes.
    second.hang_up()
    cluster.pass_ms(200)
    assert by_fragment(got(first)) == then


def test_a_member_that_dies_has_its_fragments_taken_over() -> None:
    cluster = Cluster(3)
    client = parted(cluster, 6)
    readers = group(cluster, 3)
    for number in range(60):
        client.publish(str(number), str(number), exchange="x")
    cluster.pass_ms(200)
    held = shares(readers)
    for reader in readers:
        reader.send(BasicAck(0, True))
    cluster.pass_ms(700)
    cluster.kill("n3")
    cluster.pass_ms(4_000)
    for number in range(60):
        client.publish(str(number), f"again {number}", exchange="x")
    cluster.pass_ms(500)
    found = shares(readers[1:])
    assert sorted([fragment for each in found for fragment in each]) == list(range(6))
    assert all(len(each) == 3 for each in found)
    bodies = [body for each in found for mine in each.values() for body in mine]
    assert sorted(bodies) == sorted(f"again {number}" for number in range(60))
    assert len(held) == 3


def test_a_name_keeps_a_place_in_each_fragment() -> None:
    cluster = Cluster(3)
    client = parted(cluster)
    for key in ("c", "g", "a"):
        put(client, key, *[f"{key}{number}" for number in range(4)])
    reader = cluster.client("n2")
    reads(reader, fedq_consumer_name="app")
    for tag, (_, offset, _) in enumerate(got(reader), 1):
        if offset < 2:
            reader.send(BasicAck(tag))
    cluster.pass_ms(200)
    fragments = cluster.node("n1").state.map.queues[KEY].fragments
    for fragment, primary in zip(fragments, primaries(cluster), strict=True):
        (seen,) = overview(cluster.node(primary)).named_readers(fragment)
        assert (seen.name, seen.offset, seen.lag, seen.node) == ("app", 2, 2, "n2")
    reader.hang_up()
    cluster.pass_ms(200)
    next_one = cluster.client("n3")
    reads(next_one, fedq_consumer_name="app")
    assert by_fragment(got(next_one)) == {0: ["c2", "c3"], 1: ["g2", "g3"], 2: ["a2", "a3"]}
    next_one.ask(BasicCancel("r"), BasicCancelOk)
    reads(next_one, fedq_consumer_name="app", fedq_consumer_forget=True)
    assert len(got(next_one)) == 12
    next_one.ask(BasicCancel("r"), BasicCancelOk)
    cluster.pass_ms(200)
    for fragment, primary in zip(fragments, primaries(cluster), strict=True):
        assert not overview(cluster.node(primary)).named_readers(fragment)


def test_who_comes_and_goes_at_once_leaves_shares_that_are_right() -> None:
    cluster = Cluster(3)
    client = parted(cluster, 6)
    readers = group(cluster, 2)
    for number in range(60):
        client.publish(str(number), str(number), exchange="x")
    cluster.pass_ms(100)
    short = cluster.client("n2")
    reads(short, fedq_consumer_name="app")
    short.hang_up()
    cluster.pass_ms(100)
    for reader in readers:
        reader.send(BasicAck(0, True))
    cluster.pass_ms(300)
    shares(readers)
    for number in range(60):
        client.publish(str(number), str(number), exchange="x")
    cluster.pass_ms(300)
    assert [len(each) for each in shares(readers)] == [3, 3]
