"""Subscribers with private queues, and a program that makes, empties and deletes shared queues.

Both are about the wiring (P5, P6): what is answered with `-ok` is in force on every node, what was
deleted stays deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from fedq.core.errors import NOT_FOUND
from tests.sim.actors import PATIENCE_US, Actor, ClosedError, LostError, Script
from tests.sim.checkers import Attempt, Ledger
from tests.sim.client_connection import Content, make_properties
from tests.sim.confirming import ConfirmingActor, Numbers
from tests.sim.node_host import Host
from tests.sim.topology import Subscription, Topology, matches
from tests.sim.world import MS, World, between


@dataclass(frozen=True, slots=True)
class SubscriberPlan:
    """What a subscriber hears."""

    exchange: str
    key: str
    no_ack: bool
    #: The chance, looked at every 100 ms, that it drops its connection and subscribes anew.
    vanish: float = 0.0


class Subscriber(Actor):
    """An exclusive server-named queue, bound once, consumed until the end."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        topology: Topology,
        plan: SubscriberPlan,
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.topology = topology
        self.plan = plan
        self.subscription: Subscription | None = None

    def script(self) -> Script[None]:
        while not self.topology.ready:
            yield 20 * MS
        while self.goes_on():
            try:
                yield from self.connect()
                yield from self._subscribe()
                while self.goes_on():
                    yield 100 * MS
                    if self.plan.vanish and self.random.random() < self.plan.vanish:
                        self.drop()
                        break
            except LostError:
                yield between(self.random, 1, 50) * MS
            except ClosedError as error:
                yield from self.excuse(error)
            if not self.stopping:
                self._end_subscription()
        yield from self.leave()

    def uses_transient(self) -> bool:
        return not self.topology.exchanges[self.plan.exchange].durable

    def _subscribe(self) -> Script[None]:
        plan = self.plan
        declared = yield from self.call(QueueDeclare("", exclusive=True), QueueDeclareOk)
        self.ledger.declared(declared.queue, False, 1, private=True)
        subscription = Subscription(declared.queue, plan.exchange, plan.key)
        self.subscription = subscription
        self.topology.subscriptions.append(subscription)
        self.ledger.subscribing(declared.queue, self._hears)
        consume = BasicConsume(declared.queue, "sub", no_ack=plan.no_ack)
        yield from self.call(consume, BasicConsumeOk)
        yield from self.call(QueueBind(declared.queue, plan.exchange, plan.key), QueueBindOk)
        subscription.since_us = self.world.now_us
        self.note(f"subscribed with {declared.queue}")

    def _hears(self, exchange: str, key: str) -> bool:
        kind = self.topology.exchanges[self.plan.exchange].kind
        return exchange == self.plan.exchange and matches(kind, self.plan.key, key)

    def _end_subscription(self) -> None:
        if self.subscription is not None:
            self.subscription.ended = True
            self.subscription = None

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicDeliver) or self.subscription is None:
            super().on_content(method, properties, body)
            return
        queue, no_ack = self.subscription.queue, self.plan.no_ack
        copy = self.ledger.delivered(
            queue, self.label, "sub", properties, body, method.redelivered, no_ack
        )
        if not no_ack and self.connection is not None:
            if copy is not None:
                self.ledger.acked(copy, self.label)
            self.connection.send(1, BasicAck(method.delivery_tag, False))

    def check(self) -> None:
        """At rest: everything confirmed since it subscribed has come, once."""
        subscription = self.subscription
        if subscription is None or subscription.since_us is None or self.connection is None:
            return
        for copy in self.ledger.queues[subscription.queue].copies.values():
            confirmed = copy.attempt.confirmed_us is not None
            if confirmed and not copy.optional and not copy.deliveries:
                self.ledger.broken(f"P1: a subscriber missed {copy.describe()}")


class Churn(ConfirmingActor[Attempt]):
    """Declares a queue through one node, uses it through others, deletes it, and looks again."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        topology: Topology,
        numbers: Numbers,
        rounds: int,
    ) -> None:
        super().__init__(world, ledger, hosts, name, numbers)
        self.topology = topology
        self.rounds = rounds
        #: Queues of rounds given up, that are there to stay.
        self.leftover: list[str] = []
        # How far the present round is.
        self._declared = False
        self._deleting = False
        self._doubtful = False

    def script(self) -> Script[None]:
        while not self.topology.ready:
            yield 20 * MS
        for number in range(self.rounds):
            if self.stopping:
                return
            name = f"{self.name}-{number}"
            self.ledger.declared(name, True, min(2, len(self.hosts)))
            try:
                yield from self._round(name)
            except LostError:
                self._give_up(name)
                yield between(self.random, 1, 50) * MS
            except ClosedError as error:
                self._give_up(name)
                yield from self.excuse(error)

    def _give_up(self, name: str) -> None:
        """The round ends early: what it made stays, unless its end was asked for already."""
        if self._doubtful:
            self.ledger.doubtful(name)
        if self._declared and not self._deleting:
            self.leftover.append(name)

    def _round(self, name: str) -> Script[None]:
        """A round is given up at the first lost connection; its queue may stay behind."""
        self._declared = self._deleting = self._doubtful = False
        yield from self.connect()
        yield from self.call(QueueDeclare(name, durable=True), QueueDeclareOk)
        self._declared = True
        yield from self.leave()
        yield from self.connect()
        # P6: any node knows it now.
        passive = QueueDeclare(name, passive=True)
        yield from self.call(passive, QueueDeclareOk)
        yield from self._publish(name, between(self.random, 1, 10))
        if self.random.random() < 0.5:
            due = self.ledger.purge_asked(name)
            self._doubtful = True
            purged = yield from self.call(QueuePurge(name), QueuePurgeOk)
            if self.ledger.faultless and purged.message_count != len(due):
                self.ledger.broken(f"P5: purge of {name}: {purged.message_count} of {len(due)}")
            self.ledger.purged(due)
            self._doubtful = False
            counted = yield from self.call(passive, QueueDeclareOk)
            if counted.message_count and self.ledger.faultless:
                self.ledger.broken(f"P5: {name} has {counted.message_count} after its purge")
            yield from self._publish(name, between(self.random, 1, 5))
        yield from self.leave()
        yield from self.connect()
        self._doubtful = self._deleting = True
        yield from self.call(QueueDelete(name), QueueDeleteOk)
        self.ledger.deleted(name)
        self._doubtful = False
        yield from self.leave()
        yield from self._look_for(name)

    def _publish(self, name: str, count: int) -> Script[None]:
        connection = self.connection
        if connection is None:
            raise LostError("gone")
        if not self._confirming:
            yield from self.begin_confirms()
            self._confirming_on = self.label
        for _ in range(count):
            number = self.numbers.take()
            body = b"%d:churn" % number
            attempt = self.ledger.published(self.label, body, True, [name])
            properties = make_properties(str(number), True)
            connection.write(self.message(attempt, "", name, properties, body))
        deadline_us = self.world.now_us + PATIENCE_US
        while self.unanswered:
            if self.world.now_us > deadline_us:
                self.ledger.unanswered(self.label, "publish")
                self.drop()
                raise LostError("no confirm")
            yield 500 * MS

    _confirming_on = ""

    @property
    def _confirming(self) -> bool:
        return self._confirming_on == self.label

    def _look_for(self, name: str) -> Script[None]:
        """P6: after delete-ok no node knows it any more."""
        yield from self.connect()
        try:
            yield from self.call(QueueDeclare(name, passive=True), QueueDeclareOk)
        except ClosedError as error:
            if error.refusal.code == NOT_FOUND:
                return
            raise
        self.ledger.broken(f"P6: {name} is there after delete-ok")

    def answered(self, sent: Attempt, is_confirmed: bool) -> None:
        if is_confirmed:
            self.ledger.confirmed(sent)
        else:
            self.ledger.nacked(sent)
