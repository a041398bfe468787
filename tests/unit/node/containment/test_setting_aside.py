"""A message that stops a node, in a step that is not contained, stops no second one.

It is set aside on all copies, all others are served, and confirms keep what they say.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fedq.amqp.deliveries import append_deliveries
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId, QueueKey
from fedq.core.limits import ASIDES_PER_ANSWER_MAX
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep.asides import set_aside
from fedq.node.consuming import consume_flow
from fedq.node.containment import rehearsal
from fedq.node.containment.setting_aside import DISCARD, LIST, REQUEUE, Aside
from tests.unit.amqp.wire import Content
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.uncompiled import only_uncompiled

pytestmark = only_uncompiled

POISON = b"poison"
DLX: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
PRIORITIES: FieldTable = {"x-max-priority": 3}


class Poisoned(Exception):
    """The bug."""


def _check(messages: object) -> None:
    for message in messages if isinstance(messages, list | tuple) else ():
        if isinstance(message, bytes) and message.endswith(POISON):
            raise Poisoned("a bug")


def _wrapped(function: Callable[..., Any], at: int, after: bool) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not after:
            _check(args[at])
        found = function(*args, **kwargs)
        if after:
            _check(found.messages)
        return found

    return wrapper


def fails_at_publish(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fragment, "publish", _wrapped(Fragment.publish, 3, False))


def fails_once_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fragment, "take", _wrapped(Fragment.take, 0, True))


def fails_at_delivery(patch: pytest.MonkeyPatch) -> None:
    wrapped = _wrapped(append_deliveries, 4, False)
    for module in (consume_flow, rehearsal):
        patch.setattr(module, "append_deliveries", wrapped)


def fails_at_delivery_only_there(patch: pytest.MonkeyPatch) -> None:
    """What the rehearsal does not find: all that was in hand is suspected."""
    wrapped = _wrapped(append_deliveries, 4, False)
    patch.setattr(consume_flow, "append_deliveries", wrapped)


def fails_as_a_reign_begins(patch: pytest.MonkeyPatch) -> None:
    begin = Fragment.__init__

    def wrapper(self: Fragment, *args: Any, **kwargs: Any) -> None:
        messages = kwargs.get("messages") or {}
        notes = kwargs.get("notes") or {}
        dead = notes.get(3, {})
        _check([m for p, m in messages.items() if p not in dead])
        begin(self, *args, **kwargs)

    patch.setattr(Fragment, "__init__", wrapper)


def _queue(cluster: Cluster, arguments: FieldTable) -> Client:
    client = cluster.client("n1")
    client.ask(QueueDeclare("jobs", durable=True, arguments=arguments), QueueDeclareOk)
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    return client


def _failed_at_delivery(patch: pytest.MonkeyPatch, arguments: FieldTable, *bodies: str) -> Cluster:
    """Three nodes, of which n1 has failed at what it had in hand for its consumer."""
    cluster = Cluster(3)
    cluster.survived = (Poisoned,)
    publisher = _queue(cluster, arguments)
    fails_at_delivery_only_there(patch)
    publisher.publish("jobs", *bodies)
    cluster.client("n1").send(BasicConsume("jobs", "tag"))
    return cluster


def _asides(cluster: Cluster) -> set[bytes]:
    return {one.message[-6:] for h in cluster.hosts.values() for one in h.set_aside}


def _stops(cluster: Cluster) -> int:
    return sum(host.stops for host in cluster.hosts.values())


def _hears(cluster: Cluster, client: Client, queue: str) -> list[str]:
    """All that a consumer of the queue gets, in order, whether it was seen before or not."""
    client.ask(BasicConsume(queue, f"of {queue}", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(1_000)
    return [body.removeprefix("again: ") for body in client.deliveries()]


def _start_all(cluster: Cluster) -> None:
    for name, host in cluster.hosts.items():
        if host.node is None:
            cluster.start(name)
    cluster.pass_ms(8_000)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("fails", [fails_at_publish, fails_once_taken, fails_at_delivery])
@pytest.mark.parametrize(
    "arguments", [{}, DLX, {"x-max-priority": 3}], ids=["plain", "dlx", "prio"]
)
def test_no_second_node_fails_at_a_message(
    size: int, fails: Callable[[pytest.MonkeyPatch], None], arguments: FieldTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cluster = Cluster(size)
    cluster.survived = (Poisoned,)
    cluster.tolerates_faults = True
    publisher = _queue(cluster, arguments)
    publisher.publish("jobs", "one", "two")
    fails(monkeypatch)
    publisher.said.clear()
    publisher.publish("jobs", "three", "poison", "four")
    confirmed = any(isinstance(said, BasicAck) for said in publisher.said)
    if not publisher.lost:
        cluster.client("n1").send(BasicConsume("jobs", "tag"))
    assert _stops(cluster) == 1
    cluster.pass_ms(3_000)
    if size == 1:
        _start_all(cluster)
    client = cluster.client("n1" if size == 1 else "n2")
    if not confirmed:
        # What a client library does with what was not confirmed.
        client.ask(ConfirmSelect(), ConfirmSelectOk)
        client.publish("jobs", "three", "poison", "four")
        cluster.wait_for(lambda: any(isinstance(said, BasicAck) for said in client.said))
    assert sorted(_hears(cluster, client, "jobs")) == sorted(["one", "two", "three", "four"])
    # Nobody tries it in another queue, either.
    assert _hears(cluster, client, "dead") == []
    assert _asides(cluster) == {POISON}
    # It stays where it is, through another failover and a restart.
    _start_all(cluster)
    if size == 3:
        cluster.kill(cluster.primary_of("jobs"))
        cluster.pass_ms(5_000)
    assert _stops(cluster) == 1


def test_a_publish_from_another_node_is_not_tried_by_the_next_primary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its origin sends it again, and hears that it is safe: it is, in quarantine."""
    cluster = Cluster(3)
    cluster.survived = (Poisoned,)
    _queue(cluster, {})
    client = cluster.client("n3")
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    fails_at_publish(monkeypatch)
    client.publish("jobs", "one", "poison", "two")
    cluster.wait_for(lambda: any(isinstance(said, BasicAck) for said in client.said))
    assert _stops(cluster) == 1
    assert _hears(cluster, client, "jobs") == ["one", "two"]
    assert _asides(cluster) == {POISON}
    assert not client.lost


def test_what_was_in_hand_is_suspected_where_nothing_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = _failed_at_delivery(monkeypatch, {}, "one", "poison")
    publisher = cluster.client("n2")
    publisher.publish("jobs", "two")
    assert _hears(cluster, publisher, "jobs") == ["two"]
    assert {one.message[-3:] for h in cluster.hosts.values() for one in h.set_aside} == {
        b"one", b"son",
    }  # fmt: skip
    assert _stops(cluster) == 1


def test_a_fragment_begins_its_reign_without_what_it_fails_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The map says who serves it: were that to stop a node, it would stop each one in turn."""
    cluster = Cluster(3)
    cluster.tolerates_faults = True
    publisher = _queue(cluster, {})
    publisher.publish("jobs", "one", "poison", "two")
    fails_as_a_reign_begins(monkeypatch)
    cluster.kill(cluster.primary_of("jobs"))
    cluster.pass_ms(3_000)
    assert _stops(cluster) == 0
    assert _hears(cluster, cluster.client("n2"), "jobs") == ["one", "two"]
    assert _asides(cluster) == {POISON}


def test_who_waits_for_dead_letters_hears_of_what_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where its body alone does no harm."""
    cluster = _failed_at_delivery(monkeypatch, DLX, "poison")
    monkeypatch.undo()
    client = cluster.client("n2")
    client.send(BasicConsume("dead", "tag", no_ack=True))
    cluster.wait_for(lambda: client.has(BasicDeliver))
    [dead] = [said for said in client.said if isinstance(said, Content)]
    assert dead.body == POISON
    assert b"fedq-quarantine" in dead.properties
    assert _stops(cluster) == 1


def _asked(cluster: Cluster, act: int, positions: tuple[int, ...] = ()) -> list[Aside]:
    """What all nodes say, as an operator hears it."""
    found: list[Aside] = []
    queue, wanted = QueueKey("/", "jobs"), dict.fromkeys(positions)
    for host in cluster.hosts.values():
        host.inbox.append(
            lambda node: node.cluster.aside.on_asked(queue, act, wanted, found.extend)
        )
    cluster.settle()
    return found


def test_an_operator_puts_back_what_was_set_aside_or_removes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what is put back stays so, through a failover and a restart."""
    cluster = _failed_at_delivery(monkeypatch, {}, "one", "two", "poison")
    cluster.pass_ms(3_000)
    monkeypatch.undo()
    one, two, poison = _asked(cluster, LIST)
    assert [one.position, two.position] == [poison.position - 2, poison.position - 1]
    assert _asked(cluster, REQUEUE, (one.position, two.position)) == [one, two]
    assert _asked(cluster, LIST) == [poison]
    cluster.start("n1")
    cluster.pass_ms(8_000)
    cluster.kill(cluster.primary_of("jobs"))
    cluster.pass_ms(5_000)
    assert _asked(cluster, LIST) == [poison]
    client = cluster.client("n3" if cluster.hosts[NodeId("n3")].node is not None else "n1")
    assert _hears(cluster, client, "jobs") == ["one", "two"]
    assert _asked(cluster, DISCARD) == [poison]
    assert _asked(cluster, LIST) == []
    primary = cluster.node(cluster.primary_of("jobs"))
    assert [len(each.fragment.messages) for each in primary.state.primaries.values()][:1] == [0]


def test_an_operator_s_question_is_answered_after_as_many_turns_as_it_takes() -> None:
    cluster = Cluster(1)
    client = cluster.client()
    client.send(QueueDeclare("jobs"))
    for _ in range(8):
        client.publish("jobs", *["x"] * 500)
    state = cluster.node("n1").state
    (primary,) = state.primaries.values()
    positions = list(primary.fragment.messages)
    set_aside(primary.fragment, positions, None)
    state.work.resize(60)
    heard: list[list[Aside]] = []
    queue = QueueKey("/", "jobs")
    cluster.hosts[NodeId("n1")].inbox.append(
        lambda node: node.cluster.aside.on_asked(queue, LIST, {}, heard.append)
    )
    turns = 0
    while not heard:
        assert cluster.turn()
        turns += 1
    # A unit is for sixteen messages.
    assert turns >= len(positions) // (60 * 16)
    assert [each.position for each in heard[0]] == positions[:ASIDES_PER_ANSWER_MAX]


@pytest.mark.parametrize("where", ["n1", "n2"])
def test_what_a_settlement_names_is_suspected_and_nothing_else(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing fails where it is tried alone, and no message came with it."""
    cluster = Cluster(3)
    cluster.survived = (Poisoned,)
    cluster.tolerates_faults = True
    publisher = _queue(cluster, {})
    publisher.publish("jobs", "one", "two", "poison")
    consumer = cluster.client(where)
    consumer.ask(BasicConsume("jobs", "tag"), BasicConsumeOk)
    cluster.wait_for(lambda: sum(isinstance(said, Content) for said in consumer.said) == 3)
    take_back = Fragment.take_back

    def fail(self: Fragment, taker: NodeId, positions: Any) -> Any:
        found = [self.messages.get(position) for position in positions]
        if taker != "rehearsal":
            _check(found)
        return take_back(self, taker, positions)

    monkeypatch.setattr(Fragment, "take_back", fail)
    primary = cluster.primary_of("jobs")
    consumer.send(BasicNack(3, multiple=False, requeue=True))
    cluster.pass_ms(3_000)
    if not consumer.lost:
        consumer.hang_up()
    cluster.pass_ms(3_000)
    assert _stops(cluster) == 1
    assert cluster.hosts[NodeId(primary)].stops == 1
    assert _asides(cluster) == {POISON}
    other = next(name for name in ("n2", "n3") if name != primary)
    assert sorted(_hears(cluster, cluster.client(other), "jobs")) == ["one", "two"]
