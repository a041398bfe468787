"""Publishers wait for nodes that are full, for nothing else, and hear of both ends of it."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
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
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId, QueueKey
from fedq.core.limits import DEAD_LETTERS_MAX
from fedq.core.peer_messages import Heartbeat
from fedq.node.records.alarms import Alarm, alarm_in
from fedq.node.views.overview import overview
from tests.examples import examples
from tests.unit.node.harness import Client, Cluster

MEMORY = 64 * 1024 * 1024
ONE_COPY: FieldTable = {"x-fedq-replicas": 1, "x-fedq-fragments": 1}


def made(size: int = 3) -> Cluster:
    return Cluster(size, disk_free_bytes_min=1_000, memory_bytes_max=MEMORY)


def tell(cluster: Cluster, name: str, *, disk_free: int = 10_000, waiting: int = 0) -> None:
    """The driver of one node says what it sees; all have heard of it when this returns."""
    host = cluster.hosts[NodeId(name)]
    host.inbox.append(lambda node: node.on_resources(waiting, 0, disk_free))
    cluster.pass_ms(1_000)


def queue_on(cluster: Cluster, name: str, queue: str, **more: object) -> None:
    """A queue with a single copy, on that node."""
    arguments: FieldTable = {**ONE_COPY, **more}  # type: ignore[dict-item]
    cluster.client(name).ask(QueueDeclare(queue, arguments=arguments), QueueDeclareOk)
    assert cluster.primary_of(queue) == name


def confirming(cluster: Cluster, name: str) -> Client:
    client = cluster.client(name)
    client.send(ConfirmSelect())
    client.said.clear()
    return client


def is_confirmed(client: Client) -> bool:
    acked = [each for each in client.heard() if isinstance(each, BasicAck)]
    return bool(acked)


def is_read(client: Client) -> bool:
    return client.is_read


def ready(cluster: Cluster, name: str, queue: str) -> int:
    found = overview(cluster.node(name)).local_fragments(QueueKey("/", queue))
    return sum(each.ready for each in found)


def test_who_publishes_elsewhere_goes_on_and_who_publishes_there_waits() -> None:
    cluster = made()
    queue_on(cluster, "n1", "near")
    queue_on(cluster, "n3", "far")
    there, elsewhere = confirming(cluster, "n1"), confirming(cluster, "n1")
    there.publish("far", "1")
    assert is_confirmed(there)
    tell(cluster, "n3", disk_free=999)
    assert is_read(there), "until it publishes"
    assert not there.heard()
    there.publish("far", "2")
    elsewhere.publish("near", "3")
    assert not is_read(there)
    assert there.take(ConnectionBlocked).reason == "low on disk: n3"
    assert is_confirmed(elsewhere)
    assert is_read(elsewhere)
    tell(cluster, "n3")
    assert is_read(there)
    assert [type(each) for each in there.heard()] == [BasicAck, ConnectionUnblocked]
    there.publish("far", "4")
    assert is_confirmed(there)
    assert ready(cluster, "n3", "far") == 3


def test_who_waits_is_confirmed_what_went_through_before_the_alarm_ends() -> None:
    cluster = made()
    queue_on(cluster, "n3", "far")
    client = confirming(cluster, "n1")
    tell(cluster, "n3", disk_free=999)
    client.publish("far", "1")
    cluster.pass_ms(2_000)
    assert is_confirmed(client), "it is there, and the node says so once a second"
    assert not is_read(client)


def test_a_full_backup_holds_publishers_and_one_that_is_no_copy_does_not() -> None:
    cluster = made()
    owner = cluster.client("n1")
    owner.ask(QueueDeclare("q", arguments={"x-fedq-replicas": 2}), QueueDeclareOk)
    cluster.pass_ms(2_000)
    (info,) = cluster.node("n1").state.map.fragments.values()
    (backup,) = [node for node in info.in_sync if node != info.primary]
    (bystander,) = [node for node in cluster.hosts if node not in info.in_sync]
    tell(cluster, bystander, waiting=2 * MEMORY)
    owner.publish("q", "1")
    assert is_read(owner)
    tell(cluster, backup, waiting=2 * MEMORY)
    owner.publish("q", "2")
    assert not is_read(owner)
    assert owner.take(ConnectionBlocked).reason == f"low on memory: {backup}"


def test_a_node_short_of_disk_alone_lets_its_clients_publish_elsewhere() -> None:
    cluster = made()
    queue_on(cluster, "n3", "far")
    tell(cluster, "n1", disk_free=999)
    client = confirming(cluster, "n1")
    client.publish("far", "1")
    assert is_confirmed(client)
    assert is_read(client)
    tell(cluster, "n1", waiting=2 * MEMORY)
    client.publish("far", "2")
    assert not is_read(client), "what comes in goes through its memory"
    assert client.take(ConnectionBlocked).reason == "low on memory"


def test_a_new_channel_takes_a_fragment_that_takes_in_and_an_old_one_stays_in_order() -> None:
    cluster = made()
    old = confirming(cluster, "n1")
    arguments: FieldTable = {"x-fedq-fragments": 2, "x-fedq-replicas": 1}
    old.ask(QueueDeclare("q", arguments=arguments), QueueDeclareOk)
    cluster.pass_ms(500)
    old.publish("q", "1")
    assert ready(cluster, "n1", "q") == 1
    tell(cluster, "n1", disk_free=999)
    new = confirming(cluster, "n1")
    new.publish("q", "2")
    assert is_confirmed(new)
    assert is_read(new)
    assert ready(cluster, "n1", "q") == 1
    old.publish("q", "3")
    assert not is_read(old)
    assert ready(cluster, "n1", "q") == 2


@pytest.mark.parametrize("ends", ["the queue is deleted", "the node is gone"])
def test_it_ends_when_what_they_wait_for_is_gone(ends: str) -> None:
    cluster = made()
    queue_on(cluster, "n3", "far")
    client = cluster.client("n1")
    tell(cluster, "n3", waiting=2 * MEMORY)
    client.publish("far", "1")
    assert not is_read(client)
    if ends == "the queue is deleted":
        cluster.client("n2").ask(QueueDelete("far"), QueueDeleteOk)
        cluster.pass_ms(1_000)
    else:
        cluster.kill("n3")
        cluster.pass_ms(3_000)
    assert is_read(client)
    assert [type(each) for each in client.heard()] == [ConnectionBlocked, ConnectionUnblocked]


def test_a_commit_waits_like_a_publish() -> None:
    cluster = made()
    queue_on(cluster, "n3", "far")
    client = cluster.client("n1")
    client.ask(TxSelect(), TxSelectOk)
    tell(cluster, "n3", disk_free=999)
    client.publish("far", "1")
    assert is_read(client), "it is only in this node's memory yet"
    client.send(TxCommit())
    assert not is_read(client)
    assert client.take(ConnectionBlocked).reason == "low on disk: n3"
    cluster.pass_ms(2_000)
    assert client.has(TxCommitOk)
    tell(cluster, "n3")
    assert is_read(client)


@pytest.mark.parametrize(("short_of", "waits"), [("memory", True), ("disk", False)])
def test_private_queues_of_another_node_wait_for_its_memory_alone(
    short_of: str, waits: bool
) -> None:
    cluster = made()
    publisher, subscriber = confirming(cluster, "n1"), cluster.client("n2")
    publisher.ask(ExchangeDeclare("news", "fanout"), ExchangeDeclareOk)
    subscriber.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    subscriber.ask(QueueBind("mine", "news"), QueueBindOk)
    subscriber.ask(BasicConsume("mine", no_ack=True), BasicConsumeOk)
    if short_of == "memory":
        tell(cluster, "n2", waiting=2 * MEMORY)
    else:
        tell(cluster, "n2", disk_free=999)
    publisher.publish("", "1", exchange="news")
    assert is_read(publisher) != waits
    assert subscriber.deliveries() == ["1"]
    cluster.pass_ms(2_000)
    assert is_confirmed(publisher)


def test_dead_letters_reach_a_full_node_however_many_they_are() -> None:
    cluster = made(2)
    queue_on(cluster, "n2", "graves")
    dying = {"x-message-ttl": 500, "x-dead-letter-exchange": "",
             "x-dead-letter-routing-key": "graves"}  # fmt: skip
    queue_on(cluster, "n1", "short", **dying)
    client = cluster.client("n1")
    count = DEAD_LETTERS_MAX * 5 // 2
    tell(cluster, "n2", waiting=2 * MEMORY)
    client.publish("short", *["x"] * count)
    assert is_read(client)
    cluster.pass_ms(1_500)
    first = ready(cluster, "n2", "graves")
    assert 0 < first < count, "a thousand at a time"
    cluster.pass_ms(3_000)
    assert ready(cluster, "n2", "graves") == count
    assert len(cluster.node("n1").state.primaries) == 1
    (primary,) = cluster.node("n1").state.primaries.values()
    assert (len(primary.fragment.messages), primary.dying) == (0, 0)


def test_an_older_release_does_not_say_what_it_is_short_of() -> None:
    beat = Heartbeat(1, 1, False, full=True)
    assert alarm_in(beat) == Alarm(memory=True, disk=True)
    assert alarm_in(beat._replace(disk_low=True)) == Alarm(memory=False, disk=True)
    assert alarm_in(beat._replace(full=False)) is None
    assert Alarm(True, True).reason == "low on memory & disk"


class Held:
    """A naive model of one client: what it waits for, by hand."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.client = cluster.client(name)
        self.awaited = ""
        self.words: list[str] = []

    def heard(self) -> list[str]:
        for method in self.client.heard():
            if isinstance(method, ConnectionBlocked | ConnectionUnblocked):
                self.words.append(type(method).__name__)
        return self.words


NAMES = ("n1", "n2", "n3")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("disk"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("publish"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    ),
    max_size=14,
)


@settings(max_examples=examples(15), deadline=None)
@given(STEPS)
def test_a_client_waits_exactly_as_long_as_what_it_published_to_first(
    steps: list[tuple[str, str, str | bool]],
) -> None:
    cluster = made()
    for name in NAMES:
        queue_on(cluster, name, name)
    held = {name: Held(cluster, name) for name in NAMES}
    full: dict[str, None] = {}
    for what, name, which in steps:
        if what == "disk":
            tell(cluster, name, disk_free=999 if which else 10_000)
            full.pop(name, None)
            if which:
                full[name] = None
        elif not held[name].awaited:
            held[name].client.publish(str(which), "x")
            held[name].awaited = str(which) if which in full else ""
        for each in held.values():
            if each.awaited not in full:
                each.awaited = ""
            assert is_read(each.client) == (not each.awaited), (steps, each.name)
            words = each.heard()
            assert all(one != other for one, other in pairwise(words))
            assert (words[-1:] == ["ConnectionBlocked"]) == bool(each.awaited)
