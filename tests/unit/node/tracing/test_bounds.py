"""What traces take in, and what they leave out: filters, samples, and streams that take nothing."""

from collections.abc import Callable

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.limits import MIB, TRACES_MAX
from fedq.core.versions import TRACING
from fedq.node.clients.memory import held_bytes
from fedq.node.records.tracing import trace_lines, tracer
from fedq.node.records.tracing.trace_lines import (
    BLOCK_SHIFT,
    SAMPLED_MAX,
    is_sampled,
    sampled,
)
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import AddVhost, DeleteVhost
from fedq.wiring.cluster_map.operations_tracing import SetFirehose, StartTrace, StopTrace
from fedq.wiring.cluster_map.state import Ok
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.tracing.traced import amount, batches, change, events, kinds, start
from tests.unit.node.uncompiled import only_uncompiled


def queue(client: Client, name: str) -> None:
    client.ask(QueueDeclare(name, durable=True), QueueDeclareOk)


def test_a_trace_of_a_queue_hears_of_no_other() -> None:
    cluster = Cluster()
    client = cluster.client()
    for name in ("q", "r"):
        queue(client, name)
    start(cluster, vhost="/", queue="q")
    client.publish("r", "x")
    client.publish("q", "a", "b")
    client.publish("r", "y")
    client.ask(BasicConsume("r", "of r"), BasicConsumeOk)
    client.ask(BasicConsume("q", "of q"), BasicConsumeOk)
    cluster.settle()
    client.send(BasicAck(0, multiple=True))
    found = events(cluster)
    assert {event.queue for event in found if event.queue} == {"q"}
    assert [event.kind for event in found] == [
        "accepted", "routed", "enqueued", "delivered", "acked",
    ]  # fmt: skip
    assert found[0].sequences == ((2, 3),), "all publishes of a channel are counted"


def test_a_trace_of_an_exchange_follows_what_was_published_there() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.ask(ExchangeDeclare("x", "direct", durable=True), ExchangeDeclareOk)
    for name in ("q", "r"):
        queue(client, name)
    client.ask(QueueBind("q", "x", "k"), QueueBindOk)
    start(cluster, vhost="/", exchange="x")
    client.publish("r", "x")
    client.publish("k", "a", exchange="x")
    client.ask(BasicConsume("q", "of q"), BasicConsumeOk)
    client.ask(BasicConsume("r", "of r"), BasicConsumeOk)
    cluster.settle()
    client.send(BasicAck(0, multiple=True))
    found = events(cluster)
    assert {event.queue for event in found if event.queue} == {"q"}
    assert [event.kind for event in found] == [
        "accepted", "routed", "enqueued", "delivered", "acked",
    ]  # fmt: skip


def test_another_virtual_host_is_none_of_its_business() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    assert change(cluster, AddVhost("shop")) == Ok(1)
    start(cluster, vhost="shop")
    client.publish("q", "a")
    assert kinds(cluster) == []


def test_a_sample_has_all_that_happens_to_a_message_or_nothing() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    client.ask(BasicConsume("q", "tag"), BasicConsumeOk)
    start(cluster, "some", sample=3)
    for _ in range(30):
        client.publish("q", *["x"] * 20)
    client.send(BasicAck(0, multiple=True))
    seen: dict[str, set[int]] = {}
    for event in events(cluster, "some"):
        if event.kind in ("enqueued", "delivered", "acked"):
            positions = [p for first, last in event.positions for p in range(first, last + 1)]
            seen.setdefault(event.kind, set()).update(positions)
            assert all(is_sampled(event.fragment, position, 3) for position in positions)
            if event.kind == "enqueued":
                assert amount(event.numbers) == amount(event.positions)
            if event.kind == "delivered":
                assert amount(event.tags) == amount(event.positions)
    assert seen["enqueued"] == seen["delivered"] == seen["acked"]
    assert 50 < len(seen["acked"]) < 400


def test_sampled_parts_are_those_of_sampled_blocks() -> None:
    ranges = [(5, 700), (900, 901), (1_000, 1_300)]
    parts = sampled(7, ranges, 4)
    positions = [p for first, last in ranges for p in range(first, last + 1)]
    found = [p for first, last, _ in parts for p in range(first, last + 1)]
    assert found == [position for position in positions if is_sampled(7, position, 4)]
    for first, last, before in parts:
        assert positions[before : before + last - first + 1] == list(range(first, last + 1))


def test_one_block_of_each_so_many_is_sampled_and_any_of_them_may_be() -> None:
    for sample in (1, 2, 7, 100):
        chosen: set[int] = set()
        for group in range(500):
            first = group * sample << BLOCK_SHIFT
            blocks = [n for n in range(sample) if is_sampled(9, first + (n << BLOCK_SHIFT), sample)]
            assert len(blocks) == 1
            chosen.update(blocks)
        assert len(chosen) > 0.9 * sample
    assert sampled(7, [(1, 10_000)], 100) != sampled(8, [(1, 10_000)], 100)


def test_a_range_of_a_billion_positions_is_no_walk() -> None:
    """As of a stream that is purged: before, it was looked at block by block, for seconds."""
    ranges = [(1, 70), (1 << 40, (1 << 40) + 10**9), *[(10**15, 10**15 + 10**6)] * 2_000]
    parts = sampled(7, ranges, 2)
    assert len(parts) < SAMPLED_MAX + len(ranges)
    assert (1 << 40, (1 << 40) + 10**9, 70) in parts, "it is told as a whole"
    assert parts[-1][:2] == ranges[-1]


# --- what a stream cannot take -------------------------------------------------------------------


def test_events_that_have_no_stream_are_counted_as_a_gap() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    start(cluster)
    client.ask(QueueDelete("fedq.trace.all"), QueueDeleteOk)
    client.publish("q", "a")
    cluster.pass_ms(500)
    table: FieldTable = {"x-queue-type": "stream"}
    client.ask(QueueDeclare("fedq.trace.all", durable=True, arguments=table), QueueDeclareOk)
    client.publish("q", "b")
    (gap,) = events(cluster, "all", "gap")
    assert gap.amount >= 3, "accepted, routed, enqueued"
    after = [event for event in events(cluster) if event.kind == "accepted"]
    assert len(after) == 1


def test_a_stream_that_does_not_get_to_its_disk_holds_nobody_and_is_told_of_a_gap() -> None:
    cluster = Cluster(memory_bytes_max=4 * MIB)
    client = cluster.client()
    start(cluster)
    queue(client, "q")
    cluster.disk_waits("n1", True)
    for _ in range(12):
        for _ in range(80):
            client.publish("q", "x", persistent=False)
            client.publish("nowhere", "x", persistent=False)
        cluster.pass_ms(100)
    assert client.is_read
    cluster.disk_waits("n1", False)
    cluster.pass_ms(1_000)
    client.publish("q", "last")
    gaps = events(cluster, "all", "gap")
    assert sum(gap.amount for gap in gaps) > 0
    numbers = [batch.head.batch for batch in batches(cluster)]
    assert numbers == list(range(1, len(numbers) + 1)), "what was dropped had no number"


@only_uncompiled
def test_what_waits_for_a_trace_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_lines, "LINES_MAX", 5)
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    start(cluster)
    for _ in range(10):
        client.publish("q", "a")
    (gap,) = events(cluster, "all", "gap")
    assert gap.amount == 10 * 3 - 5


def test_a_trace_does_not_trace_itself() -> None:
    cluster = Cluster(3)
    client = cluster.client()
    start(cluster)
    start(cluster, "other")
    cluster.pass_ms(1_000)
    table: FieldTable = {"x-stream-offset": "first"}
    client.ask(BasicQos(prefetch_count=10), BasicQosOk)
    client.ask(BasicConsume("fedq.trace.all", "r", arguments=table), BasicConsumeOk)
    cluster.pass_ms(1_000)
    assert client.deliveries()
    assert kinds(cluster) == []
    assert kinds(cluster, "other") == []
    streams = {event.queue for event in events(cluster, "all", "standing", "leads")}
    assert "fedq.trace.all" not in streams


def test_what_waits_for_a_trace_counts_as_memory() -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    start(cluster)
    state = cluster.node("n1").state
    before = held_bytes(state)
    client.publish("nowhere", "a", persistent=False)
    assert held_bytes(state) - before > 100
    cluster.pass_ms(300)
    client.publish("q", "a")
    assert state.tracer is not None
    assert state.tracer.bytes_held > 0


def test_of_very_many_that_are_kept_singly_only_the_number_is_told() -> None:
    cluster = Cluster()
    client = cluster.client()
    table: FieldTable = {"x-max-priority": 5}
    client.ask(QueueDeclare("q", durable=True, arguments=table), QueueDeclareOk)
    count = tracer.STANDING_SINGLES_MAX + 1
    for _ in range(11):
        client.publish("q", *["x"] * (count // 11 + 1), persistent=False)
    start(cluster)
    (held,) = [event for event in events(cluster, "all", "standing") if event.queue == "q"]
    assert held.reason == "cut"
    assert held.positions == ()
    assert held.amount >= count


# --- what operators may ask ----------------------------------------------------------------------


def wanted(name: str = "all", **others: object) -> StartTrace:
    fields: dict[str, object] = {"vhost": "", "exchange": "", "queue": "", "sample": 1}
    fields |= {"stream_vhost": "/", "stream": "fedq.trace.all", **others}
    return StartTrace(name, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operation", "code", "words"),
    [
        (wanted("a name"), PRECONDITION_FAILED, "no name of a trace"),
        (wanted("x" * 65), PRECONDITION_FAILED, "no name of a trace"),
        (wanted("b", queue="q"), PRECONDITION_FAILED, "needs the virtual host"),
        (wanted("b", vhost="no"), NOT_FOUND, "virtual host 'no' does not exist"),
        (wanted("b", stream="q"), NOT_FOUND, "no stream 'q'"),
        (wanted("b", stream="no"), NOT_FOUND, "no stream 'no'"),
        (wanted("b", vhost="/", queue="fedq.trace.all"), PRECONDITION_FAILED, "that it is of"),
        (wanted(sample=2), PRECONDITION_FAILED, "stop it first"),
        (StopTrace("b"), NOT_FOUND, "no trace named 'b'"),
        (SetFirehose("no", True), NOT_FOUND, "does not exist"),
    ],
)
def test_what_makes_no_sense_is_refused(operation: Operation, code: int, words: str) -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    start(cluster)
    refused = change(cluster, operation)
    assert isinstance(refused, Refused)
    assert refused.reply_code == code
    assert words in refused.text


def test_the_same_trace_twice_is_confirmed_and_too_many_are_refused() -> None:
    cluster = Cluster()
    start(cluster)
    assert change(cluster, wanted()) == Ok()
    heard = [change(cluster, wanted(f"t{number}")) for number in range(TRACES_MAX + 5)]
    assert heard[: TRACES_MAX - 1] == [Ok(1)] * (TRACES_MAX - 1)
    for refused in heard[TRACES_MAX - 1 :]:
        assert isinstance(refused, Refused)
        assert refused.reply_code == RESOURCE_ERROR


def test_a_trace_goes_with_its_virtual_host() -> None:
    cluster = Cluster()
    assert change(cluster, AddVhost("shop")) == Ok(1)
    start(cluster, vhost="shop")
    assert change(cluster, SetFirehose("shop", True)) == Ok(1)
    assert change(cluster, DeleteVhost("shop")) == Ok(1)
    node = cluster.node("n1")
    assert (node.state.map.traces, node.state.map.firehose) == ({}, {})
    assert node.state.tracer is None


def test_an_older_cluster_has_no_traces() -> None:
    cluster = Cluster()
    cluster.node("n1").state.map.cluster_version = TRACING - 1
    refused = change(cluster, SetFirehose("/", True))
    assert isinstance(refused, Refused)
    assert "every node of the cluster runs a release that has them" in refused.text


@pytest.mark.parametrize("said", [lambda c: None, lambda c: c.pass_ms(300)])
def test_nothing_is_noted_when_nothing_is_traced(said: Callable[[Cluster], None]) -> None:
    cluster = Cluster()
    client = cluster.client()
    queue(client, "q")
    client.publish("q", "a")
    said(cluster)
    state = cluster.node("n1").state
    assert state.tracer is None
    assert not state.losses.left
