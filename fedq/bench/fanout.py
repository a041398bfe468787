"""Subscribers with one connection each: their streams are equal byte by byte, so one is read.

All subscribe under the same tag on the same channel, and get the same messages in the same order.
The stream that is ahead is cut, checked against what is due, and kept; every other connection's
bytes are compared with it: one comparison of memory per read, however many messages it holds.
A connection whose bytes differ (another order, a loss, a repeat, a refusal) leaves: from then on
its own bytes are cut, and its own ledger says what is wrong.

Only a stream without faults is kept. Invariant: `_start` is the stream offset of `_bytes[0]`, and
`_ends[i]` that of the end of message `_first + i`.
"""

import os
import select
import socket
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from fedq.bench.blocks import PRODUCER_SHIFT, SEQUENCE_MASK
from fedq.bench.board import Cell
from fedq.bench.clients import Client, Measure
from fedq.bench.columns import Batch, Reader
from fedq.bench.ledger import Ledger, Members, Sequence

#: Beyond so many bytes the older half is dropped; connections that are still there leave.
KEPT_BYTES_MAX: Final = 16 << 20
#: For so many messages it is told when the last subscriber had them.
LAST_SEEN_MAX: Final = 200_000
READ_BYTES: Final = 1 << 16


Event = tuple[int, int]


class Step(NamedTuple):
    """What a read meant: from so many messages to so many, and to this place in the stream."""

    before: int
    now: int
    offset: int


class Stream:
    """The stream that all connections of a process should get."""

    __slots__ = (
        "_bytes", "_due", "_due_first", "_ends", "_first", "_followers", "_low", "_measure",
        "_members", "_numbers", "_progress", "_reader", "_start", "_times", "last_seen",
    )  # fmt: skip

    def __init__(self, measure: Measure, members: Members, producers: int) -> None:
        """`members`: what subscribers get of each producer."""
        self._measure = measure
        self._members = members
        self._reader = Reader(has_ends=True)
        self._bytes = bytearray()
        self._start = 0
        self._first = 0
        self._ends: list[int] = []
        self._numbers: list[int] = []
        self._times: list[int] = []
        #: For each producer the sequence number that is due, now and at message `_first`.
        self._due = [0] * producers
        self._due_first = [0] * producers
        self._followers: dict[int, Subscriber] = {}
        #: How many followers have had so many messages; `_low` is the least of these numbers.
        self._progress: Counter[int] = Counter()
        self._low = 0
        #: Message number: (when it was sent, when the last follower had it), while measuring.
        self.last_seen: dict[int, tuple[int, int]] = {}

    def join(self, subscriber: "Subscriber") -> None:
        """Adds a connection that follows the stream from the start."""
        assert not self._bytes, "whoever comes later has another stream"
        self._followers[subscriber.socket.fileno()] = subscriber
        self._progress[0] += 1

    def read(self, polled: list[Event], clock: Callable[[], int]) -> list[Event]:
        """Reads for each follower that became readable; returns the events that are for others.

        Most followers get the same bytes at the same place as the one before, so what they mean is
        worked out once, and their steps are counted together.
        """
        others: list[Event] = []
        followers = self._followers
        data, offset = b"", -1
        step = Step(0, 0, 0)
        moments: list[int] = []
        for event in polled:
            follower = followers.get(event[0])
            if follower is None or event[1] != select.EPOLLIN:
                others.append(event)
                continue
            try:
                got = os.read(event[0], READ_BYTES)
            except OSError:
                got = b""
            if not got:
                others.append(event)  # It reads again and tells why there is nothing.
            elif got == data and follower.offset == offset:
                follower.offset, follower.count = step.offset, step.now
                moments.append(clock())
            else:
                self._repeat(step, moments)
                moments = []
                data, offset, before = got, follower.offset, follower.count
                follower.take(got, clock())
                # Whoever left has made no step that others could repeat.
                offset = offset if event[0] in followers else -1
                step = Step(before, follower.count, follower.offset)
        self._repeat(step, moments)
        return others

    def _repeat(self, step: Step, moments: list[int]) -> None:
        """Counts the same step for each follower that made it, at these moments."""
        messages, followers = step.now - step.before, len(moments)
        if not messages or not followers:
            return
        self._measure.count(Cell.DELIVERED, messages * followers)
        if self._measure.is_on:
            times = self._times[step.before - self._first : step.now - self._first]
            for time_ns, count in Counter(times).items():
                self._measure.latencies.record_each(time_ns, moments, count)
        self._advance(step.before, step.now, moments[-1], followers)

    def follow(self, subscriber: "Subscriber", data: bytes, now_ns: int) -> bool:
        """Takes data of a follower; false, and nothing is changed, when it is not the stream's."""
        at = subscriber.offset - self._start
        known = len(self._bytes) - at
        if len(data) <= known:
            if not self._bytes.startswith(data, at):
                return False
        elif not self._bytes.startswith(data[:known], at) or not self._extend(data[known:]):
            return False
        subscriber.offset += len(data)
        before = subscriber.count
        now = self._first + bisect_right(self._ends, subscriber.offset)
        if now == before:
            return True
        subscriber.count = now
        self._measure.count(Cell.DELIVERED, now - before)
        if self._measure.is_on:
            times = self._times[before - self._first : now - self._first]
            self._measure.latencies.record_since(times, now_ns)
        self._advance(before, now, now_ns, 1)
        return True

    def _extend(self, data: bytes) -> bool:
        """Takes more of the stream, if it is without fault."""
        partial = self._reader.partial
        end = self._start + len(self._bytes) - len(partial)
        batch = self._reader.take(data)
        if batch.methods or not self._is_due(batch):
            self._reader.partial = partial
            return False
        self._bytes += data
        self._ends += [end + offset for offset in batch.ends]
        self._numbers += batch.numbers
        self._times += batch.times
        if len(self._bytes) > KEPT_BYTES_MAX:
            self._trim()
        return True

    def _is_due(self, batch: Batch) -> bool:
        due, numbers = list(self._due), batch.numbers
        if len(due) == 1:
            if numbers != list(range(due[0], due[0] + len(numbers))):
                return False
            due[0] += len(numbers)
        else:
            for number in numbers:
                producer = number >> PRODUCER_SHIFT
                if producer >= len(due) or due[producer] != number & SEQUENCE_MASK:
                    return False
                due[producer] += 1
        self._due = due
        return True

    def _advance(self, before: int, now: int, now_ns: int, followers: int) -> None:
        """Advances so many followers from one number of messages to another."""
        progress = self._progress
        progress[now] += followers
        progress[before] -= followers
        if progress[before]:
            return
        del progress[before]
        if before != self._low:
            return
        low, self._low = self._low, min(progress)
        if self._measure.is_on and len(self.last_seen) < LAST_SEEN_MAX:
            for index in range(max(low - self._first, 0), self._low - self._first):
                self.last_seen[self._numbers[index]] = self._times[index], now_ns

    def _trim(self) -> None:
        """Drops the older half of the stream; followers that are not past it leave before."""
        count = bisect_right(self._ends, self._start + len(self._bytes) // 2)
        cut = self._ends[count - 1]
        for follower in [each for each in self._followers.values() if each.offset < cut]:
            follower.leave()
        self._due_first = self._due_at(self._first + count)
        del self._bytes[: cut - self._start]
        del self._ends[:count], self._numbers[:count], self._times[:count]
        self._start, self._first = cut, self._first + count

    def _due_at(self, count: int) -> list[int]:
        """The sequence number due of each producer after the stream's first `count` messages."""
        due = list(self._due_first)
        for number in self._numbers[: count - self._first]:
            due[number >> PRODUCER_SHIFT] += 1
        return due

    def leave(self, subscriber: "Subscriber") -> tuple[bytes, Ledger]:
        """Takes a follower out: where its next message begins, and what it may expect."""
        del self._followers[subscriber.socket.fileno()]
        self._progress[subscriber.count] -= 1
        if not self._progress[subscriber.count]:
            del self._progress[subscriber.count]
            self._low = min(self._progress, default=0)
        index = subscriber.count - self._first
        whole = self._ends[index - 1] if index else self._start
        partial = bytes(self._bytes[whole - self._start : subscriber.offset - self._start])
        due = self._due_at(subscriber.count)
        return partial, Ledger(
            {producer: Sequence(self._members, number) for producer, number in enumerate(due)}
        )


class Subscriber(Client):
    """A connection with one subscriber, which follows the stream as long as it can."""

    __slots__ = ("_own", "_reader", "_stream", "count", "offset")

    def __init__(
        self, connected: socket.socket, who: str, measure: Measure, stream: Stream
    ) -> None:
        super().__init__(connected, who, measure)
        self._stream = stream
        #: Bytes and messages received while following.
        self.offset = 0
        self.count = 0
        self._own: Ledger | None = None
        self._reader: Reader | None = None
        stream.join(self)

    def _take(self, data: bytes, now_ns: int) -> None:
        if self._own is None and self._stream.follow(self, data, now_ns):
            return
        if self._reader is None or self._own is None:
            self.leave()
        assert self._reader is not None
        assert self._own is not None
        batch = self._reader.take(data)
        if batch.methods:
            self._heed(batch)
        if batch.numbers:
            self._measure.count(Cell.DELIVERED, len(batch.numbers))
            self._own.take(batch.numbers)
            if self._measure.is_on:
                self._measure.latencies.record_since(batch.times, now_ns)

    def leave(self) -> None:
        """Stops following."""
        self._reader = Reader()
        self._reader.partial, self._own = self._stream.leave(self)

    def result(self, totals: list[int]) -> tuple[int, int, int]:
        """(lost, repeated, out of order) when producer `n` sent `totals[n]`."""
        if self._own is None:
            return max(sum(totals) - self.count, 0), 0, 0
        return self._own.lost(totals), self._own.repeated, self._own.out_of_order
