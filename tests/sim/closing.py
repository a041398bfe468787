"""The last clients of a run: they count every queue from every node, then drain it.

They run when everything is healed and at rest, so they allow no excuses: every node must answer,
all must count the same, and what they drain must be what they counted.
"""

from collections.abc import Sequence

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.sim.actors import Actor, ClosedError, LostError, Script
from tests.sim.checkers import Ledger
from tests.sim.client_connection import Content
from tests.sim.node_host import Host
from tests.sim.world import MS, SECOND, World

#: A drain that has had nothing for so long asks whether anything is left.
IDLE_US = 400 * MS
#: The same where some of it may have to be read from a disk that fails, and then from other nodes.
UNREAD_IDLE_US = 2 * SECOND
DRAIN_LIMIT_US = 15 * SECOND


class Counter(Actor):
    """Asks one node for the count of every queue."""

    def __init__(
        self, world: World, ledger: Ledger, host: Host, queues: Sequence[str], name: str
    ) -> None:
        super().__init__(world, ledger, [host], name)
        self.queues = queues
        self.counts: dict[str, int] = {}

    def script(self) -> Script[None]:
        try:
            yield from self.connect()
            for queue in self.queues:
                declared = yield from self.call(QueueDeclare(queue, passive=True), QueueDeclareOk)
                self.counts[queue] = declared.message_count
                if declared.consumer_count:
                    self.ledger.broken(
                        f"P5: {self.hosts[0].name} counts {declared.consumer_count} consumers of "
                        f"{queue}, which has none"
                    )
            yield from self.leave()
        except (LostError, ClosedError) as error:
            self.ledger.broken(f"P5: {self.hosts[0].name} does not count: {error}")


class Drainer(Actor):
    """Consumes one queue through one node until nothing is left, then gets empty."""

    def __init__(self, world: World, ledger: Ledger, host: Host, queue: str, name: str) -> None:
        super().__init__(world, ledger, [host], name)
        self.queue = queue
        self.received = 0
        self._last_us = 0
        self._consuming = False
        self.idle_us = IDLE_US

    def script(self) -> Script[None]:
        begun_us = self.world.now_us
        try:
            yield from self.connect()
            self._consuming = True
            yield from self.call(BasicConsume(self.queue, "drain"), BasicConsumeOk)
            self._last_us = self.world.now_us
            while self.world.now_us - self._last_us < self.idle_us:
                yield IDLE_US // 4
                if self.world.now_us - begun_us > DRAIN_LIMIT_US:
                    self.ledger.broken(f"liveness: {self.queue} does not run dry")
                    break
            yield from self.leave()
            yield from self.connect()
            self._consuming = False
            answer = yield from self.ask(BasicGet(self.queue, False), BasicGetOk, BasicGetEmpty)
            if isinstance(answer, BasicGetOk):
                self.ledger.broken(f"P5: {self.queue} was drained, but get finds a message")
            yield from self.leave()
        except (LostError, ClosedError) as error:
            self.ledger.broken(f"liveness: draining {self.queue}: {error}")

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if isinstance(method, BasicGetOk):
            self.on_method(1, method)
            return
        if not isinstance(method, BasicDeliver):
            super().on_content(method, properties, body)
            return
        # The queue has not run dry yet.
        self.received += 1
        self._last_us = self.world.now_us
        self.takes(properties, body, method.redelivered)
        if self.connection is not None:
            self.connection.send(1, BasicAck(method.delivery_tag, False))

    def takes(self, properties: bytes, body: bytes, redelivered: bool) -> None:
        """Reports a delivery, which is about to be acknowledged."""
        copy = self.ledger.delivered(
            self.queue, self.label, "drain", properties, body, redelivered, False
        )
        if copy is not None:
            self.ledger.acked(copy, self.label)
