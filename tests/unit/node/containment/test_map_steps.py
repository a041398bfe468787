"""An exception at any call that a command of the map leads to, on every node alike, ends none.

Other queues and clients go on, and what failed is made good without a restart.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueUnbind,
)
from fedq.core.ids import NodeId
from fedq.node.copies.fragment_roles import FragmentRoles
from fedq.node.map.map_flow import MapFlow
from fedq.node.views.overview import overview
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import AddVhost, DeleteVhost
from tests.examples import examples
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.injection import Injected, Injector
from tests.unit.node.uncompiled import only_uncompiled

pytestmark = only_uncompiled

#: So many calls of each command fail, spread over all of them.
TRIES = examples(16)
#: The frame of a step itself: nothing has begun.
FRAME = (
    "MapFlow.on_committed", "MapFlow._take", "begin_map_change", "ClusterMap.apply",
    "_apply_command", "_apply_each", "_apply_weighed", "_tell_of_failures", "Work.apply",
    "Proposals.", "MapFlow._try", "MapFlow._on_change", "MapFaults", "MapFlow._on_failed",
    "_refuse_failing", "Risk.",
)  # fmt: skip


#: What is half changed if it raises: how a fragment gets back what a member had, or writes what
#: it has done; an exclusive queue that is made.
HALF_CHANGED = (
    "fragments/", "drain_records", "SegmentPlan", "Replication", "journal/", "PrivateFlow",
    "Router", "Accounts.charge",
)  # fmt: skip


class World:
    """Three nodes, a queue with confirmed messages, and clients that nothing here concerns."""

    def __init__(self) -> None:
        #: Nodes that stopped, and whether something was half changed there.
        self.half_changed: dict[NodeId, bool] = {}
        self.cluster = Cluster(3)
        self.cluster.tolerates_faults = True
        self.cluster.survived = (Injected,)
        self.other = self.cluster.client("n2")
        for name in ("kept", "old"):
            self.other.ask(QueueDeclare(name, durable=True), QueueDeclareOk)
        self.other.ask(ExchangeDeclare("old", "topic", durable=True), ExchangeDeclareOk)
        self.other.ask(QueueBind("old", "old", "a.#"), QueueBindOk)
        self.other.ask(ConfirmSelect(), ConfirmSelectOk)
        self.other.publish("kept", "one", "two")
        self.cluster.wait_for(lambda: self.other.has(BasicAck))
        self.other.said.clear()
        self.client = self.cluster.client("n1")
        self.client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
        self.client.ask(QueueBind("mine", "old", "b.#"), QueueBindOk)
        self.client.ask(BasicConsume("old", "tag"), BasicConsumeOk)
        self.client.said.clear()
        self.cluster.pass_ms(500)

    def check(self) -> None:
        """What anybody else would notice."""
        cluster = self.cluster
        cluster.pass_ms(3_000)
        nodes = [host.node for host in cluster.hosts.values() if host.node is not None]
        assert len({node.state.map.digest for node in nodes}) == 1, "maps differ"
        assert not any(node.state.outvoted for node in nodes)
        assert not any(node.map.faults._failed for node in nodes), "it was never made good"
        assert not self.other.lost
        self.other.said.clear()
        self.other.publish("kept", "three")
        cluster.wait_for(lambda: self.other.has(BasicAck))
        fresh = cluster.client("n2")
        fresh.ask(BasicConsume("kept", "tag", no_ack=True), BasicConsumeOk)
        cluster.wait_for(lambda: fresh.has(BasicDeliver))
        cluster.pass_ms(500)
        found = {body.removeprefix("again: ") for body in fresh.deliveries()}
        assert found == {"one", "two", "three"}
        fresh.ask(QueueDeclare("later", durable=True), QueueDeclareOk)
        fresh.publish("later", "x")
        assert fresh.ask(BasicGet("later", no_ack=True), BasicGetOk)


def _change(operation: Operation) -> Callable[[World], None]:
    def act(world: World) -> None:
        host = world.cluster.hosts[NodeId("n1")]
        host.inbox.append(lambda node: node.on_change_asked(operation, lambda _: None))
        world.cluster.pass_ms(300)

    return act


def _says(*methods: Any) -> Callable[[World], None]:
    def act(world: World) -> None:
        world.client.send(*methods)
        world.cluster.pass_ms(300)

    return act


def _two_vhosts(world: World) -> None:
    _change(AddVhost("v"))(world)
    _change(DeleteVhost("v"))(world)


def _member_goes(world: World) -> None:
    world.cluster.kill("n3")
    world.cluster.pass_ms(2_000)


def _member_comes(world: World) -> None:
    world.cluster.start("n3")
    world.cluster.pass_ms(3_000)


def _leaves(world: World) -> None:
    world.client.hang_up()
    world.cluster.pass_ms(300)


ACTS: dict[str, Callable[[World], None]] = {
    "declare": _says(QueueDeclare("new", durable=True)),
    "delete": _says(QueueDelete("old")),
    "exchange": _says(ExchangeDeclare("new", "headers")),
    "bind": _says(QueueBind("old", "amq.topic", "x.*")),
    "unbind": _says(QueueUnbind("old", "old", "a.#")),
    "exchange goes": _says(ExchangeDelete("old")),
    "exclusive": _says(QueueDeclare("own", exclusive=True)),
    "exclusive goes": _leaves,
    "virtual hosts": _two_vhosts,
    "member goes": _member_goes,
    "member comes": _member_comes,
}
BEFORE: dict[str, Callable[[World], None]] = {"member comes": _member_goes}


def _run(
    act: str, at: int, in_map: bool, patch: pytest.MonkeyPatch
) -> tuple[World, dict[NodeId, Injector]]:
    """Every node's call of that number raises, below the commands that the act leads to.

    `in_map`: as the map itself changes, which has to be alike everywhere; or in what it means here.
    """
    world = World()
    if act in BEFORE:
        BEFORE[act](world)
    injectors = {name: Injector(at) for name in world.cluster.hosts}
    on_committed, apply = MapFlow.on_committed, ClusterMap.apply
    # Each node has a map of its own.
    names = {id(_map_of(world, name)): name for name in world.cluster.hosts}

    def watched(flow: MapFlow, command: bytes) -> None:
        names[id(flow.state.map)] = flow.state.me
        if in_map:
            on_committed(flow, command)
            return
        try:
            with injectors[flow.state.me].watching():
                on_committed(flow, command)
        except Injected:
            # There the node stops, as it would for a client's command.
            world.half_changed[flow.state.me] = flow.state.risk.is_open
            raise

    def applied(whole: ClusterMap, command: bytes) -> Any:
        before = sys.gettrace()
        sys.settrace(None)
        try:
            if not in_map:
                return apply(whole, command)
            with injectors[names[id(whole)]].watching():
                return apply(whole, command)
        finally:
            sys.settrace(before)

    with patch.context() as during:
        during.setattr(MapFlow, "on_committed", watched)
        during.setattr(ClusterMap, "apply", applied)
        ACTS[act](world)
    return world, injectors


def _map_of(world: World, name: NodeId) -> ClusterMap | None:
    node = world.cluster.hosts[name].node
    return None if node is None else node.state.map


@pytest.mark.slow
@pytest.mark.parametrize("in_map", [True, False], ids=["map", "node"])
@pytest.mark.parametrize("act", ACTS)
def test_no_node_ends_at_a_command_that_all_are_told(
    act: str, in_map: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_map and act == "member comes":
        pytest.skip("it reads again all that the others have read before")
    world, counted = _run(act, 0, in_map, monkeypatch)
    world.check()
    calls = max(injector.calls for injector in counted.values())
    contained = 0
    for at in range(1, calls + 1, max(1, calls // TRIES)):
        world, injectors = _run(act, at, in_map, monkeypatch)
        places = [injector.place for injector in injectors.values() if injector.place]
        if any(name in place for place in places for name in FRAME):
            continue
        assert all(world.half_changed.values()), places
        if world.half_changed:
            assert any(name in place for place in places for name in HALF_CHANGED), places
            continue
        world.check()
        contained += 1
    assert contained, "nothing was contained"


def _status(cluster: Cluster) -> list[str]:
    return [
        trouble
        for host in cluster.hosts.values()
        if host.node is not None
        for trouble in overview(host.node).node().troubles
    ]


def test_a_fragment_that_no_node_can_serve_stops_none_and_is_served_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(3)
    cluster.tolerates_faults = True
    client: Client = cluster.client("n1")
    for name in ("good", "poison"):
        client.ask(QueueDeclare(name, durable=True), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("poison", "kept")
    cluster.wait_for(lambda: client.has(BasicAck))
    begin = FragmentRoles._begin_fragment

    def fail(roles: FragmentRoles, info: Any, *more: Any) -> Any:
        if info.queue.name == "poison":
            raise IndexError("a bug")
        return begin(roles, info, *more)

    with monkeypatch.context() as patch:
        patch.setattr(FragmentRoles, "_begin_fragment", fail)
        cluster.kill(cluster.primary_of("poison"))
        cluster.pass_ms(5_000)
        assert sum(host.node is not None for host in cluster.hosts.values()) == 2
        assert any("of fragment" in trouble for trouble in _status(cluster))
        living = next(host.name for host in cluster.hosts.values() if host.node is not None)
        other = cluster.client(living)
        other.publish("good", "x")
        other.ask(BasicGet("good", no_ack=True), BasicGetOk)
        faults = sum(len(host.faults) for host in cluster.hosts.values())
        assert faults <= 8, "it is tried ever less often"
    cluster.pass_ms(60_000)
    other.ask(BasicGet("poison", no_ack=True), BasicGetOk)
    assert not any("of fragment" in trouble for trouble in _status(cluster))
