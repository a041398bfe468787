"""Deliveries, cut out of a connection's stream by columns.

In: bytes as they were read, in any pieces. Out: the numbers and send times of the deliveries that
became whole, with their consumer tags where a connection has several consumers; and the methods
between them, which are rare.
"""

from typing import Final

from fedq.amqp.frames import scan_frame
from fedq.amqp.methods import Method, decode_method
from fedq.amqp.spec import BASIC, BASIC_DELIVER, FRAME_HEARTBEAT, FRAME_METHOD, ids_bytes
from fedq.bench.cut import REDELIVERED_AT, cut
from fedq.core.errors import FRAME_ERROR, ConnectionViolation

FRAME_BYTES_MAX: Final = 131_072

_DELIVER: Final = ids_bytes(BASIC, BASIC_DELIVER)


class Batch:
    """What a read brought: columns of equal length. Times in nanoseconds."""

    __slots__ = ("ends", "methods", "numbers", "redelivered", "tags", "times")

    def __init__(self) -> None:
        #: Where each delivery ends, counted from the first byte that was not cut before.
        self.ends: list[int] = []
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.tags: list[bytes] = []
        self.methods: list[Method] = []
        #: Which of the deliveries came back from another consumer, as places in the columns.
        self.redelivered: dict[int, None] = {}


class Reader:
    """One connection's stream of deliveries."""

    __slots__ = ("_has_ends", "_has_tags", "partial")

    def __init__(self, has_tags: bool = False, has_ends: bool = False) -> None:
        """Whether consumer tags and ends are wanted."""
        #: The beginning of a delivery that is not whole yet.
        self.partial = b""
        self._has_tags = has_tags
        self._has_ends = has_ends

    def take(self, data: bytes) -> Batch:
        """What became whole with this data. Raises `ConnectionViolation` for a broken stream."""
        if self.partial:
            data = self.partial + data
        batch = Batch()
        at = self._cut(data, 0, batch)
        while at < len(data):
            # Not a whole delivery: another method, a heartbeat, or the rest of the data.
            found = scan_frame(data, at, FRAME_BYTES_MAX)
            if found is None:
                break
            kind, _, start, end = found
            if data.startswith(_DELIVER, start):
                end = _delivery_end(data, at)
                if not end:
                    break
                self._cut_redelivered(data[at:end], end, batch)
                at = self._cut(data, end, batch)
                continue
            if kind == FRAME_METHOD:
                batch.methods.append(decode_method(data[start:end]))
            elif kind != FRAME_HEARTBEAT:
                raise ConnectionViolation(FRAME_ERROR, "a content that no delivery announces")
            at = self._cut(data, end + 1, batch)
        self.partial = data[at:] if at else data
        return batch

    def _cut_redelivered(self, delivery: bytes, end: int, batch: Batch) -> None:
        """The one delivery as a regular one; `end` is its place. Raises `ConnectionViolation`."""
        plain = delivery[:REDELIVERED_AT] + b"\0" + delivery[REDELIVERED_AT + 1 :]
        if delivery[REDELIVERED_AT] != 1 or not self._cut(plain, 0, batch):
            raise ConnectionViolation(FRAME_ERROR, "a delivery that is not the generator's")
        batch.redelivered[len(batch.numbers) - 1] = None
        if batch.ends:
            batch.ends[-1] = end

    def _cut(self, data: bytes, at: int, batch: Batch) -> int:
        tags = batch.tags if self._has_tags else None
        ends = batch.ends if self._has_ends else None
        return cut(data, at, batch.numbers, batch.times, tags, ends)


def _delivery_end(data: bytes, at: int) -> int:
    """Where the three frames of a delivery end; 0: they are not all there.

    Raises `ConnectionViolation`.
    """
    for _ in range(3):
        found = scan_frame(data, at, FRAME_BYTES_MAX)
        if found is None:
            return 0
        at = found[3] + 1
    return at
