"""Claim: a confirm costs by the queue and turn, not by the message: little beside its routing.

A real `Node`, driven in turns with real bytes and no sockets: publishes with 10,000 keys to a topic
exchange whose bindings, as many, are spread over 100 shared queues, five of which a key matches on
average. Consumers acknowledge by receiving. The same without confirms and with, one after the
other, with a window of 200 messages a turn, and with a busy connection's 1,000.
"""

from collections.abc import Iterator

from fedq.amqp.method_types import (
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueDeclare,
)
from fedq.bench.words import words_for
from loadtests.micro.timing import Case
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Cluster

BINDINGS, KEYS, QUEUES = 10_000, 10_000, 100
WORDS = words_for(BINDINGS, KEYS, 1)


class Spread:
    """One publisher to all the queues, `batch` messages a turn."""

    def __init__(self, *, batch: int, confirms: bool) -> None:
        self._cluster = cluster = Cluster()
        self._publisher = publisher = cluster.client()
        consumer = cluster.client()
        for number in range(QUEUES):
            name = f"q{number}"
            bound = WORDS.patterns[number::QUEUES]
            consumer.send(QueueDeclare(name), *(QueueBind(name, "amq.topic", b) for b in bound))
            consumer.ask(BasicConsume(name, name, no_ack=True), BasicConsumeOk)
        if confirms:
            publisher.ask(ConfirmSelect(), ConfirmSelectOk)
        self._node = cluster.node("n1")
        self._batches = [
            b"".join(
                publish(1, "amq.topic", key, b"0123456789abcdef")
                for key in WORDS.keys[start : start + batch]
            )
            for start in range(0, KEYS, batch)
        ]

    def run(self) -> None:
        """All batches, each in a turn of its own."""
        node, connection = self._node, self._publisher.connection
        for data in self._batches:
            node.begin_turn(self._cluster.now_ms)
            node.on_bytes(connection, data)
            node.end_turn()
            while node.out.again:
                node.out.clear()
                node.begin_turn(self._cluster.now_ms)
                node.end_turn()
            node.out.clear()


def cases() -> Iterator[Case]:
    """What is measured, with what it needs made when it is its turn."""
    for batch in (200, 1_000):
        for confirms in (False, True):
            spread = Spread(batch=batch, confirms=confirms)
            spread.run()
            said = "with confirms" if confirms else "without confirms"
            yield Case(f"publish to 100 queues, {batch:,} a turn, {said}", KEYS, spread.run)


CASES = cases()
