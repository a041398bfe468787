"""The publishers of a run in one loop: paced, with confirms, and back when their broker dies.

In: a plan, calls of `turn`. Out: notes of what was sent (`Sends`), counts on a board. A publisher
whose connection is lost goes to the next broker, goes on counting where it was, and what it had no
confirm of is unsettled. Messages held back by the broker count as sent when they were due.
"""

import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fedq.amqp import methods
from fedq.bench.blocks import CHANNEL, Shape
from fedq.bench.board import Board
from fedq.bench.clients import Measure, Producer
from fedq.bench.opening import BrokerFailure, Opener, Opening, Step, goodbye
from fedq.bench.pacing import Pace
from fedq.bench.plan import Target
from loadtests.locust.fleet import PAUSE_NS, SECOND_NS
from loadtests.locust.sends import NotedBlock, Sends
from loadtests.locust.tally import Tally

#: Messages of a round of a block, and twice that: a round may begin anywhere.
_ROUND: Final = 256
_WINDOW: Final = 1_000
_WITHOUT_BOUND: Final = 1 << 40
_STEPS: Final = (
    Step(CHANNEL, methods.ChannelOpen(), methods.ChannelOpenOk),
    Step(CHANNEL, methods.ConfirmSelect(), methods.ConfirmSelectOk),
)


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What publishers do: messages a second in all, bytes of each."""

    targets: tuple[Target, ...]
    exchange: str
    publishers: int
    rate: float
    body_bytes: int
    source: str = ""
    patience_s: float = 30.0


class _Publisher:
    """One publisher, connected or not."""

    __slots__ = ("attempts", "block", "number", "producer", "wanted_ns")

    def __init__(self, number: int) -> None:
        self.number = number
        self.attempts = 0
        self.block: NotedBlock | None = None
        self.producer: Producer | None = None
        #: When it is to be opened; None: it is, or is being opened.
        self.wanted_ns: int | None = 0


class Publishers:
    """All publishers of the run."""

    def __init__(
        self, plan: PublishPlan, sends: dict[int, Sends], board: Board, tally: Tally,
        clock: Callable[[], int], epoll: "Callable[[], select.epoll]",
        make: type[socket.socket],
    ) -> None:  # fmt: skip
        self._plan = plan
        self._sends = sends
        self._tally = tally
        self._clock = clock
        self._measure = Measure(board, 0)
        self._measure.confirms = tally.confirms
        self._measure.is_on = True
        self._poll = epoll()
        self._opener = Opener((), plan.patience_s, epoll(), make)
        self._poll.register(self._opener.fileno(), select.EPOLLIN)
        self._by_descriptor: dict[int, _Publisher] = {}
        self._all = [_Publisher(number) for number in range(plan.publishers)]
        for publisher in self._all:
            sends.setdefault(publisher.number, Sends())

    def fileno(self) -> int:
        """What becomes readable when there is something to read."""
        return self._poll.fileno()

    def turn(self, may_publish: bool) -> int:
        """Does what is to be done now; returns when to come again at the latest, in nanoseconds."""
        now_ns = self._clock()
        again_ns = now_ns + SECOND_NS // 10
        for publisher in self._all:
            if publisher.wanted_ns is not None and publisher.wanted_ns <= now_ns:
                publisher.wanted_ns = None
                self._open(publisher)
        if not self._opener.is_done:
            self._opener.turn(0)
        for descriptor, events in self._poll.poll(0):
            publisher_or_none = self._by_descriptor.get(descriptor)
            if publisher_or_none is not None:
                self._hear(publisher_or_none, events, now_ns)
        for publisher in self._all:
            if publisher.producer is not None and may_publish:
                again_ns = min(again_ns, self._send(publisher, publisher.producer, now_ns))
        return again_ns

    def close(self) -> None:
        """Ends all publishers; what is unconfirmed is unsettled. Again, nothing."""
        if self._poll.closed:
            return
        for publisher in self._all:
            if publisher.producer is not None:
                self._lose(publisher)
        self._opener.close()
        self._poll.close()

    def _open(self, publisher: _Publisher) -> None:
        plan = self._plan

        def ready(connected: socket.socket) -> None:
            sends = self._sends[publisher.number]
            shape = Shape(plan.exchange, "", plan.body_bytes)
            block = NotedBlock(publisher.number, [shape] * _ROUND, sends, self._clock)
            producer = Producer(
                connected, f"publisher {publisher.number}", self._measure, block,
                [0] * (2 * _ROUND), _WINDOW,
            )  # fmt: skip
            each = plan.rate / plan.publishers
            shift_ns = int(SECOND_NS / plan.rate * publisher.number)
            producer.start(Pace(each, self._clock() + shift_ns))
            publisher.block, publisher.producer = block, producer
            self._by_descriptor[connected.fileno()] = publisher
            self._poll.register(connected, select.EPOLLIN)

        def failed(failure: BrokerFailure) -> None:
            self._fail(publisher, failure)

        target = plan.targets[(publisher.number + publisher.attempts) % len(plan.targets)]
        who = f"publisher {publisher.number}"
        self._opener.add(Opening(target, who, _STEPS, ready, plan.source, on_failed=failed))

    def _hear(self, publisher: _Publisher, events: int, now_ns: int) -> None:
        producer = publisher.producer
        assert producer is not None
        try:
            if events & select.EPOLLOUT and producer.flush():
                self._poll.modify(producer.socket, select.EPOLLIN)
            if events & ~select.EPOLLOUT:
                producer.on_readable(now_ns)
        except BrokerFailure as failure:
            self._fail(publisher, failure)

    def _send(self, publisher: _Publisher, producer: Producer, now_ns: int) -> int:
        try:
            again_ns = producer.send_due(now_ns, _WITHOUT_BOUND)
            if producer.has_unsent:
                self._poll.modify(producer.socket, select.EPOLLIN | select.EPOLLOUT)
        except BrokerFailure as failure:
            self._fail(publisher, failure)
            return now_ns
        return again_ns if again_ns > 0 else now_ns + SECOND_NS // (100 if again_ns else 1_000)

    def _fail(self, publisher: _Publisher, failure: BrokerFailure) -> None:
        self._tally.failures[str(failure)[:200]] += 1
        if publisher.producer is not None:
            self._lose(publisher)
        publisher.attempts += 1
        publisher.wanted_ns = self._clock() + PAUSE_NS

    def _lose(self, publisher: _Publisher) -> None:
        producer, block = publisher.producer, publisher.block
        assert producer is not None
        assert block is not None
        if producer.unconfirmed:
            sends = self._sends[publisher.number]
            sends.unsettled.append((block.base + producer.settled, block.base + producer.sent))
        del self._by_descriptor[producer.socket.fileno()]
        self._poll.unregister(producer.socket)
        goodbye(producer.socket)
        publisher.producer = publisher.block = None
