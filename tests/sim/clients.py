"""The programs that a run's users run: set-up, confirming publishers, consumers, getters.

Each reports to the ledger what it did and saw, at the moment it saw it. None of them ever sleeps on
a promise: a publisher that loses its connection leaves its unconfirmed messages unknown and goes on
elsewhere with new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
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
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.sim.actors import RETRYABLE, Actor, ClosedError, LostError, Script
from tests.sim.checkers import Attempt, Copy, Ledger
from tests.sim.client_connection import Content, make_properties
from tests.sim.confirming import BurstPublisher, Numbers
from tests.sim.inspect_node import has_unserved, state_of
from tests.sim.node_host import Host
from tests.sim.topology import Topology
from tests.sim.world import MS, World


class Setup(Actor):
    """Declares the whole topology, however often it takes."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], topology: Topology
    ) -> None:
        super().__init__(world, ledger, hosts, "setup")
        self.topology = topology

    def script(self) -> Script[None]:
        while not self.topology.ready:
            try:
                yield from self.connect()
                yield from self._declare()
                self.topology.ready = True
                yield from self.leave()
            except (LostError, ClosedError) as error:
                if isinstance(error, ClosedError) and error.refusal.code not in RETRYABLE:
                    self.ledger.broken(f"a declaration was refused: {error.refusal}")
                    return
                yield 100 * MS

    def _declare(self) -> Script[None]:
        for queue in self.topology.queues.values():
            arguments = queue.arguments()
            declare = QueueDeclare(queue.name, durable=queue.durable, arguments=arguments)
            yield from self.call(declare, QueueDeclareOk)
        for exchange in self.topology.exchanges.values():
            yield from self.call(
                ExchangeDeclare(exchange.name, exchange.kind, durable=exchange.durable),
                ExchangeDeclareOk,
            )
            for name, key in exchange.bindings:
                yield from self.call(QueueBind(name, exchange.name, key), QueueBindOk)


@dataclass(frozen=True, slots=True)
class PublisherPlan:
    """What a publisher sends, and how."""

    exchange: str
    keys: tuple[str, ...]
    messages: int
    burst: int
    gap_us: int
    persistent: float
    body_bytes: int
    #: The chance that it drops its connection after a burst.
    vanish: float = 0.0
    #: After so many bursts it leaves in order, and goes on elsewhere; 0: it stays.
    session_bursts: int = 0


class Publisher(BurstPublisher[Attempt]):
    """Publishes to exchanges and queues of the topology: what fits no queue must come back."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        topology: Topology,
        plan: PublisherPlan,
        numbers: Numbers,
    ) -> None:
        super().__init__(world, ledger, hosts, name, plan, numbers)
        self.topology = topology
        self.plan = plan
        self.session_bursts = plan.session_bursts

    def is_ready(self) -> bool:
        return self.topology.ready

    def uses_transient(self) -> bool:
        if self.plan.exchange:
            return not self.topology.exchanges[self.plan.exchange].durable
        return any(not self.topology.queues[key].durable for key in self.plan.keys)

    def send(self, count: int) -> None:
        plan, connection = self.plan, self.connection
        assert connection is not None
        parts: list[bytes] = []
        for _ in range(count):
            number = self.numbers.take()
            key = plan.keys[self.sent % len(plan.keys)]
            self.sent += 1
            body = b"%d:" % number + bytes([number % 251]) * plan.body_bytes
            persistent = self.random.random() < plan.persistent
            must, may = self.topology.targets(plan.exchange, key)
            attempt = self.ledger.published(
                self.label, body, persistent, must, may, plan.exchange, key
            )
            properties = make_properties(str(number), persistent)
            parts.append(self.message(attempt, plan.exchange, key, properties, body))
        if self.world.trace.on:
            self.note(f"publishes {self.numbers.last - count + 1}..{self.numbers.last}")
        connection.write(b"".join(parts))

    def answered(self, sent: Attempt, is_confirmed: bool) -> None:
        if is_confirmed:
            self.ledger.confirmed(sent)
        else:
            self.ledger.nacked(sent)


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """How a consumer works. Chances are per delivery or per look."""

    queue: str
    prefetch: int
    no_ack: bool
    #: How long a message is worked on.
    work_us: int
    requeue: float = 0.0
    reject: float = 0.0
    multiple: float = 0.0
    vanish: float = 0.0
    cancel: float = 0.0


class Consumer(Actor):
    """Consumes until it is told to stop; then it acknowledges what it has and leaves."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        topology: Topology,
        plan: ConsumerPlan,
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.topology = topology
        self.plan = plan
        #: When it last received something.
        self.last_us = 0
        self._tag = ""
        self._working: dict[int, Copy | None] = {}
        self._last_tag = 0

    def script(self) -> Script[None]:
        yield from self.sessions(lambda: self.topology.ready, self.goes_on, self._consume)

    def uses_transient(self) -> bool:
        return not self.topology.queues[self.plan.queue].durable

    def _consume(self) -> Script[None]:
        plan = self.plan
        self._working = {}
        self._last_tag = 0
        if plan.prefetch:
            yield from self.call(BasicQos(0, plan.prefetch, False), BasicQosOk)
        self._tag = f"{self.label}-tag"
        yield from self.call(
            BasicConsume(plan.queue, self._tag, no_ack=plan.no_ack), BasicConsumeOk
        )
        while self.goes_on():
            yield 100 * MS
            if plan.vanish and self.random.random() < plan.vanish:
                self.drop()
                raise LostError("vanished on purpose")
            if plan.cancel and self.random.random() < plan.cancel:
                break
        yield from self.call(BasicCancel(self._tag), BasicCancelOk)
        while self._working:
            yield 100 * MS
        yield from self.leave()

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicDeliver):
            super().on_content(method, properties, body)
            return
        if method.delivery_tag != self._last_tag + 1 or method.consumer_tag != self._tag:
            self.ledger.broken(f"{self.label}: delivery {method} after tag {self._last_tag}")
        self._last_tag = method.delivery_tag
        self.last_us = self.world.now_us
        plan = self.plan
        if self.world.trace.on:
            self.note(f"receives {body[:12]!r} {method}")
        copy = self.ledger.delivered(
            plan.queue, self.label, self._tag, properties, body, method.redelivered, plan.no_ack
        )
        if plan.no_ack:
            return
        self._working[method.delivery_tag] = copy
        if plan.prefetch and len(self._working) > plan.prefetch:
            self.ledger.broken(f"{self.label}: {len(self._working)} unacknowledged, prefetch "
                               f"{plan.prefetch}")  # fmt: skip
        label, tag = self.label, method.delivery_tag
        self.world.after(
            int(plan.work_us * (0.5 + self.random.random())), lambda: self._settle(label, tag)
        )

    def _settle(self, label: str, tag: int) -> None:
        connection = self.connection
        if self.label != label or connection is None or tag not in self._working:
            return
        plan, chance = self.plan, self.random.random()
        if chance < plan.requeue:
            self._requeued(tag)
            connection.send(1, BasicNack(tag, False, True))
        elif chance < plan.requeue + plan.reject:
            self._acked(tag)
            connection.send(1, BasicReject(tag, False))
        elif chance < plan.requeue + plan.reject + plan.multiple:
            for each in [each for each in self._working if each <= tag]:
                self._acked(each)
            connection.send(1, BasicAck(tag, True))
        else:
            self._acked(tag)
            connection.send(1, BasicAck(tag, False))
        if not self._working:
            self.wake()

    def _acked(self, tag: int) -> None:
        copy = self._working.pop(tag)
        self.note(f"acks {tag}")
        if copy is not None:
            self.ledger.acked(copy, self.label)

    def _requeued(self, tag: int) -> None:
        copy = self._working.pop(tag)
        self.note(f"requeues {tag}")
        if copy is not None:
            self.ledger.requeued(copy, self.label)


@dataclass(frozen=True, slots=True)
class GetterPlan:
    """How a getter works; it is meant to be the only one on its queue."""

    queue: str
    gap_us: int
    alone: bool
    #: Nobody else takes from it and it has one fragment: what is given back comes next.
    in_order: bool
    requeue: float = 0.0


class Getter(Actor):
    """Takes one message at a time with basic.get."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        topology: Topology,
        plan: GetterPlan,
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.topology = topology
        self.plan = plan
        #: When a get was last lost on its way: its message comes back only a while later.
        self._lost_us = -1 << 60
        #: What was given back last, and when.
        self._returned: tuple[Copy, int] | None = None

    def script(self) -> Script[None]:
        yield from self.sessions(lambda: self.topology.ready, self.goes_on, self._get_all)

    def _get_all(self) -> Script[None]:
        try:
            while self.goes_on():
                yield from self._get()
                yield max(1, int(self.plan.gap_us * 2 * self.random.random()))
            yield from self.leave()
        except LostError:
            self._lost_us = self.world.now_us
            raise

    def uses_transient(self) -> bool:
        return not self.topology.queues[self.plan.queue].durable

    def _get(self) -> Script[None]:
        plan, asked_us = self.plan, self.world.now_us
        short, sessions = self._is_short(), self._sessions()
        get = BasicGet(plan.queue)
        answer = yield from self.ask(get, BasicGetOk, BasicGetEmpty)
        if isinstance(answer, BasicGetEmpty):
            missed = self.ledger.surely_ready(plan.queue, asked_us)
            excused = not plan.alone or asked_us - self._lost_us < 3_000 * MS
            # Whoever was given up meanwhile, and is back, was left out for a while.
            short = short or self._is_short() or sessions != self._sessions()
            if missed and not (excused or short):
                self.ledger.broken(f"P5: {self.label} got empty: {missed[0].describe()}")

    def _is_short(self) -> bool:
        """A fragment that only a node that is down could serve is left out of the answer."""
        connection = self.connection
        return connection is None or has_unserved(connection.host, self.plan.queue)

    def _sessions(self) -> list[object]:
        """The sessions of its node with the others."""
        connection = self.connection
        if connection is None or connection.host.machine is None:
            return []
        peers = state_of(connection.host).peers
        return [peer.link.session for peer in peers.values()]

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicGetOk):
            super().on_content(method, properties, body)
            return
        plan, connection = self.plan, self.connection
        if self.world.trace.on:
            self.note(f"gets {body[:12]!r} {method}")
        copy = self.ledger.delivered(
            plan.queue, self.label, "get", properties, body, method.redelivered, False
        )
        if copy is None or connection is None:
            return
        self._check_place(copy)
        if self.random.random() < plan.requeue and self.goes_on():
            self._returned = copy, self.world.now_us
            self.ledger.requeued(copy, self.label)
            connection.send(1, BasicNack(method.delivery_tag, False, True))
        else:
            self.ledger.acked(copy, self.label)
            connection.send(1, BasicAck(method.delivery_tag, False))
        self.on_method(1, method)

    def _check_place(self, copy: Copy) -> None:
        """P2: what was given back is at its old place, so it comes before all the rest."""
        returned, self._returned = self._returned, None
        if returned is None or not self.plan.in_order or returned[0] is copy:
            return
        if not self.ledger.fault_between(returned[1] - 1_000 * MS, self.world.now_us):
            self.ledger.broken(f"P2: {self.label} gave back {returned[0].describe()}, but next "
                               f"came {copy.describe()}")  # fmt: skip
