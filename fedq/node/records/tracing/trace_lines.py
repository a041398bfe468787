"""What one trace wants to hear, and the lines that wait to be written for it on this node.

Inputs: lines of `fedq.core.trace_records`. What has no room is counted, and said as a gap.

Invariant: what is held is bounded, in lines, bytes, channels and fragments.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from fedq.core.ids import QueueKey
from fedq.core.message import HEAD_SIZE
from fedq.core.ranges import Range
from fedq.wiring.cluster_map.operations_tracing import DEFAULT_EXCHANGE, Trace

#: What waits for a trace on a node, at most.
LINES_MAX: Final = 20_000
LINES_BYTES_MAX: Final = 4 << 20
#: How many channels and fragments a trace of an exchange, or a queue, remembers.
REMEMBERED_MAX: Final = 10_000
#: So many positions in a row, as a shift, are sampled together, or not.
BLOCK_SHIFT: Final = 6
_BLOCK: Final = 1 << BLOCK_SHIFT
#: So many groups of blocks are looked at for one event.
SAMPLED_MAX: Final = 4_096
#: Odd constants that spread numbers over 32 bits.
_SPREAD: Final = 0x9E3779B1
_MIX: Final = 0x85EBCA6B
_LOW: Final = 0xFFFFFFFF


Key = TypeVar("Key")


class TraceLines:
    """One trace on this node."""

    __slots__ = (
        "_exchange", "_exchange_prefix", "_queue", "_vhost", "batch", "channels", "lines", "lost",
        "name", "sample", "since_ms", "size", "touched", "trace",
    )  # fmt: skip

    def __init__(self, name: str, trace: Trace) -> None:
        self.name = name
        self.trace = trace
        self.sample = trace.sample
        self._vhost = trace.vhost
        self._queue = trace.queue
        self._exchange = trace.exchange
        exchange = "" if trace.exchange == DEFAULT_EXCHANGE else trace.exchange
        named = exchange.encode("utf-8", "surrogateescape")
        #: As routes in messages begin, behind the message's head.
        self._exchange_prefix = b"%c%b" % (len(named), named)
        self.lines: list[bytes] = []
        self.size = 0
        #: Events that had no room since the last batch that was written.
        self.lost = 0
        #: The number of the last batch.
        self.batch = 0
        #: When the first of the lines came, by the clock of turns.
        self.since_ms = 0
        #: Channels (connection and number) that published what this is about.
        self.channels: dict[tuple[int, int], None] = {}
        #: Fragments that got something that was published to the exchange.
        self.touched: dict[int, None] = {}

    def add(self, line: bytes, now_ms: int) -> None:
        """Adds a line, or counts it as lost."""
        if len(self.lines) >= LINES_MAX or self.size + len(line) > LINES_BYTES_MAX:
            self.lost += 1
            return
        if not self.lines:
            self.since_ms = now_ms
        self.lines.append(line)
        self.size += len(line) + 1

    def drop(self) -> None:
        """Counts all lines as lost."""
        self.lost += len(self.lines)
        self.lines, self.size = [], 0

    # --- what is wanted --------------------------------------------------------------------------

    def wants_publish(
        self, vhost: str, exchange: str, names: Sequence[str], publisher: tuple[int, int]
    ) -> bool:
        """Whether a publish to an exchange, which goes to these queues, is wanted."""
        if self._vhost and vhost != self._vhost:
            return False
        if self._exchange and (exchange or DEFAULT_EXCHANGE) != self._exchange:
            return False
        if self._queue and self._queue not in names:
            return False
        if self._exchange or self._queue:
            _remember(self.channels, publisher)
        return True

    def wants_channel(self, vhost: str, publisher: tuple[int, int]) -> bool:
        """Whether what a channel hears of its publishes is wanted."""
        if self._vhost and vhost != self._vhost:
            return False
        return publisher in self.channels if self._exchange or self._queue else True

    def wants_routed(self, queue: QueueKey, publisher: tuple[int, int] | None) -> bool:
        """Whether it is wanted that a channel's publishes, or (None) dead letters, go there."""
        if self._vhost and queue.vhost != self._vhost:
            return False
        if self._queue and queue.name != self._queue:
            return False
        return publisher is None or not self._exchange or publisher in self.channels

    def wants_fragment(
        self, queue: QueueKey, fragment: int, messages: Sequence[bytes] | None = None
    ) -> bool:
        """Whether what happens in a fragment is wanted; `messages`: to these of it."""
        if self._vhost and queue.vhost != self._vhost:
            return False
        if self._queue and queue.name != self._queue:
            return False
        if not self._exchange:
            return True
        if messages is None:
            return fragment in self.touched
        prefix, end = self._exchange_prefix, HEAD_SIZE + len(self._exchange_prefix)
        for message in messages:
            if message[HEAD_SIZE:end] == prefix:
                _remember(self.touched, fragment)
                return True
        return False


def _remember(known: dict[Key, None], key: Key) -> None:
    """Remembers a key; of very many the oldest is forgotten."""
    if key in known:
        return
    if len(known) >= REMEMBERED_MAX:
        del known[next(iter(known))]
    known[key] = None


def is_sampled(fragment: int, position: int, sample: int) -> bool:
    """Whether a message is one of those that a trace of one in `sample` takes in.

    The same on all nodes, at all times, for all messages of a block of positions: one block of each
    `sample` that stand in a row, which a hash of their place and the fragment chooses.
    """
    group, place = divmod(position >> BLOCK_SHIFT, sample)
    return place == _chosen(fragment, group, sample)


def _chosen(fragment: int, group: int, sample: int) -> int:
    """Which block of a group is sampled."""
    mixed = (group * _SPREAD ^ (fragment & _LOW) * _MIX) & _LOW
    mixed = (mixed ^ mixed >> 15) * _MIX & _LOW
    return (mixed ^ mixed >> 13) % sample


def sampled(fragment: int, ranges: Sequence[Range], sample: int) -> list[tuple[int, int, int]]:
    """The parts of these ranges that are sampled: first, last, and how many stood before it.

    Very long ones are all in: that costs less to find, to note and to read than their parts.
    """
    found: list[tuple[int, int, int]] = []
    before, left = 0, SAMPLED_MAX
    for first, last in ranges:
        groups = range((first >> BLOCK_SHIFT) // sample, (last >> BLOCK_SHIFT) // sample + 1)
        left -= len(groups)
        if left < 0:
            found.append((first, last, before))
        else:
            found += _parts(fragment, groups, (first, last), sample, before)
        before += last - first + 1
    return found


def _parts(
    fragment: int, groups: range, whole: Range, sample: int, before: int
) -> list[tuple[int, int, int]]:
    """The parts of a range that are sampled, of which so many stand before it."""
    first, last = whole
    found: list[tuple[int, int, int]] = []
    for group in groups:
        start = group * sample + _chosen(fragment, group, sample) << BLOCK_SHIFT
        at, end = max(start, first), min(start + _BLOCK - 1, last)
        if at > end:
            continue
        if found and found[-1][1] == at - 1:
            found[-1] = (found[-1][0], end, found[-1][2])
        else:
            found.append((at, end, before + at - first))
    return found
