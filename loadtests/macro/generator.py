"""A load generator that costs far less than any broker, so that the broker is what is measured.

    python -m loadtests.macro.generator HOST:PORT PID --work transient --seconds 8

One producer and one consumer on raw sockets in one process. Publishes are one precomputed block
of bytes, sent in slices; as all messages are alike, deliveries have one size, and counting them
is a division. The handshake and the declarations are made by pika's codec (`Wire`).

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
from dataclasses import asdict, dataclass

from demo.addresses import parse_address
from loadtests.macro.brokers import tree_cpu_s
from tests.integration.stock import Address, pika
from tests.integration.wire import Wire

BODY = b"0123456789abcdef"
BLOCK_MESSAGES = 1_000
READ_BYTES = 1 << 18
#: Messages on their way at most when nothing else bounds them: no broker should have to page.
IN_FLIGHT_MAX = 50_000
WINDOW = 200
PREFETCH = 200
TAG = "c"
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


def publish_bytes(queue: str, is_persistent: bool) -> bytes:
    """The three frames of one message."""
    properties = pika.BasicProperties(delivery_mode=2 if is_persistent else None)
    frames = [
        pika.frame.Method(1, pika.spec.Basic.Publish(routing_key=queue)),
        pika.frame.Header(1, len(BODY), properties),
        pika.frame.Body(1, BODY),
    ]
    return b"".join(frame.marshal() for frame in frames)


def delivery_bytes(queue: str, is_persistent: bool) -> int:
    """The size of one delivery: the same content behind a basic.deliver."""
    deliver = pika.spec.Basic.Deliver(TAG, 1, False, "", queue)
    publish = pika.spec.Basic.Publish(routing_key=queue)
    more = len(pika.frame.Method(1, deliver).marshal()) - len(
        pika.frame.Method(1, publish).marshal()
    )
    return len(publish_bytes(queue, is_persistent)) + more


class Producer:
    """Sends the block over and over, as far as `sendable` allows."""

    def __init__(self, address: Address, queue: str, is_reliable: bool) -> None:
        message = publish_bytes(queue, is_reliable)
        self._size = len(message)
        self._block = memoryview(message * BLOCK_MESSAGES)
        self._is_reliable = is_reliable
        self._sent_bytes = 0
        self._confirmed = 0
        self._confirmed_singly: set[int] = set()
        self._partial = b""
        self.wire = Wire(address)
        self.wire.open_channel(1)
        if is_reliable:
            self.wire.call(1, pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk)
        self.wire.socket.setblocking(False)

    @property
    def sent(self) -> int:
        """Messages begun to be sent."""
        return -(-self._sent_bytes // self._size)

    def sendable(self, received: int) -> int:
        """How many more messages may be sent now."""
        if self._is_reliable:
            return WINDOW - (self.sent - self._confirmed - len(self._confirmed_singly))
        return IN_FLIGHT_MAX - (self.sent - received)

    def send(self, count: int) -> None:
        """Sends up to so many more messages, and the rest of one that was cut through."""
        cut = self._sent_bytes % self._size
        end = (self._size if cut else 0) + count * self._size
        try:
            self._sent_bytes += self.wire.socket.send(self._block[cut:end])
        except BlockingIOError:
            return

    @property
    def is_cut(self) -> bool:
        """Whether a message has been sent only in part."""
        return self._sent_bytes % self._size != 0

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


class Consumer:
    """Counts deliveries, and acknowledges each one if asked to."""

    def __init__(self, address: Address, queue: str, is_reliable: bool) -> None:
        self._size = delivery_bytes(queue, is_reliable)
        self._is_reliable = is_reliable
        self._bytes = 0
        self._acknowledged = 0
        self._unsent = b""
        self.wire = Wire(address)
        self.wire.open_channel(1)
        spec = pika.spec
        declare = spec.Queue.Declare(queue=queue, durable=is_reliable)
        self.wire.call(1, declare, spec.Queue.DeclareOk)
        if is_reliable:
            self.wire.call(1, spec.Basic.Qos(prefetch_count=PREFETCH), spec.Basic.QosOk)
        consume = spec.Basic.Consume(queue=queue, consumer_tag=TAG, no_ack=not is_reliable)
        self.wire.call(1, consume, spec.Basic.ConsumeOk)
        self.wire.socket.setblocking(False)

    @property
    def received(self) -> int:
        """Messages received whole."""
        return self._bytes // self._size

    def on_readable(self) -> None:
        """Counts what arrived; checks that it looks like a delivery."""
        data = self.wire.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker hung up on the consumer")
        start = -self._bytes % self._size
        if len(data) > start + 11 and data[start + 7 : start + 11] != b"\0\x3c\0\x3c":
            raise ConnectionError(f"not a delivery: {data[start : start + 200]!r}")
        self._bytes += len(data)
        if self._is_reliable:
            tags = range(self._acknowledged + 1, self.received + 1)
            pack = ACK_FRAME.pack
            self._unsent += b"".join([pack(1, 1, 13, 60, 80, tag, 0, 0xCE) for tag in tags])
            self._acknowledged = self.received
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
        may_send = allowed > 0 or producer.is_cut
        poll.register(in_fd, BOTH if may_send else READABLE)
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
    is_reliable = work == "persistent"
    queue = f"load-{work}-{os.getpid()}"
    consumer = Consumer(address, queue, is_reliable)
    producer = Producer(address, queue, is_reliable)
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
    parser.add_argument("--work", choices=("transient", "persistent"), required=True)
    parser.add_argument("--warm", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    outcome = measure(options.address, options.pid, options.work, options.warm, options.seconds)
    json.dump(asdict(outcome), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
