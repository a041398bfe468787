"""Publishers with names in a run: each repeats what it does not know to be taken (ADR 0078).

A publisher loses its connection, or drops it, and goes on through any node: from what was not
confirmed, or from before that. Everything goes to two queues. One is consumed all the time: nothing
is delivered twice there, unless it is marked redelivered. The other one is read at the end: there
each sequence is once, marked or not, and in order; what was confirmed is there.
"""

from collections.abc import Callable, Sequence

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.seeds import derive
from fedq.core.versions import NAMED_PUBLISHERS
from tests.sim.actors import Actor, Declaring, Script
from tests.sim.checkers import Ledger
from tests.sim.client_connection import Content
from tests.sim.confirming import ConfirmingActor, Numbers
from tests.sim.inspect_node import state_of
from tests.sim.named_plans import EXCHANGE, KEPT, WORKED, NamedPlan
from tests.sim.node_host import Host
from tests.sim.world import MS, World, between

#: How long nothing comes before the last reader has all.
_QUIET_US = 3_000 * MS
#: Waits for a condition; false, and a problem, when it does not hold in time.
Wait = Callable[[str, Callable[[], bool]], bool]


class NamedBook:
    """What those with names have sent, and what of it was confirmed and delivered."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        #: By publisher: the sequences that it sent at least once, and those confirmed.
        self.sent: dict[str, dict[int, None]] = {}
        self.confirmed: dict[str, dict[int, None]] = {}
        self._worked: dict[bytes, int] = {}
        self._kept: dict[bytes, int] = {}
        self._last: dict[bytes, int] = {}

    def worked(self, body: bytes, redelivered: bool) -> None:
        """A delivery of the queue that is consumed all the time."""
        self._known(body)
        if redelivered:
            return
        self._worked[body] = self._worked.get(body, 0) + 1
        if self._worked[body] > 1:
            self.ledger.broken(f"exactly once: {body!r} was delivered twice, and not marked")

    def kept(self, body: bytes, redelivered: bool) -> None:
        """A delivery of the queue that is read at the end: what is there."""
        publisher, sequence = self._known(body)
        self._kept[body] = self._kept.get(body, 0) + 1
        if self._kept[body] > 1:
            self.ledger.broken(f"exactly once: {body!r} is twice in the queue")
        if sequence < self._last.get(publisher, 0):
            self.ledger.broken(f"P4: {body!r} stands behind {self._last[publisher]}")
        self._last[publisher] = sequence

    def _known(self, body: bytes) -> tuple[bytes, int]:
        publisher, _, sequence = body.partition(b":")
        if int(sequence) not in self.sent.get(publisher.decode(), {}):
            self.ledger.broken(f"nobody sent {body!r}")
        return publisher, int(sequence)

    def finish(self) -> None:
        """All that was confirmed is there."""
        for publisher, confirmed in self.confirmed.items():
            lost = [n for n in confirmed if f"{publisher}:{n}".encode() not in self._kept]
            if lost:
                self.ledger.broken(f"P1: confirmed of {publisher}, and not there: {lost[:5]}")


class NamedSetup(Declaring):
    """Declares the exchange and the queues, however often it takes."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], plan: NamedPlan
    ) -> None:
        super().__init__(world, ledger, hosts, "named-setup")
        self.plan = plan

    def script(self) -> Script[None]:
        yield from super().script()
        while not self._may_have_names():
            yield 20 * MS

    def _declare(self) -> Script[None]:
        exchange = ExchangeDeclare(EXCHANGE, "fanout", durable=True)
        yield from self.call(exchange, ExchangeDeclareOk)
        for queue in (KEPT, WORKED):
            declare = QueueDeclare(queue, durable=True, arguments=self.plan.arguments(queue))
            yield from self.call(declare, QueueDeclareOk)
            yield from self.call(QueueBind(queue, EXCHANGE, ""), QueueBindOk)

    def _may_have_names(self) -> bool:
        """Whether all nodes know that all speak the version that has names."""
        states = [state_of(host) for host in self.hosts if host.alive]
        return all(state.map.cluster_version >= NAMED_PUBLISHERS for state in states)


class NamedPublisher(ConfirmingActor[int]):
    """Publishes in bursts, and again whatever it does not know to be taken."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], name: str, book: NamedBook,
        plan: NamedPlan, numbers: Numbers, setup: NamedSetup,
    ) -> None:  # fmt: skip
        super().__init__(world, ledger, hosts, name, numbers)
        self.few = 4 * plan.burst
        self.book = book
        self.plan = plan
        self.setup = setup
        self.sent = book.sent[name] = {}
        self.confirmed = book.confirmed[name] = {}
        dice = derive(sum(name.encode()), "sequences")
        steps = [2 if dice.random() < plan.gaps else 1 for _ in range(plan.messages)]
        self._all = [sum(steps[: place + 1]) for place in range(plan.messages)]
        #: The place of the next one to send.
        self._next = 0

    def script(self) -> Script[None]:
        yield from self.sessions(lambda: self.setup.done, self._has_more, self._publish)

    def _due(self) -> int:
        """How many of its sequences it is to have sent: once it stops, what it has begun."""
        return len(self._all) if self.goes_on() else len(self.sent)

    def _has_more(self) -> bool:
        return len(self.confirmed) < self._due()

    def _publish(self) -> Script[None]:
        plan = self.plan
        yield from self.begin_confirms()
        first = next(n for n, each in enumerate(self._all) if each not in self.confirmed)
        self._next = max(0, first - between(self.random, 0, plan.back))
        while self._next < self._due():
            self._send(min(plan.burst, self._due() - self._next))
            if plan.vanish and self.goes_on() and self.random.random() < plan.vanish:
                yield between(self.random, 0, 5) * MS
                self.drop()
                return
            yield max(1, int(plan.gap_us * 2 * self.random.random()))
            while len(self.unanswered) > self.few:
                yield 1_000 * MS
        while self.unanswered:
            yield 1_000 * MS
        yield from self.leave()

    def _send(self, count: int) -> None:
        assert self.connection is not None
        parts: list[bytes] = []
        for sequence in self._all[self._next : self._next + count]:
            self.sent[sequence] = None
            headers: FieldTable = {"x-fedq-publisher": self.name, "x-fedq-sequence": sequence}
            properties = encode_properties({"headers": headers, "delivery_mode": 2})
            body = f"{self.name}:{sequence}".encode()
            parts.append(self.message(sequence, EXCHANGE, "", properties, body))
        self._next += count
        self.note(f"publishes up to {self._all[self._next - 1]}")
        self.connection.write(b"".join(parts))

    def returned(self, body: bytes) -> None:
        self.ledger.broken(f"P6: {body!r} was returned, and the queues are there")

    def answered(self, sent: int, is_confirmed: bool) -> None:
        if is_confirmed:
            self.confirmed[sent] = None
        else:
            self.ledger.broken(f"{self.label}: {sent} was turned away")


class NamedWorker(Actor):
    """Consumes one of the queues all the time; some of it comes back."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], name: str, book: NamedBook,
        setup: NamedSetup,
    ) -> None:  # fmt: skip
        super().__init__(world, ledger, hosts, name)
        self.book = book
        self.setup = setup
        self.last_us = 0

    def script(self) -> Script[None]:
        yield from self.sessions(lambda: self.setup.done, self.goes_on, self._consume)

    def _consume(self) -> Script[None]:
        yield from self.call(BasicQos(prefetch_count=10), BasicQosOk)
        yield from self.call(BasicConsume(WORKED, "worker"), BasicConsumeOk)
        while self.goes_on():
            yield 100 * MS
        yield from self.leave()

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicDeliver) or self.connection is None:
            super().on_content(method, properties, body)
            return
        self.last_us = self.world.now_us
        self.note(f"receives {body!r} {method}")
        self.book.worked(body, method.redelivered)
        returns = self.goes_on() and self.random.random() < 0.1
        tag = method.delivery_tag
        self.connection.send(1, BasicNack(tag, False, True) if returns else BasicAck(tag))


class NamedReader(NamedWorker):
    """Reads the other one at the end, until nothing more comes."""

    def _consume(self) -> Script[None]:
        yield from self.call(BasicQos(prefetch_count=50), BasicQosOk)
        arguments: FieldTable = {"x-stream-offset": "first"} if self.setup.plan.is_stream else {}
        consume = BasicConsume(KEPT, "reader", arguments=arguments)
        yield from self.call(consume, BasicConsumeOk)
        self.last_us = self.world.now_us
        while self.world.now_us - self.last_us < _QUIET_US:
            yield 100 * MS
        yield from self.leave()
        self.stopping = True

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicDeliver) or self.connection is None:
            super().on_content(method, properties, body)
            return
        self.last_us = self.world.now_us
        self.note(f"reads {body!r} {method}")
        self.book.kept(body, method.redelivered)
        self.connection.send(1, BasicAck(method.delivery_tag))


class NamedParty:
    """All of them: they are made, brought to rest and judged together."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], plan: NamedPlan,
        numbers: Numbers,
    ) -> None:  # fmt: skip
        common = (world, ledger, hosts)
        self.book = NamedBook(ledger)
        self.setup = NamedSetup(*common, plan)
        self.senders: list[Actor] = [
            NamedPublisher(*common, f"named{number}", self.book, plan, numbers, self.setup)
            for number in range(plan.publishers)
        ]
        self.worker = NamedWorker(*common, "named-worker", self.book, self.setup)
        self._reader = NamedReader(*common, "named-reader", self.book, self.setup)

    @property
    def actors(self) -> list[Actor]:
        """Everybody but the last reader."""
        return [self.setup, *self.senders, self.worker]

    def rest(self, wait: Wait) -> bool:
        """All is published: it is read, and judged."""
        reader, worker = self._reader, self.worker
        reader.start()
        if not wait("what publishers with names sent is read", lambda: reader.done):
            return False

        def is_quiet() -> bool:
            return worker.world.now_us - worker.last_us > _QUIET_US

        if not wait("what publishers with names sent is worked off", is_quiet):
            return False
        worker.stopping = True
        worker.wake()
        self.book.finish()
        return wait("the worker leaves", lambda: worker.done)
