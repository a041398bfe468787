"""Whatever fails while a node works on what one client sent, the others do not notice.

No other client, and no other node, notices more than a failover; what was confirmed is there; and
the node comes back.
"""

import struct

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.node.publishing import dead_letters
from fedq.node.publishing.outlets import Outlets
from fedq.node.publishing.piles import Piles
from fedq.node.records.client_state import Channel
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.injection import Injected, Injector, calls_of
from tests.unit.node.uncompiled import only_uncompiled

pytestmark = only_uncompiled

DLX: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
DYING: FieldTable = {**DLX, "x-message-ttl": 500}
#: So many calls of each turn fail, spread over all of them.
TRIES = 40
PERSISTENT = encode_properties({"delivery_mode": 2, "headers": {"a": 1}})


class World:
    """One or three nodes, a client that goes wrong and one that has nothing to do with it."""

    def __init__(self, size: int) -> None:
        self.cluster = Cluster(size)
        self.cluster.tolerates_faults = True
        self.other = self.cluster.client("n1")
        tables: dict[str, FieldTable] = {"kept": {}, "dead": {}, "dying": DYING}
        for name, table in tables.items():
            declared = QueueDeclare(name, durable=True, arguments=table)
            self.other.ask(declared, QueueDeclareOk)
        self.other.ask(ConfirmSelect(), ConfirmSelectOk)
        self.other.publish("kept", *map(str, range(6)))
        self.other.ask(BasicQos(0, 2, False), BasicQosOk)
        self.other.ask(BasicConsume("kept", "tag"), BasicConsumeOk)
        assert self.other.deliveries() == ["0", "1"]
        self.wrong = self.cluster.client("n1", channels=2)
        self.wrong.ask(BasicQos(0, 1, False), BasicQosOk)
        self.wrong.ask(BasicConsume("kept", "mine"), BasicConsumeOk)
        self.other.said.clear()

    def check_fragments(self) -> None:
        for host in self.cluster.hosts.values():
            if host.node is not None:
                for primary in host.node.state.primaries.values():
                    primary.fragment.check()

    def drained(self, client: Client, queue: str) -> list[str]:
        """All that is in a queue, nobody else having any of it."""
        found: list[str] = []
        while True:
            client.said.clear()
            client.send(BasicGet(queue, no_ack=True))
            self.cluster.wait_for(
                lambda: client.has(BasicGetOk) or client.has(BasicGetEmpty), 20_000
            )
            said = client.said[-1]
            if not isinstance(said, Content):
                return sorted(found)
            found.append(said.body.decode())


def _sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


COPIES = encode_properties({"delivery_mode": 2, "headers": {"CC": ["dead"], "BCC": ["kept"]}})
SAID: dict[str, bytes] = {
    "declare": encode_method(1, QueueDeclare("new", arguments={"x-max-length": 5, **DLX})),
    "declare private": encode_method(1, QueueDeclare(exclusive=True, arguments={"x-expires": 1})),
    "exchange": encode_method(1, ExchangeDeclare("x", "topic", arguments={"a": "b"})),
    "bind": encode_method(1, QueueBind("kept", "amq.headers", "k", arguments={"x-match": "any"})),
    "publish": publish(1, "", "kept", b"new", PERSISTENT) * 2,
    "topic": publish(1, "amq.topic", "a.b", b"new", PERSISTENT),
    "copies": publish(1, "", "nowhere", b"new", COPIES),
    "ack": encode_method(1, BasicAck(1)),
    "get": encode_method(2, BasicGet("kept")),
    "garbage": b"\1\0\1\0\0\0\4\xff\xff\xff\xff\xce",
}


#: What may be gone of what was confirmed: the client has acknowledged it.
ACKNOWLEDGED = {"ack": {"2"}}


def _comes_back(world: World, acknowledged: set[str]) -> None:
    """The node has stopped: the others go on, it comes back, and what was confirmed is there."""
    cluster = world.cluster
    stopped = cluster.turning
    cluster.kill(stopped)
    cluster.pass_ms(3_000)
    cluster.start(stopped)
    cluster.pass_ms(5_000)
    for client in (world.other, world.wrong):
        if not client.lost:
            client.hang_up()
    kept = world.drained(cluster.client("n1"), "kept")
    assert set(kept) >= set("012345") - acknowledged, f"lost: {kept}"
    world.check_fragments()


def _goes_on(world: World, injector: Injector, acknowledged: set[str]) -> None:
    """Only the one client's connection is gone."""
    cluster = world.cluster
    faults = cluster.hosts[NodeId("n1")].faults
    assert [type(fault.error) for fault in faults] == [Injected]
    closed = [said for said in world.wrong.said if isinstance(said, ConnectionClose)]
    # It may have heard before what it had done itself: then it hears no more.
    assert [close.reply_code for close in closed] in ([541], [540]), injector.place
    world.wrong.hang_up()
    cluster.pass_ms(200)
    assert not world.other.lost
    world.other.send(BasicAck(2, True))
    cluster.settle()
    assert len(world.other.deliveries()) == 2
    world.other.publish("kept", "after")
    # Its own, and no other one's.
    confirms = [said for said in world.other.said if isinstance(said, BasicAck)]
    assert confirms == [BasicAck(7, False)], injector.place
    world.check_fragments()
    world.other.hang_up()
    kept = set(world.drained(cluster.client("n1"), "kept"))
    assert kept >= {*"2345", "after"} - acknowledged, f"lost: {kept}"
    assert kept <= {*"2345", "after", "new"}


@pytest.mark.slow
@pytest.mark.parametrize("said", SAID)
def test_what_fails_for_one_client_is_that_clients(said: str) -> None:
    acknowledged = ACKNOWLEDGED.get(said, set())

    def run(injector: Injector) -> World:
        world = World(1)
        world.wrong.write(SAID[said])
        try:
            with injector.watching():
                world.cluster.turn()
        except Injected:
            _comes_back(world, acknowledged)
        else:
            if injector.place:
                _goes_on(world, injector, acknowledged)
        return world

    calls = calls_of(run)
    contained = 0
    for at in range(1, calls + 1, max(1, calls // TRIES)):
        world = run(Injector(at))
        contained += world.cluster.hosts[NodeId("n1")].life == 1
    assert contained, "nothing was contained"


@pytest.mark.slow
def test_what_fails_as_a_message_dies_loses_nothing() -> None:
    """At any call of the turns of all three nodes in which a message expires."""

    def run(injector: Injector) -> World:
        world = World(3)
        cluster = world.cluster
        world.other.publish("dying", "doomed")
        cluster.pass_ms(400)
        try:
            with injector.watching():
                cluster.pass_ms(150)
        except Injected:
            _comes_back(world, set())
        cluster.pass_ms(2_000)
        world.check_fragments()
        aside = [one for host in cluster.hosts.values() for one in host.set_aside]
        dead = world.drained(cluster.client("n1"), "dead")
        assert dead or aside, f"lost after {injector.place}"
        return world

    calls = calls_of(run)
    for at in range(1, calls + 1, max(1, calls // TRIES)):
        run(Injector(at))


def test_what_did_not_set_out_goes_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not published, and confirmed, with what another one publishes next."""
    world = World(1)

    def fail(outlets: Outlets, channel: Channel, piles: Piles) -> None:
        raise Injected("before anything is half changed")

    with monkeypatch.context() as patch:
        patch.setattr(Outlets, "deliver_piles", fail)
        world.wrong.publish("dead", "lost")
    assert [said.reply_code for said in world.wrong.said if isinstance(said, ConnectionClose)]
    world.wrong.hang_up()
    world.other.publish("dead", "after")
    assert [said for said in world.other.said if isinstance(said, BasicAck)] == [BasicAck(7, False)]
    assert world.drained(world.cluster.client("n1"), "dead") == ["after"]


def test_a_message_that_cannot_be_dead_lettered_is_tried_by_no_second_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its body is dead-lettered with a reason of its own, and it stays, out of reach."""
    tried: list[bytes] = []

    def fail(message: bytes, *_: object) -> bytes:
        tried.append(message)
        raise Injected("a bug")

    monkeypatch.setattr(dead_letters, "dead_letter", fail)
    world = World(3)
    cluster = world.cluster
    world.other.publish("dying", "doomed")
    cluster.pass_ms(1_000)
    [told] = world.drained(cluster.client("n2"), "dead")
    assert told == "doomed"
    first = cluster.primary_of("dying")
    assert [one.message[-6:] for one in cluster.hosts[NodeId(first)].set_aside] == [b"doomed"]
    cluster.kill(first)
    cluster.wait_for(lambda: cluster.primary_of("dying") != first)
    second = cluster.primary_of("dying")
    cluster.wait_for(lambda: bool(cluster.hosts[NodeId(second)].set_aside))
    assert len(tried) == 1
    cluster.start(first)
    cluster.pass_ms(5_000)
    assert len(tried) == 1
    client = cluster.client("n1")
    declared = QueueDeclare("dying", durable=True, arguments=DYING)
    assert client.ask(declared, QueueDeclareOk).message_count == 0
    assert world.drained(client, "kept")
