"""Many subscribers in one loop: each has a connection, and a server-named exclusive queue.

In: where brokers are, how many subscribers, and calls of `turn` whenever `fileno` is readable, or
some time has gone by. Out: lives in a book, deliveries in a tally. It opens, reads, comes back when
a connection is lost, and never waits. It knows nothing of Locust and gevent: poll objects, the
class of sockets and the clock are given.

Slow subscribers are read a little at a time, at long intervals, from a small buffer: what is sent
to them waits in the system's buffers, then in the broker.
"""

import os
import select
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fedq.amqp import methods
from fedq.amqp.values import FieldTable
from fedq.bench.blocks import CHANNEL
from fedq.bench.columns import Batch, Reader
from fedq.bench.opening import BrokerFailure, Opener, Opening, Step, goodbye, refusal_of
from fedq.bench.plan import Target
from fedq.bench.scripts import tag_of
from fedq.core.errors import ConnectionViolation
from loadtests.locust.lives import Book, End, Life
from loadtests.locust.tally import Tally

READ_BYTES: Final = 1 << 16
SLOW_READ_BYTES: Final = 2_048
SLOW_BUFFER_BYTES: Final = 4_096
SECOND_NS: Final = 1_000_000_000
#: How long a subscriber waits before it tries again, the first time and at most.
PAUSE_NS: Final = SECOND_NS // 2
PAUSE_NS_MAX: Final = 8 * SECOND_NS
#: Reads in one turn; others in the process want to run, too.
READS_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What all subscribers of a fleet have in common."""

    targets: tuple[Target, ...]
    exchange: str
    publishers: int
    #: The address to connect from; "" leaves it to the system.
    source: str = ""
    queue_arguments: Mapping[str, bool | int | str] = field(default_factory=dict)
    #: Of a hundred thousand subscribers how many read slowly, and how often these read.
    slow_per_100_000: int = 0
    slow_pause_s: float = 1.0
    patience_s: float = 60.0

    def is_slow(self, number: int) -> bool:
        """Whether the subscriber with this number reads slowly: evenly spread over all numbers."""
        share = self.slow_per_100_000
        return (number + 1) * share // 100_000 > number * share // 100_000


def subscribing(plan: FleetPlan) -> tuple[Step, ...]:
    """The requests by which a connection becomes a subscriber: `""` is the queue last declared."""
    arguments: FieldTable = dict(plan.queue_arguments)
    declare = methods.QueueDeclare("", exclusive=True, arguments=arguments)
    consume = methods.BasicConsume("", tag_of(0).decode(), no_ack=True)
    return (
        Step(CHANNEL, methods.ChannelOpen(), methods.ChannelOpenOk),
        Step(CHANNEL, declare, methods.QueueDeclareOk),
        Step(CHANNEL, methods.QueueBind("", plan.exchange), methods.QueueBindOk),
        Step(CHANNEL, consume, methods.BasicConsumeOk),
    )


class _Subscriber:
    """One subscriber, connected or not."""

    __slots__ = ("attempts", "life", "number", "reader", "socket", "wanted")

    def __init__(self, number: int) -> None:
        self.number = number
        #: How often in a row it was refused, or lost its connection soon.
        self.attempts = 0
        self.socket: socket.socket | None = None
        self.reader = Reader()
        self.life: Life | None = None
        #: It is to come back when its connection is gone.
        self.wanted = True


class Fleet:
    """The subscribers of one loop."""

    def __init__(
        self, plan: FleetPlan, numbers: range, book: Book, tally: Tally, clock: Callable[[], int],
        epoll: "Callable[[], select.epoll]", make: type[socket.socket],
    ) -> None:  # fmt: skip
        """`numbers`: of its subscribers, different from those of other fleets; opened at once."""
        self._plan = plan
        self._book = book
        self._tally = tally
        self._clock = clock
        self._steps = subscribing(plan)
        self._poll = epoll()
        self._opener = Opener((), plan.patience_s, epoll(), make)
        self._poll.register(self._opener.fileno(), select.EPOLLIN)
        self._by_descriptor: dict[int, _Subscriber] = {}
        #: Those who try again, and slow ones: (when, subscriber), in order of their times.
        self._coming: deque[tuple[int, _Subscriber]] = deque()
        self._slow: deque[tuple[int, _Subscriber]] = deque()
        self._all = [_Subscriber(number) for number in numbers]
        #: What was read last, and what it meant: most subscribers get the same bytes.
        self._last: tuple[bytes, Batch] = b"", Batch()
        for subscriber in self._all:
            self._open(subscriber)

    def fileno(self) -> int:
        """What becomes readable when there is something to do."""
        return self._poll.fileno()

    @property
    def live(self) -> int:
        """How many are subscribed."""
        return sum(subscriber.life is not None for subscriber in self._all)

    @property
    def opening(self) -> int:
        """How many are on their way."""
        return self._opener.waiting + len(self._coming)

    def turn(self) -> None:
        """Does what is to be done now, without waiting."""
        now_ns = self._clock()
        while self._coming and self._coming[0][0] <= now_ns:
            self._open(self._coming.popleft()[1])
        if not self._opener.is_done:
            self._opener.turn(0)
        for descriptor, _ in self._poll.poll(0, READS_MAX):
            subscriber = self._by_descriptor.get(descriptor)
            if subscriber is not None:
                self._read(subscriber, READ_BYTES)
        while self._slow and self._slow[0][0] <= now_ns:
            subscriber = self._slow.popleft()[1]
            if subscriber.socket is not None:
                self._read(subscriber, SLOW_READ_BYTES)
                self._rest(subscriber, now_ns)

    def renew(self, count: int) -> None:
        """Closes so many connections, those that are oldest in the order, and opens them anew."""
        for subscriber in self._all[:count]:
            if subscriber.life is not None:
                self._leave(subscriber, End.CLOSED)
                self._come_back(subscriber, 0)
        self._all = self._all[count:] + self._all[:count]

    def close(self) -> None:
        """Ends all subscribers and the loop's own descriptors; again, nothing."""
        if self._poll.closed:
            return
        self._coming.clear()
        for subscriber in self._all:
            subscriber.wanted = False
            if subscriber.life is not None:
                self._leave(subscriber, End.CLOSED)
        self._opener.close()
        self._poll.close()

    # --- coming and going -------------------------------------------------------------------------

    def _open(self, subscriber: _Subscriber) -> None:
        plan = self._plan
        targets = plan.targets

        def ready(connected: socket.socket) -> None:
            self._begin(subscriber, connected)

        def more(data: bytes) -> None:
            self._take(subscriber, data)

        def failed(failure: BrokerFailure) -> None:
            self._tally.failures[str(failure)[:200]] += 1
            self._come_back(subscriber, 1)

        self._opener.add(
            Opening(
                targets[(subscriber.number + subscriber.attempts) % len(targets)],
                "a subscriber", self._steps, ready, plan.source, more, failed,
                SLOW_BUFFER_BYTES if plan.is_slow(subscriber.number) else 0,
            )
        )  # fmt: skip

    def _begin(self, subscriber: _Subscriber, connected: socket.socket) -> None:
        now_ns = self._clock()
        is_slow = self._plan.is_slow(subscriber.number)
        subscriber.socket = connected
        subscriber.reader = Reader()
        subscriber.life = Life(now_ns, self._plan.publishers, is_slow)
        self._book.begin(subscriber.life)
        self._by_descriptor[connected.fileno()] = subscriber
        if is_slow:
            self._rest(subscriber, now_ns)
        else:
            self._poll.register(connected, select.EPOLLIN)

    def _rest(self, subscriber: _Subscriber, now_ns: int) -> None:
        if subscriber.socket is not None:
            pause_ns = int(self._plan.slow_pause_s * SECOND_NS)
            self._slow.append((now_ns + pause_ns, subscriber))

    def _leave(self, subscriber: _Subscriber, end: End) -> None:
        """Ends a subscriber's connection, and its life."""
        assert subscriber.socket is not None
        assert subscriber.life is not None
        descriptor = subscriber.socket.fileno()
        del self._by_descriptor[descriptor]
        if not subscriber.life.is_slow:
            self._poll.unregister(descriptor)
        goodbye(subscriber.socket)
        self._book.end(subscriber.life, end, self._clock())
        subscriber.socket = subscriber.life = None

    def _come_back(self, subscriber: _Subscriber, more: int) -> None:
        if not subscriber.wanted:
            return
        if not more:
            self._open(subscriber)
            return
        subscriber.attempts += more
        pause_ns = min(PAUSE_NS << min(subscriber.attempts - 1, 5), PAUSE_NS_MAX)
        self._coming.append((self._clock() + pause_ns, subscriber))

    def _break(self, subscriber: _Subscriber, why: str) -> None:
        self._tally.failures[why] += 1
        self._leave(subscriber, End.BROKEN)
        self._come_back(subscriber, 1)

    # --- deliveries -------------------------------------------------------------------------------

    def _read(self, subscriber: _Subscriber, most: int) -> None:
        assert subscriber.socket is not None
        try:
            data = os.read(subscriber.socket.fileno(), most)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(subscriber, f"a connection was lost: {error.strerror}")
            return
        if data:
            self._take(subscriber, data)
        else:
            self._break(subscriber, "the broker hung up")

    def _take(self, subscriber: _Subscriber, data: bytes) -> None:
        life, reader = subscriber.life, subscriber.reader
        assert life is not None
        seen, batch = self._last
        if reader.partial or data != seen:
            try:
                batch = reader.take(data)
            except ConnectionViolation as violation:
                self._break(subscriber, f"a broken stream: {violation.text}")
                return
            if not batch.methods and not reader.partial:
                self._last = data, batch
        if batch.numbers:
            life.take(batch.numbers)
            if not life.is_slow:
                self._tally.delivered(batch.numbers, batch.times, self._clock())
        for method in batch.methods:
            if text := refusal_of(method):
                self._break(subscriber, text)
                return
