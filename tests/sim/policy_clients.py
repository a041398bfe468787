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
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import TableValue
from tests.sim.actors import Actor, Declaring, LostError, Script
from tests.sim.book import Book
from tests.sim.checkers import Ledger
from tests.sim.client_connection import Content
from tests.sim.closing import Drainer
from tests.sim.confirming import BurstPublisher, Numbers
from tests.sim.letters import Letter
from tests.sim.node_host import Host
from tests.sim.policies import PolicyQueue, SenderPlan, WorkerPlan
from tests.sim.registry import Registration
from tests.sim.world import MS, World, between

#: The exchange that delays; every queue is bound to it by its name.
DELAYER = "delayer"


class PolicySetup(Declaring):
    """Declares the queues with policies, however often it takes."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], queues: Sequence[PolicyQueue]
    ) -> None:
        super().__init__(world, ledger, hosts, "policies")
        self.queues = queues

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


class Sender(BurstPublisher[Letter]):
    """Publishes to queues that may refuse, drop, delay and expire."""

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
        super().__init__(world, ledger, hosts, name, plan, numbers)
        self.book = book
        self.plan = plan
        self.setup = setup

    def is_ready(self) -> bool:
        return self.setup.done

    def send(self, count: int) -> None:
        for _ in range(count):
            self._send_one()

    def _send_one(self) -> None:
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
        if self.world.trace.on:
            self.note(f"publishes {letter.describe()}")
        exchange = DELAYER if delay_ms else ""
        connection.write(self.message(letter, exchange, queue, encode_properties(properties), body))

    def answered(self, sent: Letter, is_confirmed: bool) -> None:
        if is_confirmed:
            self.book.confirmed(sent)
        else:
            self.book.nacked(sent)

    def returned(self, body: bytes) -> None:
        self.book.returned(body)


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
        yield from self.sessions(lambda: self.setup.done, self.goes_on, self._consume)

    def uses_transient(self) -> bool:
        return not self.queue.durable

    def _consume(self) -> Script[None]:
        plan, registry = self.plan, self.book.registry
        self._working = {}
        self._busy_until_us = 0
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
        yield from self.leave()

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

        def look() -> Script[None]:
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

        yield from self.sessions(
            lambda: self.setup.done, lambda: bool(queues) and self.goes_on(), look
        )

    def uses_transient(self) -> bool:
        return self._looks_at is not None and not self._looks_at.durable


class PolicyDrainer(Drainer):
    """Drains a queue with a policy at the end; what it gets is entered in the book."""

    def __init__(
        self, world: World, ledger: Ledger, host: Host, queue: str, name: str, book: Book
    ) -> None:
        super().__init__(world, ledger, host, queue, name)
        self.book = book

    def takes(self, properties: bytes, body: bytes, redelivered: bool) -> None:
        letter = self.book.delivered(self.queue, self.label, properties, body, redelivered)
        if letter is not None:
            self.book.drained(letter, self.queue)
            self.book.acked(letter, self.queue, self.label)
