"""What traces say of messages: an event for each run and each thing that happens to it."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.ids import FragmentId, reign_of
from fedq.core.trace_records import Event
from tests.unit.amqp.wire import publish
from tests.unit.node.cluster.test_planned_moves import step_until
from tests.unit.node.cluster.test_retiring import TWO, grown, is_retired
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.tracing.traced import amount, batches, events, kinds, start, stop

EVERYWHERE = pytest.mark.parametrize("size", [1, 3])


def queue(client: Client, name: str = "q", **arguments: TableValue) -> None:
    table: FieldTable = {"x-" + word.replace("_", "-"): value for word, value in arguments.items()}
    client.ask(QueueDeclare(name, durable=True, arguments=table), QueueDeclareOk)


def one(found: list[Event], kind: str) -> Event:
    (event,) = [event for event in found if event.kind == kind]
    return event


@EVERYWHERE
def test_a_run_is_an_event_at_each_of_its_stations(size: int) -> None:
    cluster = Cluster(size)
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    queue(client)
    start(cluster)
    client.publish("q", "a", "b", "c")
    client.ask(BasicConsume("q", "tag"), BasicConsumeOk)
    cluster.settle()
    client.send(BasicAck(3, multiple=True))
    found = events(cluster)
    assert [event.kind for event in found] == [
        "accepted", "routed", "enqueued", "confirmed", "delivered", "acked",
    ]  # fmt: skip
    accepted, routed, enqueued, confirmed, delivered, acked = found
    publisher = (client.connection, 1)
    assert accepted[2:] == Event(
        "", 0, "/", connection=publisher[0], channel=1, user="guest", sequences=((1, 3),),
        confirms=True, exchange="", routing_key="q",
    )[2:]  # fmt: skip
    assert (routed.queue, routed.sequences, amount(routed.numbers)) == ("q", ((1, 3),), 3)
    assert enqueued.numbers == routed.numbers
    assert (enqueued.origin, enqueued.origin_incarnation) == ("n1", 1)
    assert (enqueued.fragment, enqueued.queue) == (routed.fragment, "q")
    assert reign_of(enqueued.positions[0][0]) == enqueued.reign
    assert (confirmed.connection, confirmed.channel, confirmed.sequences) == (*publisher, ((1, 3),))
    assert delivered.positions == acked.positions == enqueued.positions
    assert (delivered.consumer, delivered.tags, delivered.redelivered) == ("tag", ((1, 3),), ())
    assert (acked.consumer, acked.connection, acked.channel) == ("tag", *publisher)


def test_publishes_that_go_different_ways_are_numbered_for_each_queue() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    queue(client, "r")
    start(cluster)
    data = b"".join(publish(1, "", key, b"x") for key in ("q", "r", "nowhere", "q", "q", "r"))
    client.write(data)
    cluster.settle()
    found = events(cluster)
    ways = {event.queue: event for event in found if event.kind == "routed"}
    assert ways["q"].sequences == ((1, 1), (4, 5))
    assert ways["r"].sequences == ((2, 2), (6, 6))
    taken = [event for event in found if event.kind == "accepted"]
    assert [(event.routing_key, event.sequences) for event in taken] == [
        ("q", ((1, 1),)), ("r", ((2, 2),)), ("nowhere", ((3, 3),)), ("q", ((4, 5),)),
        ("r", ((6, 6),)),
    ]  # fmt: skip
    for event in ways.values():
        assert amount(event.numbers) == amount(event.sequences)
        entered = [each for each in found if each.kind == "enqueued" and each.queue == event.queue]
        assert [each.numbers for each in entered] == [event.numbers]


def test_what_is_rejected_and_requeued_is_said_so_and_comes_again_with_the_mark() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client)
    client.ask(BasicQos(prefetch_count=2), BasicQosOk)
    client.ask(BasicConsume("q", "tag"), BasicConsumeOk)
    start(cluster)
    client.publish("q", "a", "b")
    client.send(BasicNack(1, requeue=True))
    client.send(BasicReject(2, requeue=False))
    found = events(cluster)
    first, again = [event for event in found if event.kind == "delivered"]
    back = one(found, "requeued")
    assert back.reason == ""
    assert again.positions == again.redelivered == back.positions
    assert first.redelivered == ()
    dead = one(found, "rejected")
    assert dead.positions == one(found, "dropped").positions
    assert one(found, "dropped").reason == "rejected"


def test_the_end_of_a_channel_gives_back_what_it_had() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client)
    client.ask(BasicConsume("q", "tag"), BasicConsumeOk)
    start(cluster)
    client.publish("q", "a")
    client.hang_up()
    back = one(events(cluster), "requeued")
    assert (back.reason, amount(back.positions)) == ("ended", 1)


def test_what_is_got_is_delivered_to_no_consumer() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client)
    start(cluster)
    client.publish("q", "a")
    client.ask(BasicGet("q", no_ack=True), BasicGetOk)
    got = one(events(cluster), "delivered")
    assert (got.consumer, got.reason, got.no_ack, got.tags) == ("", "get", True, ((1, 1),))


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [("message_ttl", 100, "expired"), ("max_length", 1, "maxlen")],
)
def test_what_a_policy_drops_is_dropped_for_a_reason(
    argument: str, value: int, reason: str
) -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q", **{argument: value})
    start(cluster)
    client.publish("q", "a", "b")
    cluster.pass_ms(500)
    dropped = [event for event in events(cluster) if event.kind == "dropped"]
    assert {event.reason for event in dropped} == {reason}
    assert sum(amount(event.positions) for event in dropped) == (2 if reason == "expired" else 1)


def test_a_full_queue_refuses_and_says_so() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    queue(client, max_length=1, overflow="reject-publish")
    start(cluster)
    client.publish("q", "a", "b")
    found = events(cluster)
    assert one(found, "refused").numbers == ((2, 2),)
    assert one(found, "nacked").sequences == ((2, 2),)
    assert one(found, "confirmed").sequences == ((1, 1),)


def test_a_dead_letter_is_told_with_where_it_goes() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "graves")
    queue(client, message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="graves")
    start(cluster)
    client.publish("q", "a")
    cluster.pass_ms(500)
    found = events(cluster)
    died = one(found, "dead_lettered")
    assert (died.queue, died.reason, died.routing_key) == ("q", "expired", "graves")
    onward = [event for event in found if event.kind == "routed" and event.from_fragment]
    assert [(event.from_fragment, event.from_positions) for event in onward] == [
        (died.fragment, died.positions)
    ]
    entered = [e for e in found if e.kind == "enqueued" and e.queue == "graves"]
    assert [event.numbers for event in entered] == [onward[0].numbers]
    assert not [event for event in found if event.kind == "dropped"]


def test_what_is_given_back_is_returned() -> None:
    cluster = Cluster()
    client = cluster.client()
    start(cluster)
    client.publish("nowhere", "a", mandatory=True)
    returned = one(events(cluster), "returned")
    assert (returned.routing_key, returned.reason, returned.amount) == ("nowhere", "NO_ROUTE", 1)


def test_a_purged_and_a_deleted_queue_are_told() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client)
    start(cluster)
    client.publish("q", "a", "b")
    client.ask(QueuePurge("q"), QueuePurgeOk)
    client.ask(QueueDelete("q"), QueueDeleteOk)
    found = events(cluster)
    dropped = one(found, "dropped")
    assert (dropped.reason, amount(dropped.positions)) == ("purged", 2)
    assert one(found, "deleted").queue == "q"


def test_a_transaction_is_told_at_its_commit() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client)
    client.ask(TxSelect(), TxSelectOk)
    start(cluster)
    client.publish("q", "a", "b")
    assert kinds(cluster) == []
    client.ask(TxCommit(), TxCommitOk)
    found = events(cluster)
    assert one(found, "routed").numbers == one(found, "enqueued").numbers
    assert amount(one(found, "accepted").sequences) == 2


def test_a_queue_of_one_node_has_positions_there() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    start(cluster)
    client.publish("mine", "a", "b")
    client.ask(BasicConsume("mine", "tag"), BasicConsumeOk)
    cluster.settle()
    found = events(cluster)
    assert one(found, "routed").positions == one(found, "enqueued").positions
    assert one(found, "delivered").positions == one(found, "routed").positions
    assert one(found, "delivered").fragment < 0


def test_the_short_way_of_a_fan_out_is_one_event() -> None:
    cluster = Cluster()
    publisher = cluster.client()
    for number in range(3):
        reader = cluster.client()
        name = f"mine{number}"
        reader.ask(QueueDeclare(name, exclusive=True), QueueDeclareOk)
        reader.ask(QueueBind(name, "amq.fanout", ""), QueueBindOk)
        reader.ask(BasicConsume(name, "tag", no_ack=True), BasicConsumeOk)
        cluster.settle()
    start(cluster)
    publisher.publish("", "a", "b", exchange="amq.fanout")
    fanned = one(events(cluster), "fanned")
    assert (fanned.exchange, fanned.amount) == ("amq.fanout", 6)


def test_a_consumer_on_another_node_settles_there_and_the_primary_hears_it() -> None:
    cluster = Cluster(3)
    publisher = cluster.client("n1")
    queue(publisher)
    home = cluster.primary_of("q")
    other = next(name for name in cluster.hosts if name != home)
    reader = cluster.client(other)
    reader.ask(BasicConsume("q", "tag"), BasicConsumeOk)
    start(cluster)
    publisher.publish("q", "a", "b")
    reader.send(BasicAck(2, multiple=True))
    cluster.pass_ms(200)
    said = {
        event.kind: batch.head.node
        for batch in batches(cluster)
        for event in batch.events
        if event.kind in ("enqueued", "delivered", "acked", "settled")
    }
    assert said == {"enqueued": home, "delivered": other, "acked": other, "settled": home}
    settled = one(events(cluster), "settled")
    assert (settled.origin, settled.reason, amount(settled.positions)) == (other, "acked", 2)


def test_what_goes_on_as_its_fragment_is_retired_is_told() -> None:
    cluster, publisher = grown(retire_age_ms=6_000)
    start(cluster, vhost="/", queue="orders")
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    publisher.publish("orders", "a", "b")
    cluster.wait_for(lambda: is_retired(cluster, "n3"))
    cluster.pass_ms(300)
    routed, refused, entered = (
        one(events(cluster), kind) for kind in ("routed", "refused", "enqueued")
    )
    assert (routed.fragment, refused.fragment, entered.fragment) == (TWO, TWO, FragmentId(1))
    assert (refused.reason, refused.origin) == ("retired", "n3")
    assert refused.numbers == routed.numbers
    assert amount(entered.positions) == 2
    assert not [event for event in events(cluster) if event.kind == "deleted"]


def test_a_new_primary_says_that_it_leads_and_what_it_holds() -> None:
    cluster = Cluster(3)
    client = cluster.client("n2")
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    queue(client)
    start(cluster)
    client.publish("q", "a", "b")
    lost = cluster.primary_of("q")
    first = one(events(cluster), "enqueued")
    cluster.kill(lost)
    cluster.wait_for(lambda: cluster.primary_of("q") != lost)
    cluster.pass_ms(1_000)
    leads = [event for event in events(cluster, "all", "leads") if event.queue == "q"]
    held = [event for event in events(cluster, "all", "standing") if event.queue == "q"]
    assert leads[-1].reign > first.reign
    assert (held[-1].amount, held[-1].positions) == (2, first.positions)


def test_a_trace_begins_and_ends_with_a_word_and_numbers_its_batches() -> None:
    cluster = Cluster(3)
    client = cluster.client()
    queue(client)
    start(cluster)
    client.publish("q", "a")
    stop(cluster)
    client.publish("q", "b")
    found = batches(cluster)
    for node in cluster.hosts:
        mine = [batch for batch in found if batch.head.node == node]
        assert [batch.head.batch for batch in mine] == list(range(1, len(mine) + 1))
        said = [event.kind for batch in mine for event in batch.events]
        assert said[0] == "started"
        assert said[-1] == "stopped"
    assert kinds(cluster).count("accepted") == 1
    assert all(cluster.node(name).state.tracer is None for name in cluster.hosts)


def test_a_node_that_starts_again_goes_on_with_the_trace() -> None:
    cluster = Cluster(3)
    client = cluster.client("n1")
    queue(client)
    start(cluster)
    cluster.kill("n3")
    cluster.pass_ms(2_000)
    cluster.start("n3")
    cluster.wait_for(lambda: cluster.node("n3").state.tracer is not None)
    cluster.pass_ms(1_000)
    heads = {(batch.head.node, batch.head.incarnation) for batch in batches(cluster)}
    assert ("n3", 2) in heads
