"""One process of the generator: its clients in one loop, told by the parent what to do.

In: a topology, the process's number, the board, and a pipe on which the parent says *prepare*,
*open* (idle and consuming connections), *produce* (publishing ones), *go*, *stop* and *end*;
*consume* comes after *go* if consumers are to find full queues. Each but *go* is answered when it
is done, *end* with a `Report`. A `BrokerFailure` is told at any time.
The process ends with its parent: a closed pipe ends it.
"""

import gc
import select
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from fedq.bench.blocks import Block
from fedq.bench.board import Board, Cell
from fedq.bench.clients import Client, Consumer, Measure, Producer, Subscribers
from fedq.bench.fanout import Stream, Subscriber
from fedq.bench.histogram import Histogram
from fedq.bench.ledger import Ledger, Members, SharedLedger
from fedq.bench.opening import BrokerFailure, Opener, Opening, goodbye
from fedq.bench.pacing import Pace
from fedq.bench.scripts import consumer_steps, producer_steps, source_of, subscriber_steps, tag_of
from fedq.bench.topology import ROUND, Topology

_EVENTS_MAX: Final = 4_096
_IDLE_WAIT_NS: Final = 50_000_000
#: Producers wait for what other processes get: nobody tells them.
_SHARED_WAIT_NS: Final = 1_000_000
#: Below this the poll's milliseconds are too coarse.
_FINE_WAIT_NS: Final = 3_000_000
_READABLE: Final = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Go(NamedTuple):
    """When to publish, and between which moments to measure; monotonic nanoseconds."""

    start_ns: int
    measure_from_ns: int
    measure_to_ns: int


@dataclass(slots=True)
class Report:
    """What a process found out."""

    lost: int = 0
    repeated: int = 0
    out_of_order: int = 0
    latencies: Histogram = field(default_factory=Histogram)
    confirms: Histogram = field(default_factory=Histogram)
    #: Message number: (time sent, time the last of this process's subscribers had it).
    last_seen: dict[int, tuple[int, int]] = field(default_factory=dict)


def work(
    topology: Topology, process: int, board: Board, pipe: Connection, others: list[Connection]
) -> None:
    """The whole life of a process; `others` are the parent's ends of pipes, of no use here."""
    for other in others:
        other.close()
    worker = Worker(topology, process, board, pipe)
    try:
        worker.run()
    except BrokerFailure as failure:
        pipe.send(("failed", str(failure)))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # The parent is gone, or tells its user itself.
    finally:
        worker.close()


class Worker:
    """One process of the generator, which owns its clients and obeys the parent."""

    def __init__(self, topology: Topology, process: int, board: Board, pipe: Connection) -> None:
        self._topology = topology
        self._plan = topology.plan
        self._process = process
        self._board = board
        self._pipe = pipe
        self._measure = Measure(board, process)
        self._poll = select.epoll()
        self._clients: dict[int, Client] = {}
        self._producers: dict[int, Producer] = {}
        #: All of them. Each round another one is first to use what may be on its way.
        self._order: deque[Producer] = deque()
        self._writers: dict[int, None] = {}
        self._consumers_opened: dict[int, Consumer] = {}
        self._idle: list[socket.socket] = []
        self._ledgers: list[Ledger] = []
        self._shared: list[SharedLedger] = []
        self._stream = Stream(self._measure, Members(ROUND), self._plan.producers)
        self._subscribers: list[Subscriber] = []
        self._go = Go(0, 0, 0)
        self._is_producing = False
        self._is_stopped = False
        self._has_sent = False
        #: Those that consume once the queues are full.
        self._late: list[Opening] = []

    def run(self) -> None:
        """Does what the parent says, until *end*."""
        # What lives here lives to the end, and nothing goes round in circles.
        gc.disable()
        self._expect("prepare")
        consumers = self._consumers()
        before = [*self._idle_openings(), *self._subscriber_openings()]
        if self._plan.fill:
            self._late = consumers
        else:
            before += consumers
        after = self._producer_openings()
        self._pipe.send(("ready", 0))
        self._expect("open")
        self._open(before)
        self._expect("produce")
        self._open(after)
        self._go = Go(*self._expect("go"))
        for producer, client in self._producers.items():
            client.start(self._pace(producer), self._limit(producer))
        self._poll.register(self._pipe.fileno(), select.EPOLLIN)
        self._is_producing = True
        while self._loop():
            pass

    def close(self) -> None:
        """Hangs up everywhere."""
        for connected in [*self._idle, *(client.socket for client in self._clients.values())]:
            goodbye(connected)
        self._poll.close()

    # --- setting up -------------------------------------------------------------------------------

    def _expect(self, command: str) -> tuple[int, ...]:
        name, *values = self._pipe.recv()
        assert name == command, f"{name} instead of {command}"
        return tuple(values)

    def _open(self, openings: list[Opening]) -> None:
        Opener(openings, self._plan.patience_s).run()
        self._pipe.send(("ready", 0))

    def _idle_openings(self) -> list[Opening]:
        def ready(connected: socket.socket) -> None:
            self._idle.append(connected)
            self._measure.count(Cell.CONNECTED, 1)

        return [
            Opening(
                self._topology.target(index), f"idle connection {index}", (), ready,
                source_of(self._topology, self._plan.subscriber_connections + index),
            )
            for index in self._topology.idle_in(self._process)
        ]  # fmt: skip

    def _add(self, client: Client) -> None:
        self._clients[client.socket.fileno()] = client
        self._poll.register(client.socket, select.EPOLLIN)
        self._measure.count(Cell.CONNECTED, 1)

    def _consumers(self) -> list[Opening]:
        plan, topology = self._plan, self._topology
        mine = topology.consumers_in(self._process)
        ledgers = self._ledgers_of(mine)
        ack_every = 0 if plan.prefetch is None else plan.ack_every

        def opening(consumer: int) -> Opening:
            queue = consumer % plan.queue_count
            who = f"consumer {consumer} of {topology.queue(queue)}"

            def ready(connected: socket.socket) -> None:
                client = Consumer(connected, who, self._measure, ledgers[consumer], ack_every)
                self._consumers_opened[consumer] = client
                self._add(client)

            def more(data: bytes) -> None:
                self._consumers_opened[consumer].take(data, time.monotonic_ns())

            steps = consumer_steps(topology, queue)
            return Opening(topology.target(consumer), who, steps, ready, on_more=more)

        return [opening(consumer) for consumer in mine]

    def _ledgers_of(self, consumers: list[int]) -> dict[int, Ledger | SharedLedger]:
        """What each of these consumers is to get: all of its queue, or, but of a stream, a part."""
        plan, topology = self._plan, self._topology
        found: dict[int, Ledger | SharedLedger] = {}
        by_queue: dict[int, Ledger | SharedLedger] = {}
        for consumer in consumers:
            queue = consumer % plan.queue_count
            if queue not in by_queue or plan.is_stream:
                ledger = topology.ledger(queue)
                self._ledgers.append(ledger)
                by_queue[queue] = ledger
                if plan.consumer_count > plan.queue_count + queue and not plan.is_stream:
                    shared = by_queue[queue] = SharedLedger(ledger)
                    self._shared.append(shared)
            found[consumer] = by_queue[queue]
        return found

    def _subscriber_openings(self) -> list[Opening]:
        topology = self._topology

        def opening(connection: int) -> Opening:
            subscribers = topology.subscribers_of(connection)
            who = f"subscriber connection {connection}"

            def ready(connected: socket.socket) -> None:
                if self._plan.subscribers == self._plan.subscriber_connections:
                    client = Subscriber(connected, who, self._measure, self._stream)
                    self._subscribers.append(client)
                    self._add(client)
                    return
                ledgers = {
                    tag_of(index): topology.subscriber_ledger() for index in range(len(subscribers))
                }
                self._ledgers += ledgers.values()
                self._add(Subscribers(connected, who, self._measure, ledgers))

            steps = subscriber_steps(topology, subscribers)
            source = source_of(topology, connection)
            return Opening(topology.target(connection), who, steps, ready, source)

        return [opening(connection) for connection in topology.connections_in(self._process)]

    def _producer_openings(self) -> list[Opening]:
        plan, topology = self._plan, self._topology

        def opening(producer: int) -> Opening:
            block = Block(producer, topology.shapes(producer), plan.is_persistent)
            deliveries = topology.deliveries(producer)
            who = f"producer {producer}"

            def ready(connected: socket.socket) -> None:
                client = Producer(
                    connected, who, self._measure, block, deliveries, plan.confirm_window
                )
                self._producers[producer] = client
                self._order.append(client)
                self._add(client)

            steps = producer_steps(plan.confirm_window is not None)
            return Opening(topology.target(producer), who, steps, ready)

        return [opening(producer) for producer in topology.producers_in(self._process)]

    def _limit(self, producer: int) -> int:
        return self._plan.fill_of(producer) if self._plan.fill else 0

    def _pace(self, producer: int) -> Pace | None:
        """Gives each producer an equal share of the rate, and none the moment of another."""
        if self._plan.rate is None:
            return None
        each = self._plan.rate / self._plan.producers
        shift_ns = int(1e9 / self._plan.rate * producer)
        return Pace(each, self._go.start_ns + shift_ns)

    # --- the loop ---------------------------------------------------------------------------------

    def _loop(self) -> bool:
        """One time around; false once the parent has said *end*."""
        clock, clients, pipe = time.monotonic_ns, self._clients, self._pipe.fileno()
        polled = self._wait(self._produce(clock()))
        if self._subscribers:
            polled = self._stream.read(polled, clock)
        for descriptor, events in polled:
            if descriptor == pipe:
                if not self._obey():
                    return False
                continue
            client = clients[descriptor]
            if events & _READABLE:
                client.on_readable(clock())
            if events & select.EPOLLOUT:
                client.flush()
            if client.has_unsent is not (descriptor in self._writers):
                self._watch(descriptor, client)
        for shared in self._shared:
            shared.settle()
        self._measure.is_on = self._go.measure_from_ns <= clock() < self._go.measure_to_ns
        if self._is_stopped and not self._has_sent:
            self._say_sent()
        return True

    def _produce(self, now_ns: int) -> int:
        """Lets producers send; returns until when to wait for events, 0 for not at all."""
        wait_ns = now_ns + _IDLE_WAIT_NS
        if not self._is_producing or now_ns < self._go.start_ns:
            return min(wait_ns, max(self._go.start_ns, now_ns + _SHARED_WAIT_NS))
        board = self._board
        self._order.rotate(-1)
        for client in self._order:
            owed = board.total(Cell.OWED) - board.total(Cell.DELIVERED)
            wanted = client.send_due(now_ns, self._plan.in_flight_max - owed)
            if client.has_unsent is not (client.socket.fileno() in self._writers):
                self._watch(client.socket.fileno(), client)
            if wanted < 0:
                wanted = now_ns + (_SHARED_WAIT_NS if self._plan.processes > 1 else _IDLE_WAIT_NS)
            wait_ns = min(wait_ns, wanted)
        return wait_ns

    def _wait(self, until_ns: int) -> list[tuple[int, int]]:
        left_ns = until_ns - time.monotonic_ns()
        if left_ns <= 0:
            return self._poll.poll(0, _EVENTS_MAX)
        if left_ns < _FINE_WAIT_NS:
            select.select([self._poll], [], [], left_ns / 1e9)
            return self._poll.poll(0, _EVENTS_MAX)
        return self._poll.poll((left_ns - _FINE_WAIT_NS // 2) / 1e9, _EVENTS_MAX)

    def _watch(self, descriptor: int, client: Client) -> None:
        if client.has_unsent:
            self._writers[descriptor] = None
            self._poll.modify(descriptor, select.EPOLLIN | select.EPOLLOUT)
        else:
            del self._writers[descriptor]
            self._poll.modify(descriptor, select.EPOLLIN)

    # --- the end ----------------------------------------------------------------------------------

    def _obey(self) -> bool:
        name, *values = self._pipe.recv()
        if name == "consume":
            # What did not find room in time is not sent any more.
            self._is_producing = False
            self._open(self._late)
            return True
        if name == "stop":
            self._is_producing, self._is_stopped = False, True
            return True
        assert name == "end", f"{name} while messages flow"
        self._pipe.send(("report", self._report(*values)))
        return False

    def _say_sent(self) -> None:
        """Tells how many messages each producer sent, once all are sent and confirmed."""
        clients = self._producers.values()
        if any(client.has_unsent or client.unconfirmed for client in clients):
            return
        self._has_sent = True
        sent = {producer: client.sent for producer, client in self._producers.items()}
        self._pipe.send(("sent", sent))

    def _report(self, totals: list[int]) -> Report:
        measure = self._measure
        report = Report(
            latencies=measure.latencies, confirms=measure.confirms,
            last_seen=self._stream.last_seen,
        )  # fmt: skip
        for client in self._clients.values():
            if isinstance(client, Subscribers):
                client.settle()
        for ledger in self._ledgers:
            report.lost += ledger.lost(totals)
            report.repeated += ledger.repeated
        shared = {id(each.ledger) for each in self._shared}
        for ledger in self._ledgers:
            report.out_of_order += 0 if id(ledger) in shared else ledger.out_of_order
        report.out_of_order += sum(each.out_of_order for each in self._shared)
        for subscriber in self._subscribers:
            lost, repeated, out_of_order = subscriber.result(totals)
            report.lost += lost
            report.repeated += repeated
            report.out_of_order += out_of_order
        return report
