"""The programs that use queues with policies: set-up, publishers, consumers, a looker, drainers.

They differ from those of `tests.sim.clients` in what they ask (times to live, delays, priorities,
rejections) and report to the book of policies (`tests.sim.book`) what they see.
"""

from collections.abc import Sequence

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import TableValue
from tests.sim.actors import RETRYABLE, Actor, ClosedError, LostError, Script
from tests.sim.book import Book
from tests.sim.checkers import Ledger
from tests.sim.client_connection import Content
from tests.sim.clients import Numbers
from tests.sim.closing import Drainer
from tests.sim.letters import Letter
from tests.sim.node_host import Host
from tests.sim.policies import PolicyQueue, SenderPlan, WorkerPlan
from tests.sim.registry import Registration
from tests.sim.world import MS, World, between

#: The exchange that delays; every queue is bound to it by its name.
DELAYER = "delayer"


class PolicySetup(Actor):
    """Declares the queues with policies, however often it takes."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], queues: Sequence[PolicyQueue]
    ) -> None:
        super().__init__(world, ledger, hosts, "policies")
        self.queues = queues

    def script(self) -> Script[None]:
        while True:
            try:
                yield from self.connect()
                yield from self._declare()
                yield from self.leave()
                return
            except (LostError, ClosedError) as error:
                if isinstance(error, ClosedError) and error.refusal.code not in RETRYABLE:
                    self.ledger.broken(f"a declaration was refused: {error.refusal}")
                    return
                yield 100 * MS

    def _declare(self) -> Script[None]:
        kind = ExchangeDeclare(
            DELAYER, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
        )
        yield from self.call(kind, ExchangeDeclareOk)
        for queue in self.queues:
            arguments = queue.arguments()
            declare = QueueDeclare(queue.name, durable=queue.durable, arguments=arguments)
            yield from self.call(declare, QueueDeclareOk)
            yield from self.call(QueueBind(queue.name, DELAYER, queue.name), QueueBindOk)


class Sender(Actor):
    """Publishes in confirm mode to queues that may refuse, drop, delay and expire."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        book: Book,
        plan: SenderPlan,
        numbers: Numbers,
        setup: Actor,
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.book = book
        self.plan = plan
        self.numbers = numbers
        self.setup = setup
        self.sent = 0
        self._tag = 0
        self._unanswered: dict[int, Letter] = {}

    def script(self) -> Script[None]:
        while not self.setup.done:
            yield 20 * MS
        while self.sent < self.plan.messages and self.goes_on():
            try:
                yield from self.connect()
                yield from self.call(ConfirmSelect(), ConfirmSelectOk)
                self._tag = 0
                self._unanswered = {}
                yield from self._publish()
            except LostError:
                yield between(self.random, 1, 50) * MS
            except ClosedError as error:
                yield from self.excuse(error)

    def _publish(self) -> Script[None]:
        plan = self.plan
        while self.sent < plan.messages and self.goes_on():
            for _ in range(min(plan.burst, plan.messages - self.sent)):
                self._send()
            if plan.vanish and self.random.random() < plan.vanish:
                yield between(self.random, 0, 5) * MS
                self.drop()
                return
            yield max(1, int(plan.gap_us * 2 * self.random.random()))
            while len(self._unanswered) > 4 * plan.burst:
                yield 1_000 * MS
        while self._unanswered:
            yield 1_000 * MS
        yield from self.leave()

    def _send(self) -> None:
        plan, connection = self.plan, self.connection
        assert connection is not None
        number = self.numbers.take()
        queue = plan.queues[self.sent % len(plan.queues)]
        self.sent += 1
        body = b"%d:" % number + bytes(number % 90)
        properties: dict[str, TableValue] = {
            "delivery_mode": 2 if self.random.random() < plan.persistent else 1,
            "message_id": str(number),
        }
        expiration = self.random.choice(plan.expirations)
        if expiration is not None:
            properties["expiration"] = str(expiration)
        priority = self.random.choice(plan.priorities)
        if priority is not None:
            properties["priority"] = priority
        delay_ms = self.random.choice(plan.delays)
        if delay_ms:
            properties["headers"] = {"x-delay": delay_ms}
        letter = self.book.published(number, queue, self.label, body, properties, delay_ms)
        self._tag += 1
        self._unanswered[self._tag] = letter
        if self.world.trace.on:
            self.note(f"publishes {letter.describe()}")
        exchange = DELAYER if delay_ms else ""
        data = connection.publish(1, exchange, queue, True, encode_properties(properties), body)
        connection.write(data)

    def on_other(self, channel: int, method: Method) -> None:
        if not isinstance(method, BasicAck | BasicNack):
            super().on_other(channel, method)
            return
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self._unanswered if tag <= method.delivery_tag]
        for tag in tags:
            letter = self._unanswered.pop(tag, None)
            if letter is None:
                self.ledger.broken(f"{self.label}: confirm of unknown tag {tag}")
            elif isinstance(method, BasicAck):
                self.book.confirmed(letter)
            else:
                self.book.nacked(letter)
        if self.world.trace.on:
            self.note(f"hears {method}")
        if len(self._unanswered) <= 4 * self.plan.burst:
            self.wake()

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if isinstance(method, BasicReturn):
            self.book.returned(body)
        else:
            super().on_content(method, properties, body)


class Worker(Actor):
    """Consumes, acknowledges, gives back and rejects until it is told to stop."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        book: Book,
        plan: WorkerPlan,
        setup: Actor,
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.book = book
        self.plan = plan
        self.setup = setup
        self.queue = book.queues[plan.queue]
        self._registration: Registration | None = None
        self._working: dict[int, Letter] = {}
        self._busy_until_us = 0

    def script(self) -> Script[None]:
        while not self.setup.done:
            yield 20 * MS
        while self.goes_on():
            try:
                yield from self.connect()
                self._working = {}
                self._busy_until_us = 0
                yield from self._consume()
                yield from self.leave()
            except LostError:
                yield between(self.random, 1, 50) * MS
            except ClosedError as error:
                yield from self.excuse(error)

    def uses_transient(self) -> bool:
        return not self.queue.durable

    def _consume(self) -> Script[None]:
        plan, registry = self.plan, self.book.registry
        if plan.prefetch:
            yield from self.call(BasicQos(0, plan.prefetch, False), BasicQosOk)
        registration = registry.ask(plan.queue, self.label, plan.priority, plan.prefetch, self.node)
        registration.one_by_one = plan.one_by_one
        self._registration = registration
        arguments: dict[str, TableValue] = {"x-priority": plan.priority} if plan.priority else {}
        yield from self.call(BasicConsume(plan.queue, "work", arguments=arguments), BasicConsumeOk)
        registry.begin(registration)
        while self.goes_on():
            yield 100 * MS
            if plan.vanish and self.random.random() < plan.vanish:
                self.book.vanished = True
                self.drop()
                raise LostError("vanished on purpose")
            if plan.cancel and self.random.random() < plan.cancel:
                break
        registry.end(registration)
        yield from self.call(BasicCancel("work"), BasicCancelOk)
        while self._working:
            yield 100 * MS

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicDeliver) or self._registration is None:
            super().on_content(method, properties, body)
            return
        plan, tag = self.plan, method.delivery_tag
        if self.world.trace.on:
            self.note(f"receives {body[:12]!r} {method}")
        letter = self.book.delivered(plan.queue, self.label, properties, body, method.redelivered)
        if letter is None:
            return
        self.book.registry.receives(self._registration, self.queue)
        self._working[tag] = letter
        if plan.prefetch and len(self._working) > plan.prefetch:
            self.ledger.broken(f"{self.label}: {len(self._working)} unacknowledged, prefetch "
                               f"{plan.prefetch}")  # fmt: skip
        label, now_us = self.label, self.world.now_us
        done_us = now_us + int(plan.work_us * (0.5 + self.random.random()))
        if plan.one_by_one:
            done_us += max(0, self._busy_until_us - now_us)
            self._busy_until_us = done_us
        self.world.after(done_us - now_us, lambda: self._settle(label, tag))

    def _settle(self, label: str, tag: int) -> None:
        connection, registration = self.connection, self._registration
        letter = self._working.get(tag)
        if self.label != label or connection is None or letter is None or registration is None:
            return
        del self._working[tag]
        plan, chance, book = self.plan, self.random.random(), self.book
        book.registry.settles(registration)
        if chance < plan.requeue:
            self.note(f"requeues {tag}")
            book.requeued(letter, plan.queue, label)
            connection.send(1, BasicNack(tag, False, True))
        elif chance < plan.requeue + plan.reject:
            self.note(f"rejects {tag}")
            book.rejected(letter, plan.queue, label)
            connection.send(1, BasicReject(tag, False))
        else:
            self.note(f"acks {tag}")
            book.acked(letter, plan.queue, label)
            connection.send(1, BasicAck(tag, False))
        if not self._working:
            self.wake()


class Looker(Actor):
    """Asks, now and then and from anywhere, how long the queues are."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], book: Book, setup: Actor
    ) -> None:
        super().__init__(world, ledger, hosts, "looker")
        self.book = book
        self.setup = setup
        self._looks_at: PolicyQueue | None = None

    def script(self) -> Script[None]:
        queues = [queue for queue in self.book.queues.values() if queue.has_length]
        while not self.setup.done:
            yield 20 * MS
        while queues and self.goes_on():
            try:
                yield from self.connect()
                for _ in range(20):
                    for queue in queues:
                        self._looks_at, asked_us = queue, self.world.now_us
                        passive = QueueDeclare(queue.name, passive=True)
                        found = yield from self.call(passive, QueueDeclareOk)
                        self.book.counted(queue.name, found.message_count, asked_us)
                    yield between(self.random, 1, 100) * MS
                    if not self.goes_on():
                        break
                yield from self.leave()
            except LostError:
                yield between(self.random, 1, 50) * MS
            except ClosedError as error:
                yield from self.excuse(error)

    def uses_transient(self) -> bool:
        return self._looks_at is not None and not self._looks_at.durable


class PolicyDrainer(Drainer):
    """Drains a queue with a policy at the end; what it gets is entered in the book."""

    def __init__(
        self, world: World, ledger: Ledger, host: Host, queue: str, name: str, book: Book
    ) -> None:
        super().__init__(world, ledger, host, queue, name)
        self.book = book

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if isinstance(method, BasicGetOk) or not isinstance(method, BasicDeliver):
            super().on_content(method, properties, body)
            return
        self.received_one()
        letter = self.book.delivered(self.queue, self.label, properties, body, method.redelivered)
        if letter is not None:
            self.book.drained(letter, self.queue)
            self.book.acked(letter, self.queue, self.label)
        if self.connection is not None:
            self.connection.send(1, BasicAck(method.delivery_tag, False))
