"""Claim: a node takes a message in and hands it out for little more than its codec costs.

A real `Node`, driven in turns with real bytes and no sockets: publishes come in, deliveries go out,
acknowledgements come back; the journal's chunks count as synced in the next turn. `BATCH` messages
a turn, as a busy connection brings them, or one: what latency consists of. (A persistent one then
takes three turns: for the publish, for the disk, for the acknowledgement.) Bodies of 16 to 79
bytes, no message like the one before. What one message costs after idling, less what idling costs,
is what the same turn costs when the processor has forgotten it.
"""

import time
from collections.abc import Callable
from functools import partial

from fedq.amqp.deliveries import ack_frame
from fedq.amqp.method_types import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.node.node import Node
from loadtests.micro.timing import Case
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Cluster

BATCH = 100
IDLE_S = 0.001
PERSISTENT = b"\x10\x00\x02"
PLAIN = b"\x00\x00"


class Loop:
    """One publisher and `consumers` consumers of one queue on one node."""

    def __init__(
        self, *, reliable: bool, exclusive: bool = False, consumers: int = 1, batch: int = BATCH
    ) -> None:
        """`reliable`: a durable queue, persistent messages, confirms and acknowledgements."""
        cluster = Cluster()
        self._cluster = cluster
        self._reliable = reliable
        self._batch = batch
        self._tag = 0
        self._publisher = publisher = cluster.client()
        self._consumer = consumer = publisher if exclusive else cluster.client()
        declare = QueueDeclare("work", durable=reliable, exclusive=exclusive)
        publisher.ask(declare, QueueDeclareOk)
        if reliable:
            publisher.ask(ConfirmSelect(), ConfirmSelectOk)
            consumer.ask(BasicQos(0, 2 * batch, False), BasicQosOk)
        for number in range(consumers):
            consume = BasicConsume("work", f"c{number}", no_ack=not reliable)
            consumer.ask(consume, BasicConsumeOk)
        self._node = cluster.node("n1")
        properties = PERSISTENT if reliable else PLAIN
        self._publishes = b"".join(
            publish(1, "", "work", b"x" * (16 + number * 37 % 64), properties, 0)
            for number in range(batch)
        )

    def run(self) -> None:
        """One batch there, and what must come back."""
        node, batch = self._node, self._batch
        self._turn(partial(node.on_bytes, self._publisher.connection, self._publishes))
        if not self._reliable:
            return
        acks = b"".join(
            [ack_frame(1, tag, False) for tag in range(self._tag + 1, self._tag + batch + 1)]
        )
        self._tag += batch
        self._turn(partial(node.on_bytes, self._consumer.connection, acks))

    def _turn(self, action: Callable[[], object]) -> None:
        node = self._node
        node.begin_turn(self._cluster.now_ms)
        action()
        self._end(node)

    def _end(self, node: Node) -> None:
        node.end_turn()
        out = node.out
        while True:
            again, chunks = out.again, out.journal
            out.clear()
            if not again and not any(chunk.sync for chunk in chunks):
                return
            node.begin_turn(self._cluster.now_ms)
            if any(chunk.sync for chunk in chunks):
                node.on_synced(chunks[-1].number)
            node.end_turn()


def case(name: str, loop: Loop, items: int) -> Case:
    """A case that was run once, to see that it works."""
    loop.run()
    return Case(name, items, loop.run)


def after_idling(loop: Loop) -> Callable[[], None]:
    """One turn after a millisecond of sleep: a thousand messages a second."""

    def run() -> None:
        time.sleep(IDLE_S)
        loop.run()

    return run


CASES = [
    case("node, transient, shared queue", Loop(reliable=False), BATCH),
    case("node, transient, private queue", Loop(reliable=False, exclusive=True), BATCH),
    case("node, persistent, confirms, acks", Loop(reliable=True), BATCH),
    case("node, transient, one a turn", Loop(reliable=False, batch=1), 1),
    case("node, persistent, one a turn", Loop(reliable=True, batch=1), 1),
    Case("node, transient, one after idling", 1, after_idling(Loop(reliable=False, batch=1))),
    Case("idling alone", 1, lambda: time.sleep(IDLE_S)),
    case("node, transient, 2,000 a turn", Loop(reliable=False, batch=2_000), 2_000),
    case("node, transient, 1,000 consumers", Loop(reliable=False, consumers=1_000), BATCH),
    case("node, persistent, 1,000 consumers", Loop(reliable=True, consumers=1_000), BATCH),
]  # fmt: skip
