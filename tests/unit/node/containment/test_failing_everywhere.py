"""What every node would fail at, because all are told the same, stops none.

These are records of a primary and commands of the map. No node stops, now or at its next start, and
all go on alike.
"""

from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.errors import INTERNAL_ERROR
from fedq.core.ids import NodeId
from fedq.fragments.copy.unread import Unread
from fedq.fragments.replica import Replica
from fedq.journal import folding, recovery
from fedq.journal.events import Enqueue
from fedq.journal.payloads import Outline
from fedq.wiring.cluster_map import declarations, operations
from fedq.wiring.cluster_map import map as cluster_map
from fedq.wiring.cluster_map.operations import DeclareQueue
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.routing.routes import Router
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.uncompiled import only_uncompiled

pytestmark = only_uncompiled


class Bug(Exception):
    """Nobody knows it."""


def _cluster() -> Cluster:
    cluster = Cluster(3)
    cluster.tolerates_faults = True
    client = cluster.client("n1")
    client.ask(QueueDeclare("jobs", durable=True), QueueDeclareOk)
    client.hang_up()
    return cluster


def _restart_all(cluster: Cluster) -> None:
    for name in list(cluster.hosts):
        cluster.kill(name)
        cluster.pass_ms(3_000)
        cluster.start(name)
        cluster.pass_ms(5_000)


def _are_alike(cluster: Cluster) -> bool:
    digests = {host.node.state.map.digest for host in cluster.hosts.values() if host.node}
    return len(digests) == 1


def _info(cluster: Cluster) -> FragmentInfo:
    [info] = cluster.node("n3").state.map.fragments.values()
    return info


def test_a_record_that_no_backup_can_take_in_costs_the_copies_and_no_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = _cluster()
    add = Unread.add

    def fail(self: Unread, outline: Outline) -> bool:
        if any(message.endswith(b"poison") for message in outline.messages()):
            raise Bug
        return add(self, outline)

    monkeypatch.setattr(Unread, "add", fail)
    client = cluster.client("n1")
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("jobs", "poison", "two")
    cluster.wait_for(lambda: any(isinstance(said, BasicAck) for said in client.said), 10_000)
    cluster.pass_ms(10_000)
    assert not client.lost
    # It is tried ever less often.
    assert sum(len(host.faults) for host in cluster.hosts.values()) <= 6
    # A copy made anew has all of it, whoever leads then.
    cluster.wait_for(lambda: len(_info(cluster).in_sync) == 2, 60_000)
    cluster.kill(cluster.primary_of("jobs"))
    cluster.pass_ms(3_000)
    client = cluster.client("n3")
    assert client.ask(BasicGet("jobs", no_ack=True), BasicGetOk).message_count == 1


def _of_three_copies() -> tuple[Cluster, Client]:
    """Two messages, one of them with the client."""
    cluster = Cluster(3)
    cluster.tolerates_faults = True
    client = cluster.client("n1")
    arguments: FieldTable = {"x-fedq-replicas": 3}
    client.ask(QueueDeclare("jobs", durable=True, arguments=arguments), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("jobs", "one", "two")
    cluster.wait_for(lambda: client.has(BasicAck))
    client.ask(BasicGet("jobs"), BasicGetOk)
    cluster.wait_for(lambda: len(_info(cluster).in_sync) == 3)
    return cluster, client


def test_a_copy_that_failed_is_none_under_the_next_primary_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its memory and its disk may differ by what it failed at: it is begun anew."""
    cluster, client = _of_three_copies()
    first = cluster.primary_of("jobs")
    rehearsed, _ = _of_three_copies()
    rehearsed.kill(first)
    rehearsed.wait_for(lambda: rehearsed.primary_of("jobs") != first)
    other = rehearsed.primary_of("jobs")
    (failing,) = {"n1", "n2", "n3"} - {first, other}
    forget = Replica._forget

    def fail(self: Replica, dropped: Any) -> bool:
        found = forget(self, dropped)
        if cluster.turning == failing:
            # It is gone from memory, and not from the disk.
            raise Bug
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Replica, "_forget", fail)
        client.send(BasicAck(1))
        cluster.pass_ms(100)
    assert len(cluster.hosts[NodeId(failing)].faults) == 1
    cluster.kill(first)
    cluster.wait_for(lambda: cluster.primary_of("jobs") == other)
    cluster.wait_for(
        lambda: (
            failing in next(iter(cluster.node(other).state.map.fragments.values())).in_sync
            and not next(iter(cluster.node(failing).state.backups.values())).failed
        ),
        60_000,
    )
    cluster.pass_ms(2_000)
    segments = cluster.hosts[NodeId(failing)].segments
    (fragment,) = recovery.salvage({n: bytes(d) for n, d in segments.items()}).fragments.values()
    assert len(fragment.messages) == 1


def test_an_operation_that_fails_is_refused_by_all_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster()
    apply = declarations.apply

    def fail(state: Any, operation: Any) -> Any:
        if isinstance(operation, DeclareQueue) and operation.name == "poison":
            raise Bug
        return apply(state, operation)

    monkeypatch.setattr(declarations, "apply", fail)
    client = cluster.client("n2")
    client.send(QueueDeclare("poison"))
    cluster.wait_for(lambda: client.has(ChannelClose))
    assert client.take(ChannelClose).reply_code == INTERNAL_ERROR
    assert all(host.node for host in cluster.hosts.values())
    assert all(len(host.faults) == 1 for host in cluster.hosts.values())
    _restart_all(cluster)
    assert _are_alike(cluster)
    cluster.client("n1").ask(QueueDeclare("good"), QueueDeclareOk)


def test_a_command_that_nobody_can_read_changes_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has proposed it gives up; it is in the log for good, and every start reads it again."""
    cluster = _cluster()
    decode = operations.decode_command

    def fail(command: bytes) -> Any:
        if b"poison" in command:
            raise Bug
        return decode(command)

    monkeypatch.setattr(cluster_map, "decode_command", fail)
    client, other = cluster.client("n2"), cluster.client("n2")
    client.send(QueueDeclare("poison"))
    other.ask(QueueDeclare("good"), QueueDeclareOk)
    cluster.wait_for(lambda: client.has(ChannelClose) or client.has(ConnectionClose), 60_000)
    _restart_all(cluster)
    assert _are_alike(cluster)
    assert all(host.stops == 0 for host in cluster.hosts.values())
    cluster.client("n1").ask(QueueDeclare("better"), QueueDeclareOk)


def test_a_binding_that_cannot_be_routed_leaves_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = _cluster()
    bind = Router.bind

    def fail(self: Router, source: Any, destination: Any, key: str, *more: Any) -> Any:
        if key == "poison":
            raise Bug
        return bind(self, source, destination, key, *more)

    monkeypatch.setattr(Router, "bind", fail)
    client = cluster.client("n1")
    client.ask(QueueBind("jobs", "amq.direct", "before"), QueueBindOk)
    client.ask(QueueBind("jobs", "amq.direct", "poison"), QueueBindOk)
    client.ask(QueueBind("jobs", "amq.direct", "behind"), QueueBindOk)
    _restart_all(cluster)
    assert _are_alike(cluster)
    client = cluster.client("n2")
    client.publish("before", "1", exchange="amq.direct")
    client.publish("behind", "2", exchange="amq.direct")
    assert client.ask(BasicGet("jobs", no_ack=True), BasicGetOk).message_count == 1


@pytest.mark.parametrize("failing", ["one", "all"])
def test_a_record_that_no_start_can_replay_stops_none(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the copies is made whole by another; where none can be, only that record is gone."""
    cluster = _cluster()
    client = cluster.client("n1")
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    for body in ("one", "poison", "three"):
        client.publish("jobs", body)
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
    apply = folding._apply

    def fail(recovered: Any, highest: Any, record: Any) -> None:
        if isinstance(record, Enqueue) and record.messages[0].endswith(b"poison"):
            raise IndexError("a bug")
        apply(recovered, highest, record)

    names = list(cluster.hosts)
    holders = list(_info(cluster).copies)
    for name in names:
        cluster.kill(name)
    for name in [*holders, *(each for each in names if each not in holders)]:
        with monkeypatch.context() as patch:
            if failing == "all" or name == holders[0]:
                patch.setattr(folding, "_apply", fail)
            cluster.start(name)
    cluster.pass_ms(10_000)
    client = cluster.client("n3")
    client.send(BasicConsume("jobs", "tag", no_ack=True))
    cluster.wait_for(lambda: client.has(BasicDeliver))
    cluster.pass_ms(1_000)
    found = [body.removeprefix("again: ") for body in client.deliveries()]
    assert found == (["one", "three"] if failing == "all" else ["one", "poison", "three"])
    assert all(host.node for host in cluster.hosts.values())
