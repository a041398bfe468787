"""What traces count is what clients saw, whatever they do, wherever their queues are."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.examples import examples
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.tracing.traced import amount, events, start

QUEUES = ("q", "r")
keys = st.sampled_from([*QUEUES, "nowhere"])
steps = st.one_of(
    st.tuples(st.just("publish"), st.lists(keys, min_size=1, max_size=6)),
    st.tuples(st.just("settle"), st.sampled_from(["ack", "requeue", "reject", "through"])),
    st.tuples(st.just("get"), st.sampled_from(QUEUES)),
    st.tuples(st.just("purge"), st.sampled_from(QUEUES)),
)


class Model:
    """Clients of a traced cluster, and what they saw."""

    def __init__(self, size: int) -> None:
        self.cluster = Cluster(size)
        self.seen: Counter[str] = Counter()
        self.publisher = self.cluster.client("n1")
        self.publisher.ask(ConfirmSelect(), ConfirmSelectOk)
        for name in QUEUES:
            self.publisher.ask(QueueDeclare(name, durable=True), QueueDeclareOk)
        self.reader: Client = self.cluster.client(list(self.cluster.hosts)[-1])
        self.reader.ask(BasicQos(prefetch_count=3), BasicQosOk)
        start(self.cluster)
        self.reader.ask(BasicConsume("q", "tag"), BasicConsumeOk)
        self.held: list[int] = []

    def take_in(self) -> None:
        """Notes what has come."""
        self.cluster.pass_ms(100)
        for said in self.reader.said:
            if isinstance(said, Content) and isinstance(said.method, BasicDeliver):
                self.held.append(said.method.delivery_tag)
                self.seen["delivered"] += 1
                self.seen["redelivered"] += said.method.redelivered
        self.reader.said = []

    def publish(self, ways: list[str]) -> None:
        """Publishes, a message for each key, all in one piece of bytes."""
        self.publisher.write(b"".join([publish(1, "", key, b"x") for key in ways]))
        self.cluster.settle()
        for key in ways:
            self.seen["accepted"] += 1
            self.seen["confirmed"] += 1
            self.seen["routed"] += key != "nowhere"

    def settle(self, how: str) -> None:
        """Says what becomes of the first delivery, or of all."""
        if not self.held:
            return
        tag = self.held.pop(0)
        if how == "through":
            tag = ([tag, *self.held])[-1]
            self.seen["acked"] += 1 + len(self.held)
            self.held = []
            self.reader.send(BasicAck(tag, multiple=True))
        elif how == "ack":
            self.seen["acked"] += 1
            self.reader.send(BasicAck(tag))
        elif how == "requeue":
            self.seen["requeued"] += 1
            self.reader.send(BasicNack(tag, requeue=True))
        else:
            self.seen["rejected"] += 1
            self.seen["dropped"] += 1
            self.reader.send(BasicReject(tag, requeue=False))

    def get(self, queue: str) -> None:
        """Gets a message, if there is one."""
        self.publisher.send(BasicGet(queue, no_ack=True))
        self.cluster.wait_for(
            lambda: self.publisher.has(BasicGetOk) or self.publisher.has(BasicGetEmpty)
        )
        if self.publisher.has(BasicGetOk):
            got = self.publisher.take(BasicGetOk)
            self.seen["delivered"] += 1
            self.seen["redelivered"] += got.redelivered
        else:
            self.publisher.take(BasicGetEmpty)

    def purge(self, queue: str) -> None:
        """Purges a queue."""
        gone = self.publisher.ask(QueuePurge(queue), QueuePurgeOk)
        self.seen["dropped"] += gone.message_count


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([1, 2]), st.lists(steps, max_size=12))
def test_what_is_counted_is_what_was_seen(size: int, script: list[tuple[str, object]]) -> None:
    model = Model(size)
    for verb, argument in script:
        getattr(model, verb)(argument)
        model.take_in()
    told: Counter[str] = Counter()
    for event in events(model.cluster):
        told["redelivered"] += amount(event.redelivered)
        if event.kind in ("accepted", "confirmed"):
            told[event.kind] += amount(event.sequences)
        elif event.kind == "routed":
            told[event.kind] += amount(event.numbers)
        elif event.kind in ("delivered", "acked", "requeued", "rejected", "dropped", "enqueued"):
            told[event.kind] += amount(event.positions)
    assert told.pop("enqueued", 0) == model.seen["routed"]
    assert {k: v for k, v in told.items() if v} == {k: v for k, v in model.seen.items() if v}
