"""The way from streams to their readers: each has a place of its own, and takes nothing away.

    local fragment --read--> a chunk for all readers that are there --> channel's tags --> frames

A reader gets what is committed, from its place on, as long as it has credit: its prefetch, less
what it has not acknowledged. Who is served goes behind the others. What is written for one reader
(the header `x-stream-offset`) is written once for all that read the same chunk.

Changes cursors and chunks; channels' unacked windows, by way of `ConsumeFlow`.
"""

from typing import Final

from fedq.amqp.rewriting import with_offset
from fedq.core.ids import QueueKey, first_position
from fedq.core.limits import DELIVERY_BATCH_MAX, DELIVERY_BYTES_PER_TURN_MAX, KIB
from fedq.fragments.streams import read_from
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.records.client_state import Consumer
from fedq.node.records.state import NodeState, Primary
from fedq.node.records.stream_readers import NO_FRAGMENT, Chunk, StreamReaders
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.cluster_map.stream_arguments import FIRST, LAST, OFFSET, TIME, Beginning

#: What is read at once for all readers that are there.
_CHUNK_BYTES: Final = 256 * KIB
#: What a message of a chunk costs, in units of work, as a shift: it is decoded and written anew.
_WRITE_SHIFT: Final = 3
#: So many readers are looked at in a unit of work, as a shift.
_LOOK_SHIFT: Final = 3


class Reading:
    """Serves the readers of streams."""

    __slots__ = ("consuming", "state")

    def __init__(self, state: NodeState, consuming: ConsumeFlow) -> None:
        self.state = state
        self.consuming = consuming

    # --- readers begin -----------------------------------------------------------------------

    def seek(self, primary: Primary, info: FragmentInfo, beginning: Beginning) -> int:
        """The position from which on such a reader gets messages."""
        fragment, (kind, value) = primary.fragment, beginning
        log = fragment.log
        assert log is not None, "the fragment is one of a stream"
        if kind == FIRST:
            return 0
        if kind == LAST:
            return log.batch
        if kind == OFFSET:
            return base_of(info) + value
        since = log.since(value) if kind == TIME else None
        return fragment.last + 1 if since is None else since

    def add(self, consumer: Consumer) -> None:
        """A reader begins, at its cursor."""
        consumer.channel.consumers[consumer.tag] = consumer
        self.state.accounts.count_consumers(consumer.channel.client, 1)
        readers = self.state.streams.get(consumer.queue)
        if readers is None:
            readers = self.state.streams[consumer.queue] = StreamReaders()
        readers.consumers[consumer] = None
        self.state.marks.queues[consumer.queue] = None

    # --- deliveries --------------------------------------------------------------------------

    def dispatch(self, queue: QueueKey) -> None:
        """Gives the readers of a stream what they take now, as far as the turn has room for it."""
        state = self.state
        readers, info = state.streams.get(queue), state.map.queues.get(queue)
        if readers is None or info is None or not state.serving:
            return
        placed = state.map.fragments[info.fragments[0]]
        primary = state.primaries.get(placed.id)
        if primary is not None:
            self._serve(readers, primary, placed)

    def _serve(self, readers: StreamReaders, primary: Primary, info: FragmentInfo) -> None:
        """Serves readers in turns, a chunk each, until they have enough or all there is."""
        state, commit = self.state, primary.replication.commit
        waiting = list(readers.consumers)
        state.work.spend(len(waiting) >> _LOOK_SHIFT)
        while waiting:
            hungry: list[Consumer] = []
            for consumer in waiting:
                cursor, room = consumer.cursor, room_of(consumer)
                if cursor is None or room <= 0 or cursor.next > commit:
                    continue
                if not state.work.deal(1):
                    state.marks.unfinished[info.id] = None
                    return
                if self._give(readers, consumer, primary, info, min(room, DELIVERY_BATCH_MAX)):
                    hungry.append(consumer)
            waiting = hungry

    def _give(
        self, readers: StreamReaders, consumer: Consumer, primary: Primary, info: FragmentInfo,
        amount: int,
    ) -> bool:  # fmt: skip
        """Gives a reader its part of a chunk; false if there is nothing to read there now."""
        cursor = consumer.cursor
        assert cursor is not None
        chunk = readers.chunk
        if chunk is None or not chunk.has(cursor.next):
            chunk = readers.chunk = self._read(primary, info, cursor.next)
            if not chunk.positions:
                readers.chunk = None
                return False
        positions, messages = chunk.part(max(cursor.next, chunk.first), amount)
        cursor.next = positions[-1] + 1
        consumer.channel.got += len(positions)
        self.state.at, self.state.at_what = consumer, None
        self.consuming.deliver_run(consumer, NO_FRAGMENT, positions, messages, [])
        readers.turn(consumer)
        return True

    def _read(self, primary: Primary, info: FragmentInfo, position: int) -> Chunk:
        """Reads a chunk of what is committed, and writes it as readers get it."""
        base, commit = base_of(info), primary.replication.commit
        positions: list[int] = []
        messages: list[bytes] = []
        pieces = read_from(primary.fragment.fresh, position, DELIVERY_BATCH_MAX, _CHUNK_BYTES)
        for first, part in pieces:
            for place, message in enumerate(part[: max(0, commit - first + 1)], first):
                positions.append(place)
                messages.append(with_offset(message, place - base))
        self.state.work.deal(len(positions) >> _WRITE_SHIFT)
        return Chunk(position, positions, messages)


def base_of(info: FragmentInfo) -> int:
    """The position of the first message that a stream ever got: the one with offset 0."""
    return first_position(info.created) + 1


def room_of(consumer: Consumer) -> int:
    """How many more messages a reader takes now: a prefetch of its channel does not count."""
    channel = consumer.channel
    client = channel.client
    if not client.writable or not channel.flow:
        return 0
    if client.delivered_bytes >= DELIVERY_BYTES_PER_TURN_MAX:
        return 0
    return consumer.limit - consumer.unacked
