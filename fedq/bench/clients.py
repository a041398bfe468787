"""The clients of a run while messages flow: producers, consumers, subscribers with a stream each.

Each is a handler of one connection in the worker's loop: it is told that its socket is readable or
writable, reads or writes once, and works on all the bytes at once. No client waits.
"""

import os
import socket
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from fedq.amqp.deliveries import ack_frame
from fedq.amqp.frames import scan_frame
from fedq.amqp.methods import decode_method
from fedq.amqp.settlements import Settle, take_settles
from fedq.amqp.spec import BASIC_ACK, BASIC_NACK, FRAME_HEARTBEAT, FRAME_METHOD
from fedq.bench.blocks import ACK_BYTES, CHANNEL, AckRun, Block
from fedq.bench.board import Board, Cell
from fedq.bench.columns import FRAME_BYTES_MAX, Batch, Reader
from fedq.bench.histogram import Histogram
from fedq.bench.ledger import Ledger, SharedLedger
from fedq.bench.opening import BrokerFailure, refusal_of
from fedq.bench.pacing import Pace
from fedq.core.errors import ConnectionViolation

READ_BYTES: Final = 1 << 16
#: Rounds, or parts of them, that a producer sends at a time: others want to send, too.
_SENDS_MAX: Final = 4
_LATE_MAX: Final = 8


class Measure:
    """What one process measures; `is_on` between the start and the end of the measured time."""

    __slots__ = ("board", "confirms", "is_on", "latencies", "row")

    def __init__(self, board: Board, row: int) -> None:
        self.board = board
        self.row = row
        self.is_on = False
        self.latencies = Histogram()
        self.confirms = Histogram()

    def count(self, cell: Cell, amount: int) -> None:
        """Counts for this process."""
        self.board.add(self.row, cell, amount)


class Client(ABC):
    """One connection to the broker."""

    __slots__ = ("_measure", "_unsent", "socket", "who")

    def __init__(self, connected: socket.socket, who: str, measure: Measure) -> None:
        self.socket = connected
        self.who = who
        self._measure = measure
        self._unsent: memoryview | None = None

    @property
    def has_unsent(self) -> bool:
        """Whether bytes wait for the socket to take them."""
        return self._unsent is not None

    def on_readable(self, now_ns: int) -> None:
        """Reads once. Raises `BrokerFailure`."""
        try:
            data = os.read(self.socket.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise BrokerFailure(f"{self.who}: {error.strerror}") from error
        if not data:
            raise BrokerFailure(f"{self.who}: the broker hung up")
        self.take(data, now_ns)

    def take(self, data: bytes, now_ns: int) -> None:
        """Takes what was read. Raises `BrokerFailure`."""
        try:
            self._take(data, now_ns)
        except ConnectionViolation as violation:
            raise BrokerFailure(f"{self.who}: a broken stream: {violation.text}") from violation

    @abstractmethod
    def _take(self, data: bytes, now_ns: int) -> None: ...

    def write(self, data: bytes) -> bool:
        """Sends, after what waits already; false when the socket did not take everything."""
        if self._unsent is not None:
            self._unsent = memoryview(bytes(self._unsent) + data)
            return self.flush()
        self._unsent = memoryview(data)
        return self.flush()

    def flush(self) -> bool:
        """Sends what waits; false when the socket did not take everything. `BrokerFailure`."""
        if self._unsent is None:
            return True
        try:
            sent = self.socket.send(self._unsent)
        except BlockingIOError:
            return False
        except OSError as error:
            raise BrokerFailure(f"{self.who}: {error.strerror}") from error
        self._unsent = self._unsent[sent:] if sent < len(self._unsent) else None
        return self._unsent is None

    def _heed(self, batch: Batch) -> None:
        for method in batch.methods:
            if text := refusal_of(method):
                raise BrokerFailure(f"{self.who}: {text}")


class Producer(Client):
    """Publishes its block over and over, as due, window and broker allow."""

    __slots__ = (
        "_acks", "_confirmed", "_confirmed_singly", "_held_since_ns", "_limit", "_owed", "_pace",
        "_partial", "_sent_times", "_window", "block", "sent",
    )  # fmt: skip

    def __init__(
        self, connected: socket.socket, who: str, measure: Measure, block: Block,
        deliveries: Sequence[int], window: int | None,
    ) -> None:  # fmt: skip
        """`deliveries`: for each message of the block how often it will be delivered."""
        super().__init__(connected, who, measure)
        self.block = block
        self.sent = 0
        self._owed = [0, *accumulate(deliveries)]
        self._window = window
        self._pace: Pace | None = None
        self._limit = 0
        self._confirmed = 0
        self._confirmed_singly: dict[int, None] = {}
        #: (sequence behind the last, time) of what was sent at once and is unconfirmed.
        self._sent_times: deque[tuple[int, int]] = deque()
        self._partial = b""
        self._acks = AckRun(CHANNEL)
        #: Since when the broker keeps from sending what is due; None when it does not.
        self._held_since_ns: int | None = None

    def start(self, pace: Pace | None, limit: int = 0) -> None:
        """Begins to publish: messages are due from now on, by the pace or at once.

        `limit`: how many in all; 0: without end.
        """
        self._pace = pace
        self._limit = limit

    @property
    def unconfirmed(self) -> int:
        """Messages sent whose confirms did not come; 0 without confirms."""
        if self._window is None:
            return 0
        return self.sent - self._confirmed - len(self._confirmed_singly)

    @property
    def settled(self) -> int:
        """How many messages, from the first on, were confirmed or refused without a hole."""
        return self._confirmed

    def send_due(self, now_ns: int, deliveries_allowed: int) -> int:
        """Sends what may be sent; returns when it wants to send again (0: at once, -1: when told).

        `deliveries_allowed`: how many more deliveries the broker may owe.
        """
        if self._unsent is not None and not self.flush():
            self._hold(now_ns)
            return -1
        for _ in range(_SENDS_MAX):
            count = self.block.size if self._pace is None else self._pace.due(now_ns) - self.sent
            if count <= 0:
                assert self._pace is not None
                self._held_since_ns = None
                return self._pace.time_of(self.sent)
            if self._limit:
                count = min(count, self._limit - self.sent)
            if self._window is not None:
                count = min(count, self._window - self.unconfirmed)
            if count > 0:
                count = self._within(count, deliveries_allowed)
            if count <= 0:
                self._hold(now_ns)
                return -1
            deliveries_allowed -= self._send(count, now_ns)
            if self._unsent is not None:
                return -1
        return 0

    def _hold(self, now_ns: int) -> None:
        if self._held_since_ns is None:
            self._held_since_ns = now_ns

    def _within(self, count: int, deliveries_allowed: int) -> int:
        """How many of the next messages keep within the deliveries that may be owed."""
        first = self.sent % self.block.size
        count = self.block.room(self.sent, count)
        if self._owed[first + count] - self._owed[first] <= deliveries_allowed:
            return count
        if deliveries_allowed <= 0:
            return 0
        low, high = 0, count
        while low < high:
            middle = (low + high + 1) // 2
            if self._owed[first + middle] - self._owed[first] <= deliveries_allowed:
                low = middle
            else:
                high = middle - 1
        return low

    def _send(self, count: int, now_ns: int) -> int:
        """Sends up to so many messages; returns how many deliveries they are.

        What was due earlier, and was held back by the broker, counts as sent when it was due; so
        not many of these go at once, as all have the time of the first.
        """
        time_ns = now_ns
        if self._held_since_ns is not None and self._pace is not None:
            count = min(count, _LATE_MAX)
            time_ns = min(now_ns, max(self._pace.time_of(self.sent), self._held_since_ns))
        count = self.block.room(self.sent, count)
        data = self.block.take(self.sent, count, time_ns)
        first = self.sent % self.block.size
        owed = self._owed[first + count] - self._owed[first]
        self.sent += count
        if self._window is not None:
            self._sent_times.append((self.sent, time_ns))
        self._measure.count(Cell.PUBLISHED, count)
        self._measure.count(Cell.OWED, owed)
        self.write(data)
        return owed

    def _take(self, data: bytes, now_ns: int) -> None:
        """Takes confirms from what was read."""
        data = self._partial + data
        count = len(data) // ACK_BYTES
        # One by one and in order: then the bytes are known.
        if (
            not self._confirmed_singly
            and len(data) == count * ACK_BYTES
            and data == self._acks.take(self._confirmed + 1, count)
        ):
            self._partial = b""
            self._confirm_to(self._confirmed + count, now_ns)
            self._measure.count(Cell.CONFIRMED, count)
            return
        settles: list[Settle] = []
        at = take_settles(data, 0, settles)
        while at < len(data):
            found = scan_frame(data, at, FRAME_BYTES_MAX)
            if found is None:
                break
            kind, _, start, end = found
            if kind == FRAME_METHOD:
                before = len(settles)
                at = take_settles(data, at, settles)
                if len(settles) > before:
                    continue
                text = refusal_of(decode_method(data[start:end]))
                if text:
                    raise BrokerFailure(f"{self.who}: {text}")
            elif kind != FRAME_HEARTBEAT:
                raise BrokerFailure(f"{self.who}: a content came back that nobody asked for")
            at = end + 1
        self._partial = data[at:]
        self._settle(settles, now_ns)

    def _settle(self, settles: list[Settle], now_ns: int) -> None:
        singly, confirmed = self._confirmed_singly, self._confirmed
        before = confirmed + len(singly)
        refused = 0
        for method, first, last, is_multiple, _ in settles:
            if method == BASIC_NACK:
                refused += last - first + 1
                if is_multiple and last > confirmed:
                    refused += last - confirmed - 1 - sum(tag <= last for tag in singly)
            elif method != BASIC_ACK:
                raise BrokerFailure(f"{self.who}: the broker rejected a delivery")
            if is_multiple or first == confirmed + 1:
                confirmed = max(confirmed, last)
            elif last - first >= self.unconfirmed:
                raise BrokerFailure(f"{self.who}: a confirm of what was never sent")
            else:
                singly.update(dict.fromkeys(range(first, last + 1)))
        if confirmed > self._confirmed:
            for tag in [tag for tag in singly if tag <= confirmed]:
                del singly[tag]
        while confirmed + 1 in singly:
            confirmed += 1
            del singly[confirmed]
        self._measure.count(Cell.CONFIRMED, confirmed + len(singly) - before - refused)
        self._measure.count(Cell.REFUSED, refused)
        self._confirm_to(confirmed, now_ns)

    def _confirm_to(self, confirmed: int, now_ns: int) -> None:
        """Measures confirms: all messages up to this tag are settled."""
        times, confirms = self._sent_times, self._measure.confirms
        done = self._confirmed
        self._confirmed = confirmed
        while times and done < confirmed:
            stop, time_ns = times[0]
            upto = min(stop, confirmed)
            if self._measure.is_on:
                confirms.record((now_ns - time_ns) // 1_000, upto - done)
            done = upto
            if done == stop:
                times.popleft()


class Consumer(Client):
    """Consumes one queue, alone or with others."""

    __slots__ = ("_ack_every", "_acked", "_acks", "_last", "_ledger", "_reader", "_tag")

    def __init__(
        self, connected: socket.socket, who: str, measure: Measure,
        ledger: Ledger | SharedLedger, ack_every: int,
    ) -> None:  # fmt: skip
        """`ack_every`: one acknowledgement for so many deliveries; 0: automatic."""
        super().__init__(connected, who, measure)
        self._ledger = ledger
        self._reader = Reader(has_tags=False)
        self._ack_every = ack_every
        self._acks = AckRun(CHANNEL)
        #: The last delivery tag received, and the last one acknowledged.
        self._tag = self._acked = 0
        self._last: dict[int, int] = {}

    def _take(self, data: bytes, now_ns: int) -> None:
        batch = self._reader.take(data)
        if batch.methods:
            self._heed(batch)
        numbers = batch.numbers
        if not numbers:
            return
        self._measure.count(Cell.DELIVERED, len(numbers))
        self._tag += len(numbers)
        if self._ack_every:
            self._acknowledge()
        if isinstance(self._ledger, Ledger):
            self._ledger.take(numbers)
        else:
            self._ledger.gather(numbers, self._last, batch.redelivered)
        if self._measure.is_on:
            self._measure.latencies.record_since(batch.times, now_ns)

    def _acknowledge(self) -> None:
        if self._ack_every == 1:
            self.write(self._acks.take(self._acked + 1, self._tag - self._acked))
            self._acked = self._tag
        elif (due := self._tag - self._tag % self._ack_every) > self._acked:
            self.write(ack_frame(CHANNEL, due, multiple=True))
            self._acked = due


class Subscribers(Client):
    """A connection with several subscribers, each with a queue of its own, told by their tags.

    While everything comes in order, only what is due is noted for each tag; ledgers hear of it when
    that ends, or when they are asked (`settle`).
    """

    __slots__ = ("_due", "_reader", "_taken", "ledgers")

    def __init__(
        self, connected: socket.socket, who: str, measure: Measure, ledgers: dict[bytes, Ledger]
    ) -> None:
        """`ledgers`: the ledger of each consumer tag."""
        super().__init__(connected, who, measure)
        self._reader = Reader(has_tags=True)
        self.ledgers = ledgers
        #: By tag the number that is due; None with several producers, and after a surprise.
        self._due: dict[bytes, int] | None = None
        if all(list(ledger.sequences) == [0] for ledger in ledgers.values()):
            self._due = dict.fromkeys(ledgers, 0)
        self._taken = 0

    def _take(self, data: bytes, now_ns: int) -> None:
        batch = self._reader.take(data)
        if batch.methods:
            self._heed(batch)
        if not batch.numbers:
            return
        self._measure.count(Cell.DELIVERED, len(batch.numbers))
        self._take_all(batch.tags, batch.numbers)
        if self._measure.is_on:
            self._measure.latencies.record_since(batch.times, now_ns)

    def _take_all(self, tags: list[bytes], numbers: list[int]) -> None:
        due = self._due
        if due is not None:
            for tag, number in zip(tags, numbers, strict=True):
                if due.get(tag) != number:
                    break
                due[tag] = number + 1
            else:
                self._taken += len(numbers)
                return
            # What is due rose by one for each that was taken.
            taken = sum(due.values()) - self._taken
            self.settle()
            self._due = None
            tags, numbers = tags[taken:], numbers[taken:]
        runs: dict[bytes, list[int]] = defaultdict(list)
        for tag, number in zip(tags, numbers, strict=True):
            runs[tag].append(number)
        for tag, run in runs.items():
            ledger = self.ledgers.get(tag)
            if ledger is None:
                raise BrokerFailure(f"{self.who}: a delivery to {tag!r}, which is nobody here")
            ledger.take(run)

    def settle(self) -> None:
        """Tells the ledgers what came."""
        for tag, due in (self._due or {}).items():
            self.ledgers[tag].sequences[0].advance(due)
