"""Clients that publish in confirm mode: what they share, whatever they send and report to whom."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from fedq.amqp.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
)
from tests.sim.actors import Actor, Script
from tests.sim.checkers import Ledger
from tests.sim.client_connection import Content
from tests.sim.node_host import Host
from tests.sim.world import MS, World, between

#: What stands for a publish until it is answered.
Sent = TypeVar("Sent")


class Numbers:
    """Message numbers, unique in a run."""

    def __init__(self) -> None:
        self.last = 0

    def take(self) -> int:
        """The next one."""
        self.last += 1
        return self.last


class ConfirmingActor(Actor, Generic[Sent]):
    """Publishes in confirm mode, always mandatory, and hears what became of each message."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], name: str, numbers: Numbers
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.numbers = numbers
        self.unanswered: dict[int, Sent] = {}
        #: With so many unanswered ones its script goes on.
        self.few = 0
        self._tag = 0

    def begin_confirms(self) -> Script[None]:
        """Turns them on for a new connection; what is still unanswered is unknown for ever."""
        yield from self.call(ConfirmSelect(), ConfirmSelectOk)
        self._tag = 0
        self.unanswered = {}

    def message(self, sent: Sent, exchange: str, key: str, properties: bytes, body: bytes) -> bytes:
        """A publish to be written, of which `answered` is going to hear."""
        assert self.connection is not None
        self._tag += 1
        self.unanswered[self._tag] = sent
        return self.connection.publish(1, exchange, key, True, properties, body)

    def answered(self, sent: Sent, is_confirmed: bool) -> None:
        """A publish is confirmed, or turned away."""
        raise NotImplementedError

    def returned(self, body: bytes) -> None:
        """A publish came back: it fits no queue."""
        self.ledger.returned(body)

    def on_other(self, channel: int, method: Method) -> None:
        if not isinstance(method, BasicAck | BasicNack):
            super().on_other(channel, method)
            return
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self.unanswered if tag <= method.delivery_tag]
        for tag in tags:
            if tag in self.unanswered:
                self.answered(self.unanswered.pop(tag), isinstance(method, BasicAck))
            else:
                self.ledger.broken(f"{self.label}: confirm of unknown tag {tag}")
        if self.world.trace.on:
            self.note(f"hears {method}")
        if len(self.unanswered) <= self.few:
            self.wake()

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if isinstance(method, BasicReturn):
            self.returned(body)
        else:
            super().on_content(method, properties, body)


class Bursts(Protocol):
    """How a publisher goes about it."""

    @property
    def messages(self) -> int: ...
    @property
    def burst(self) -> int: ...
    @property
    def gap_us(self) -> int: ...
    @property
    def vanish(self) -> float:
        """The chance that it drops its connection after a burst."""


class BurstPublisher(ConfirmingActor[Sent]):
    """Publishes in bursts, with gaps between them and a bound on what is unanswered.

    It never sleeps on a promise: what is unconfirmed when a connection is lost stays unknown, and
    it goes on elsewhere with new messages.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        bursts: Bursts,
        numbers: Numbers,
    ) -> None:
        super().__init__(world, ledger, hosts, name, numbers)
        self._bursts = bursts
        self.few = 4 * bursts.burst
        self.sent = 0

    #: Whether confirms do not make it faster than it was to be.
    keeps_pace = False
    #: After so many bursts it leaves in order, and goes on elsewhere; 0: it stays.
    session_bursts = 0

    def is_ready(self) -> bool:
        """Whether what it publishes to is there."""
        raise NotImplementedError

    def send(self, count: int) -> None:
        """Publishes so many."""
        raise NotImplementedError

    def script(self) -> Script[None]:
        yield from self.sessions(self.is_ready, self._has_more, self._publish)

    def _has_more(self) -> bool:
        return self.sent < self._bursts.messages and self.goes_on()

    def _publish(self) -> Script[None]:
        bursts = self._bursts
        yield from self.begin_confirms()
        count = 0
        while self._has_more() and not 0 < self.session_bursts <= count:
            count += 1
            self.send(min(bursts.burst, bursts.messages - self.sent))
            if bursts.vanish and self.random.random() < bursts.vanish:
                yield between(self.random, 0, 5) * MS
                self.drop()
                return
            gap_us = max(1, int(bursts.gap_us * 2 * self.random.random()))
            due_us = self.world.now_us + gap_us
            yield gap_us
            # Confirms wake it.
            while self.keeps_pace and self.world.now_us < due_us:
                yield due_us - self.world.now_us
            while len(self.unanswered) > self.few:
                yield 1_000 * MS
        while self.unanswered:
            yield 1_000 * MS
        yield from self.leave()
