"""`x-fedq-replicate`: what of a queue is on its backups, and what a failover leaves of it."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.values import TableValue
from fedq.core.ids import NodeId
from fedq.core.message import is_persistent
from fedq.core.peer_messages import CopyChunk, Replicate
from fedq.fragments.primary.recorder import Recorder
from fedq.wiring.cluster_map.state import FragmentInfo
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import PERSISTENT, Client, Cluster


class Scene:
    """The queue `orders`, served elsewhere than by n1, and clients on nodes that live on."""

    def __init__(self, mode: str, durable: bool = True, replicas: int = 0) -> None:
        cluster = self.cluster = Cluster(3)
        arguments: dict[str, TableValue] = {"x-fedq-replicate": mode}
        if replicas:
            arguments["x-fedq-replicas"] = replicas
        declare = QueueDeclare("orders", durable=durable, arguments=arguments)
        cluster.client("n2").ask(declare, QueueDeclareOk)
        self.primary = cluster.primary_of("orders")
        assert self.primary == "n2"
        self.one = cluster.client("n1", channels=2)
        self.three = cluster.client("n3", channels=2)
        self.one.ask(ConfirmSelect(), ConfirmSelectOk)

    @property
    def info(self) -> FragmentInfo:
        """What the map says of the queue's fragment."""
        (info,) = self.cluster.node("n1").state.map.fragments.values()
        return info

    def publish(self, text: str) -> None:
        """One batch: capital letters are persistent."""
        kinds = {True: PERSISTENT, False: encode_properties({})}
        batch = [publish(1, "", "orders", e.encode(), kinds[e.isupper()]) for e in text]
        self.one.write(b"".join(batch))
        self.cluster.settle()

    def confirmed(self) -> int:
        """Up to which number the client on n1 has heard that its publishes are safe."""
        acks = [method for method in self.one.heard() if isinstance(method, BasicAck)]
        return max((ack.delivery_tag for ack in acks), default=0)

    def copies(self) -> dict[str, list[str]]:
        """What each backup has."""
        found = {}
        for node in self.info.backups:
            replica = self.cluster.node(node).state.backups[self.info.id].replica
            found[str(node)] = [m[-1:].decode() for m in replica.in_order().values()]
        return found

    def fail_over(self) -> None:
        """The primary's process dies."""
        self.cluster.kill(self.primary)
        self.cluster.wait_for(lambda: self.cluster.primary_of("orders") != self.primary)
        self.cluster.pass_ms(300)

    def consume(self, client: Client, limit: int = 0) -> list[str]:
        """A new consumer; what it gets at once."""
        client.ask(BasicQos(0, limit), BasicQosOk)
        client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
        self.cluster.pass_ms(200)
        return client.deliveries()


# --- what is on the copies -----------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_all_is_copied_without_being_asked_for(durable: bool) -> None:
    scene = Scene("all", durable)
    scene.publish("aBcD")
    assert list(scene.copies().values()) == [list("aBcD")]
    scene.fail_over()
    assert scene.consume(scene.three) == ["again: a", "again: B", "again: c", "again: D"]


@pytest.mark.parametrize("durable", [True, False])
def test_persistent_messages_outlive_their_primary_and_transient_ones_do_not(durable: bool) -> None:
    scene = Scene("persistent", durable, replicas=3)
    scene.publish("aBcDe")
    scene.publish("f")
    assert scene.confirmed() == 6
    assert list(scene.copies().values()) == [["B", "D"]] * 2
    scene.fail_over()
    assert scene.consume(scene.three) == ["again: B", "again: D"]


def test_none_is_one_copy() -> None:
    scene = Scene("none")
    assert scene.info.backups == ()
    assert scene.cluster.node("n1").state.map.queues[scene.info.queue].mode == "none"
    scene.publish("aB")
    assert scene.confirmed() == 2
    scene.cluster.pass_ms(10_000)
    assert scene.info.backups == (), "nobody repairs what is as it was asked for"
    scene.cluster.kill("n2")
    scene.cluster.pass_ms(3_000)
    scene.cluster.start("n2")
    scene.cluster.pass_ms(3_000)
    assert scene.consume(scene.three) == ["again: B"], "its disk has it"


def test_transient_messages_cost_no_word_between_primary_and_backups() -> None:
    scene = Scene("persistent", replicas=3)
    scene.cluster.pass_ms(500)
    scene.cluster.overheard.clear()
    scene.publish("abc")
    assert scene.confirmed() == 3
    assert scene.consume(scene.three, 2) == ["a", "b"]
    scene.three.send(BasicAck(1), BasicNack(2, requeue=True))
    scene.cluster.pass_ms(500)
    assert not [said for said in scene.cluster.overheard if isinstance(said[2], Replicate)]


def test_a_copy_that_begins_late_gets_what_is_persistent() -> None:
    scene = Scene("persistent", replicas=3)
    scene.publish("aBc")
    scene.cluster.kill("n3")
    scene.cluster.pass_ms(500)
    scene.publish("dEf")
    scene.cluster.start("n3")
    scene.cluster.overheard.clear()
    scene.cluster.wait_for(lambda: len(scene.info.in_sync) == 3, 20_000)
    assert scene.copies() == {"n1": ["B", "E"], "n3": ["B", "E"]}
    chunks = [said[2] for said in scene.cluster.overheard if isinstance(said[2], CopyChunk)]
    assert chunks
    primary = scene.cluster.node("n2").state.primaries[scene.info.id]
    assert len(primary.fragment.messages) == 6


def test_what_is_acknowledged_goes_on_every_copy() -> None:
    scene = Scene("persistent")
    scene.publish("aBcD")
    assert scene.consume(scene.three) == ["a", "B", "c", "D"]
    scene.three.send(BasicAck(2, True))
    scene.cluster.pass_ms(200)
    assert list(scene.copies().values()) == [["D"]]


def test_a_purge_takes_all() -> None:
    scene = Scene("persistent")
    scene.publish("abC")
    assert scene.three.ask(QueuePurge("orders"), QueuePurgeOk).message_count == 3
    scene.fail_over()
    scene.three.ask(BasicGet("orders"), BasicGetEmpty)


# --- confirms ------------------------------------------------------------------------------------


def hold_up(scene: Scene) -> None:
    """The backup's disk takes its time from now on."""
    (backup,) = scene.info.backups
    scene.cluster.disk_waits(backup, True)


def test_a_transient_message_waits_for_no_backup() -> None:
    scene = Scene("persistent")
    hold_up(scene)
    scene.publish("ab")
    assert scene.confirmed() == 2


def test_confirms_stay_exact_where_a_persistent_one_waits() -> None:
    scene = Scene("persistent")
    (backup,) = scene.info.backups
    hold_up(scene)
    scene.publish("a")
    scene.publish("B")
    scene.publish("c")
    assert scene.confirmed() == 1
    scene.cluster.disk_waits(backup, False)
    scene.cluster.pass_ms(100)
    assert scene.confirmed() == 3


def test_unconfirmed_ones_are_sent_again_and_taken_once() -> None:
    scene = Scene("persistent", replicas=3)
    scene.cluster.disk_waits("n2", True)
    scene.publish("a")
    scene.publish("B")
    scene.publish("c")
    assert scene.confirmed() == 1, "the primary's own disk has not the second one"
    scene.fail_over()
    assert scene.confirmed() == 3
    assert scene.consume(scene.three) == ["again: B", "again: c"]


def test_one_that_was_before_a_persistent_one_that_arrived_is_confirmed_and_lost() -> None:
    """The old primary had it: as if its confirm had been quicker."""
    scene = Scene("persistent", replicas=3)
    scene.cluster.disk_waits("n2", True)
    scene.publish("A")
    scene.publish("b")
    scene.publish("C")
    assert scene.confirmed() == 0
    scene.fail_over()
    assert scene.confirmed() == 3
    assert scene.consume(scene.three) == ["again: A", "again: C"]


# --- consumers and transactions ------------------------------------------------------------------


def test_what_a_consumer_holds_of_a_lost_one_it_may_settle_or_give_back() -> None:
    scene = Scene("persistent")
    scene.publish("aBc")
    assert scene.consume(scene.three) == ["a", "B", "c"]
    scene.fail_over()
    scene.three.send(BasicAck(1), BasicNack(2, requeue=True), BasicNack(3, requeue=True))
    scene.cluster.pass_ms(300)
    assert scene.three.deliveries() == ["again: B"]
    scene.three.send(BasicAck(4))
    scene.cluster.wait_for(lambda: len(scene.info.in_sync) == 2, 20_000)
    assert list(scene.copies().values()) == [[]]


def test_a_transaction_survives_with_its_persistent_part() -> None:
    scene = Scene("persistent")
    client = scene.three
    scene.publish("A")
    assert scene.consume(client, 1) == ["A"]
    client.ask(TxSelect(), TxSelectOk)
    client.publish("orders", "b", persistent=False)
    client.publish("orders", "C")
    client.send(BasicAck(1))
    client.ask(TxCommit(), TxCommitOk)
    assert list(scene.copies().values()) == [["C"]]
    client.hang_up()
    scene.fail_over()
    assert scene.consume(scene.one) == ["again: C"]


# --- who led before ------------------------------------------------------------------------------


def test_a_primary_that_hands_over_gives_up_its_transient_messages() -> None:
    scene = Scene("persistent", replicas=3)
    scene.publish("aBc")
    assert scene.confirmed() == 3
    scene.cluster.disk_waits("n2", True)
    scene.publish("D")
    scene.cluster.wait_for(lambda: scene.cluster.primary_of("orders") != "n2", 20_000)
    scene.cluster.disk_waits("n2", False)
    scene.cluster.hosts[NodeId("n2")].inbox.append(lambda node: node.on_tick())
    scene.cluster.wait_for(lambda: len(scene.info.in_sync) == 3, 20_000)
    assert list(scene.copies().values()) == [["B", "D"]] * 2
    assert scene.consume(scene.three) == ["again: B", "again: D"]


def test_copies_that_hold_transient_messages_drop_them() -> None:
    """As of an older release, whose primaries copy all."""
    scene = Scene("persistent", replicas=3)
    primary = scene.cluster.node("n2").state.primaries[scene.info.id]
    fragment = primary.fragment
    fragment.recorder = Recorder(
        fragment.fragment_id, fragment.reign, fragment.out, active=True, durable=True
    )
    scene.publish("aBc")
    assert list(scene.copies().values()) == [list("aBc")] * 2
    scene.fail_over()
    (leader,) = [
        node.primaries[scene.info.id]
        for name in ("n1", "n3")
        if scene.info.id in (node := scene.cluster.node(name).state).primaries
    ]
    assert len(leader.fragment.messages) == 3, "it leads with what it has"
    scene.cluster.start("n2")
    scene.cluster.wait_for(lambda: len(scene.info.in_sync) == 3, 20_000)
    assert list(scene.copies().values()) == [["B"]] * 2
    assert any(not is_persistent(each) for each in leader.fragment.messages.values())


# --- declarations --------------------------------------------------------------------------------


def test_none_with_several_copies_is_a_contradiction() -> None:
    client = Cluster(1).client("n1", channels=3)
    both: dict[str, TableValue] = {"x-fedq-replicate": "none", "x-fedq-replicas": 2}
    refused = client.ask(QueueDeclare("work", arguments=both), ChannelClose)
    assert (refused.reply_code, refused.reply_text) == (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-fedq-replicate' for queue 'work' in vhost '/': with "
        "'none' there is one copy, and x-fedq-replicas asks for 2: leave one of them out",
    )
    client.ask(QueueDeclare("work", arguments={**both, "x-fedq-replicas": 1}), QueueDeclareOk, 2)
    only = QueueDeclare("own", exclusive=True, arguments=both)
    assert client.ask(only, ChannelClose, 3).reply_code == 406


def test_another_value_is_another_queue() -> None:
    client = Cluster(1).client("n1", channels=3)
    client.ask(QueueDeclare("q", arguments={"x-fedq-replicate": "persistent"}), QueueDeclareOk)
    other = QueueDeclare("q", arguments={"x-fedq-replicate": "all"})
    assert client.ask(other, ChannelClose).reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'x-fedq-replicate' for queue 'q' in vhost '/': "
        "received 'all' but current is 'persistent'"
    )
    assert client.ask(QueueDeclare("q"), ChannelClose, 2).reply_code == 406
    bad = client.ask(QueueDeclare("p", arguments={"x-fedq-replicate": "some"}), ChannelClose, 3)
    assert (bad.reply_code, bad.reply_text) == (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-fedq-replicate' for queue 'p' in vhost '/': "
        '"expected one of all, persistent, none"',
    )
