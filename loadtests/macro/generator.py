"""A load generator that costs far less than any broker, so that the broker is what is measured.

    python -m loadtests.macro.generator HOST:PORT PID --work transient --seconds 8

One producer and one consumer on raw sockets in one process. Publishes are one precomputed block
of bytes, sent over and over in slices; so the sizes of all deliveries are known beforehand, and
counting them is a look-up. Each body begins with its number in the block: of every read, the
first whole delivery is checked, so that lost, repeated, reordered or miscounted messages end
the run instead of improving its figures. The handshake is made by pika's codec (`Wire`).

Works: `transient` and `persistent` have bodies of 16 bytes that are alike but for their number;
`mixed` is `transient` with bodies of 16 to 79 bytes, for a broker may do less for messages that
resemble each other.

In: any AMQP 0-9-1 broker's address, and its process id to sample processor time at exactly the
beginning and the end of the measured time. Out: one JSON object on standard output.
"""

import argparse
import json
import os
import select
import struct
import sys
import time
from bisect import bisect_right
from dataclasses import asdict, dataclass
from itertools import accumulate

from demo.addresses import parse_address
from loadtests.macro.brokers import tree_cpu_s
from tests.integration.stock import Address, pika
from tests.integration.wire import Wire

BLOCK_MESSAGES = 1_000
READ_BYTES = 1 << 18
#: Messages on their way at most when nothing else bounds them: no broker should have to page.
IN_FLIGHT_MAX = 50_000
WINDOW = 200
PREFETCH = 200
TAG = "c"
DELIVER = b"\0\x3c\0\x3c"
POLL_MS = 100
ACK_FRAME = struct.Struct(">BHIHHQBB")
READABLE = select.POLLIN
BOTH = select.POLLIN | select.POLLOUT


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run measured."""

    work: str
    messages: int
    seconds: float
    per_second: float
    broker_cpu_s: float
    per_cpu_second: float
    #: Of one core; near 1 means that the generator, not the broker, was measured.
    generator_share: float


def body_of(number: int, work: str) -> bytes:
    """The body of the message with this number in the block."""
    padding = b"x" * (number * 37 % 64) if work == "mixed" else b""
    return b"%016d%b" % (number, padding)


def publish_bytes(queue: str, number: int, work: str) -> bytes:
    """The three frames of one message of the block."""
    body = body_of(number, work)
    properties = pika.BasicProperties(delivery_mode=2 if work == "persistent" else None)
    frames = [
        pika.frame.Method(1, pika.spec.Basic.Publish(routing_key=queue)),
        pika.frame.Header(1, len(body), properties),
        pika.frame.Body(1, body),
    ]
    return b"".join(frame.marshal() for frame in frames)


class Block:
    """A thousand messages, repeated for ever: what bytes of a stream mean in messages."""

    def __init__(self, sizes: list[int]) -> None:
        #: Where each message of the block ends.
        self.ends = list(accumulate(sizes))
        self.size = self.ends[-1]

    def whole(self, stream_bytes: int) -> int:
        """How many messages are complete within the first so many bytes of the stream."""
        blocks, rest = divmod(stream_bytes, self.size)
        return blocks * len(self.ends) + bisect_right(self.ends, rest)

    def end_of(self, messages: int) -> int:
        """How many bytes of the stream the first so many messages are."""
        blocks, rest = divmod(messages, len(self.ends))
        return blocks * self.size + (self.ends[rest - 1] if rest else 0)


def delivery_sizes(queue: str, work: str) -> list[int]:
    """The size of each delivery: the same content behind a basic.deliver."""
    deliver = pika.spec.Basic.Deliver(TAG, 1, False, "", queue)
    publish = pika.spec.Basic.Publish(routing_key=queue)
    more = len(pika.frame.Method(1, deliver).marshal()) - len(
        pika.frame.Method(1, publish).marshal()
    )
    return [len(publish_bytes(queue, number, work)) + more for number in range(BLOCK_MESSAGES)]


class Producer:
    """Sends the block over and over, as far as `sendable` allows."""

    def __init__(self, address: Address, queue: str, work: str) -> None:
        parts = [publish_bytes(queue, number, work) for number in range(BLOCK_MESSAGES)]
        self._block = Block([len(part) for part in parts])
        # Twice, so that any stretch of up to a block's length is one slice.
        self._bytes = memoryview(b"".join(parts) * 2)
        self._is_reliable = work == "persistent"
        self._sent_bytes = 0
        self._confirmed = 0
        self._confirmed_singly: set[int] = set()
        self._partial = b""
        self.wire = Wire(address)
        self.wire.open_channel(1)
        if self._is_reliable:
            self.wire.call(1, pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk)
        self.wire.socket.setblocking(False)

    @property
    def sent(self) -> int:
        """Messages that have been sent whole."""
        return self._block.whole(self._sent_bytes)

    def sendable(self, received: int) -> int:
        """How many messages may now be sent beyond those that were sent whole."""
        if self._is_reliable:
            return WINDOW - (self.sent - self._confirmed - len(self._confirmed_singly))
        return IN_FLIGHT_MAX - (self.sent - received)

    def send(self, count: int) -> None:
        """Sends up to so many more messages; a cut one is continued by the next call."""
        stop = self._block.end_of(self.sent + min(count, BLOCK_MESSAGES))
        start = self._sent_bytes % self._block.size
        try:
            self._sent_bytes += self.wire.socket.send(
                self._bytes[start : start + min(stop - self._sent_bytes, self._block.size)]
            )
        except BlockingIOError:
            return

    def on_readable(self) -> None:
        """Takes confirms."""
        data = self._partial + self.wire.socket.recv(READ_BYTES)
        if data == self._partial:
            raise ConnectionError("the broker hung up on the producer")
        whole = len(data) - len(data) % ACK_FRAME.size
        self._partial = data[whole:]
        for _, _, _, class_id, method_id, tag, multiple, _ in ACK_FRAME.iter_unpack(data[:whole]):
            if (class_id, method_id) != (60, 80):
                raise ConnectionError(f"not a confirm: {data[:200]!r}")
            if multiple:
                self._confirmed = max(self._confirmed, tag)
                self._confirmed_singly = {t for t in self._confirmed_singly if t > tag}
            else:
                self._confirmed_singly.add(tag)
        while self._confirmed + 1 in self._confirmed_singly:
            self._confirmed += 1
            self._confirmed_singly.remove(self._confirmed)


class Deliveries:
    """Counts and checks the deliveries in a stream of bytes; no socket here."""

    def __init__(self, queue: str, work: str) -> None:
        self._sizes = delivery_sizes(queue, work)
        self._block = Block(self._sizes)
        self._work = work
        self._bytes = 0
        self.received = 0

    def take(self, data: bytes) -> range:
        """The delivery tags that became complete; raises `ConnectionError` for a wrong stream."""
        self._check(data)
        self._bytes += len(data)
        before, self.received = self.received, self._block.whole(self._bytes)
        return range(before + 1, self.received + 1)

    def _check(self, data: bytes) -> None:
        """The first delivery that begins and ends in the data must be the one that is due."""
        first = self.received + (self._block.end_of(self.received) < self._bytes)
        start = self._block.end_of(first) - self._bytes
        number = first % BLOCK_MESSAGES
        stop = start + self._sizes[number]
        if stop > len(data):
            return
        body = body_of(number, self._work)
        if data[start + 7 : start + 11] != DELIVER or data[stop - 1 - len(body) : stop - 1] != body:
            raise ConnectionError(f"delivery {first} expected: {data[start : start + 200]!r}")


class Consumer:
    """Receives, and acknowledges each delivery if asked to."""

    def __init__(self, address: Address, queue: str, work: str) -> None:
        self._deliveries = Deliveries(queue, work)
        self._is_reliable = work == "persistent"
        self._unsent = b""
        self.wire = Wire(address)
        self.wire.open_channel(1)
        spec = pika.spec
        declare = spec.Queue.Declare(queue=queue, durable=self._is_reliable)
        self.wire.call(1, declare, spec.Queue.DeclareOk)
        if self._is_reliable:
            self.wire.call(1, spec.Basic.Qos(prefetch_count=PREFETCH), spec.Basic.QosOk)
        consume = spec.Basic.Consume(queue=queue, consumer_tag=TAG, no_ack=not self._is_reliable)
        self.wire.call(1, consume, spec.Basic.ConsumeOk)
        self.wire.socket.setblocking(False)

    @property
    def received(self) -> int:
        """Messages received whole."""
        return self._deliveries.received

    def on_readable(self) -> None:
        """Counts what arrived, and acknowledges it if asked to."""
        data = self.wire.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker hung up on the consumer")
        tags = self._deliveries.take(data)
        if self._is_reliable:
            pack = ACK_FRAME.pack
            self._unsent += b"".join([pack(1, 1, 13, 60, 80, tag, 0, 0xCE) for tag in tags])
            self.send_acks()

    def send_acks(self) -> None:
        """Sends what is owed, as far as the socket takes it."""
        try:
            self._unsent = self._unsent[self.wire.socket.send(self._unsent) :]
        except BlockingIOError:
            return

    @property
    def has_unsent(self) -> bool:
        """Whether acknowledgements wait for the socket."""
        return bool(self._unsent)


def pump(producer: Producer, consumer: Consumer, until_s: float) -> None:
    """Moves messages until the time has come."""
    poll = select.poll()
    in_fd, out_fd = producer.wire.socket.fileno(), consumer.wire.socket.fileno()
    while time.monotonic() < until_s:
        allowed = producer.sendable(consumer.received)
        poll.register(in_fd, BOTH if allowed > 0 else READABLE)
        poll.register(out_fd, BOTH if consumer.has_unsent else READABLE)
        for fd, events in poll.poll(POLL_MS):
            if events & (select.POLLERR | select.POLLNVAL):
                raise ConnectionError("a connection broke")
            if fd == out_fd:
                if events & (READABLE | select.POLLHUP):
                    consumer.on_readable()
                if events & select.POLLOUT:
                    consumer.send_acks()
            else:
                if events & (READABLE | select.POLLHUP):
                    producer.on_readable()
                if events & select.POLLOUT:
                    producer.send(max(producer.sendable(consumer.received), 0))


def measure(address: Address, pid: int, work: str, warm_s: float, length_s: float) -> Outcome:
    """Runs the work and measures its steady part."""
    queue = f"load-{work}-{os.getpid()}"
    consumer = Consumer(address, queue, work)
    producer = Producer(address, queue, work)
    pump(producer, consumer, time.monotonic() + warm_s)
    before, cpu_before_s, own_before_s = consumer.received, tree_cpu_s(pid), time.process_time()
    started_s = time.monotonic()
    pump(producer, consumer, started_s + length_s)
    seconds = time.monotonic() - started_s
    messages = consumer.received - before
    cpu_s = tree_cpu_s(pid) - cpu_before_s
    own_share = (time.process_time() - own_before_s) / seconds
    producer.wire.socket.close()
    consumer.wire.socket.close()
    with Wire(address) as wire:
        wire.open_channel(1)
        wire.call(1, pika.spec.Queue.Delete(queue=queue), pika.spec.Queue.DeleteOk)
    return Outcome(
        work, messages, round(seconds, 3), round(messages / seconds, 1), round(cpu_s, 3),
        round(messages / cpu_s, 1) if cpu_s else 0.0, round(own_share, 3),
    )  # fmt: skip


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("address", type=parse_address)
    parser.add_argument("pid", type=int, help="the broker's process, to sample its time")
    parser.add_argument("--work", choices=("transient", "mixed", "persistent"), required=True)
    parser.add_argument("--warm", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    outcome = measure(options.address, options.pid, options.work, options.warm, options.seconds)
    json.dump(asdict(outcome), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
