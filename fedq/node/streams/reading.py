"""The way from streams to their readers: each has a place of its own, and takes nothing away.

    fragment here --read--> a chunk for all readers at a place --> channel's tags --> frames
    fragment elsewhere --ReadStream, StreamPart--> the same

A reader gets what is committed, from its place on, as long as it has credit: its prefetch, less
what it has not acknowledged. As much is read as it takes. Who is served goes behind the others.
What is written for one reader (the header `x-stream-offset`) is written once for all at its place.

Changes cursors and chunks; channels' unacked windows, by way of `ConsumeFlow`; sends to peers.
"""

from typing import Final

from fedq.amqp.rewriting import with_offset
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import DELIVERY_BATCH_MAX, DELIVERY_BYTES_PER_TURN_MAX
from fedq.core.peer_messages import READ_FROM, ReadStream, StreamPart
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.records.client_state import Consumer
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.stream_readers import NO_FRAGMENT, Chunk, StreamReaders, Then
from fedq.node.streams.serving import DEAL_SHIFT, Serving, base_of, position_of
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.cluster_map.stream_arguments import Beginning

#: So many readers are looked at in a unit of work, as a shift.
_LOOK_SHIFT: Final = 3
#: What was written for readers that have no room for it may take a part of what pages may, all
#: streams together: one in so many.
_CHUNKS_PART: Final = 4
#: The highest offset that a header can say.
_OFFSET_MAX: Final = (1 << 63) - 1


class Reading:
    """Serves the readers of streams that are on this node."""

    __slots__ = ("consuming", "serving", "state")

    def __init__(self, state: NodeState, consuming: ConsumeFlow, serving: Serving) -> None:
        self.state = state
        self.consuming = consuming
        self.serving = serving

    # --- readers begin -----------------------------------------------------------------------

    def find(self, queue: QueueKey, beginning: Beginning, then: Then) -> None:
        """Finds out where a reader begins, at once if the stream is here; `then` hears it once."""
        info = self._placed(queue)
        assert info is not None, "the queue was looked up in this very turn"
        position = position_of(info, beginning)
        primary = self.state.primaries.get(info.id)
        if position is None and primary is not None:
            position = self.serving.seek(primary, beginning)
        if position is not None:
            then(position)
            return
        seeks = self.serving.readers_of(queue).seeks
        waiting = seeks.setdefault((beginning.kind, beginning.value), [])
        waiting.append(then)
        if len(waiting) == 1:
            self._ask(info, beginning.kind, beginning.value, 0)

    def add(self, consumer: Consumer) -> None:
        """A reader begins, at its cursor."""
        consumer.channel.consumers[consumer.tag] = consumer
        self.state.accounts.count_consumers(consumer.channel.client, 1)
        self.serving.readers_of(consumer.queue).consumers[consumer] = None
        self.state.marks.queues[consumer.queue] = None

    # --- deliveries --------------------------------------------------------------------------

    def dispatch(self, queue: QueueKey) -> None:
        """Gives the readers of a stream what they take now, as far as the turn has room for it."""
        state = self.state
        readers, info = state.streams.get(queue), self._placed(queue)
        if readers is None or info is None:
            return
        if not state.serving:
            state.pages.later[info.id] = None
            return
        primary = state.primaries.get(info.id)
        if primary is not None and not self.serving.serve(readers, primary):
            state.marks.unfinished[info.id] = None
            return
        is_done = self._serve(readers, info, primary)
        if is_done:
            self.serving.paging.had_a_look(info.id)
        # What was written and not given yet, as the turn had no room, is given in the next one.
        most = self.serving.paging.bound // (_CHUNKS_PART * len(state.streams))
        readers.keep(most, 0 if is_done else 1)
        if readers.is_idle:
            del state.streams[queue]

    def _serve(self, readers: StreamReaders, info: FragmentInfo, primary: Primary | None) -> bool:
        """Serves readers in turns, a chunk each, until they have enough or all there is.

        False if the turn had no room for all of that.
        """
        state, places = self.state, readers.places()
        waiting = list(readers.consumers)
        state.work.spend(len(waiting) >> _LOOK_SHIFT)
        while waiting:
            hungry: list[Consumer] = []
            for consumer in waiting:
                room = room_of(consumer)
                if room <= 0:
                    continue
                chunk = self._chunk_for(readers, info, primary, consumer, room)
                if chunk is None:
                    continue
                count = self._give(readers, places, consumer, chunk, room)
                if not state.work.deal(1 + (count >> DEAL_SHIFT)):
                    state.marks.unfinished[info.id] = None
                    return False
                hungry.append(consumer)
            waiting = hungry
        return True

    def _chunk_for(
        self, readers: StreamReaders, info: FragmentInfo, primary: Primary | None,
        consumer: Consumer, room: int,
    ) -> Chunk | None:  # fmt: skip
        """What the reader gets next; None if it is not here, and then it is asked for."""
        cursor = consumer.cursor
        assert cursor is not None
        chunk = readers.chunks.get(cursor.next)
        if chunk is not None:
            return chunk
        if primary is None:
            if cursor.next not in readers.asked:
                readers.asked[cursor.next] = None
                self._ask(info, READ_FROM, cursor.next, min(room, DELIVERY_BATCH_MAX))
            return None
        if cursor.next > primary.replication.commit:
            return None
        positions, messages = self.serving.read(primary, cursor.next, room)
        return _write(readers, info, cursor.next, positions, messages)

    def _give(
        self, readers: StreamReaders, places: dict[int, int], consumer: Consumer, chunk: Chunk,
        room: int,
    ) -> int:  # fmt: skip
        """Gives a reader what it takes of a chunk, which goes with the last reader there."""
        positions, messages = chunk.part(room)
        assert consumer.cursor is not None
        place, following = consumer.cursor.next, positions[-1] + 1
        consumer.cursor.next = following
        places[following] = places.get(following, 0) + 1
        places[place] -= 1
        if not places[place]:
            del places[place]
            readers.drop(place)
        consumer.channel.got += len(positions)
        self.state.at, self.state.at_what = consumer, None
        self.consuming.deliver_run(consumer, NO_FRAGMENT, positions, messages, [])
        readers.turn(consumer)
        return len(positions)

    # --- streams that other nodes serve ------------------------------------------------------

    def _ask(self, info: FragmentInfo, kind: int, value: int, amount: int) -> None:
        """Asks the node that serves the stream; if nobody does, whoever is next."""
        primary = self.state.primary_of(info.id)
        if primary is not None and primary != self.state.me:
            self.state.send(primary, ReadStream(info.id, info.reign, kind, value, amount))

    def on_part(self, sender: NodeId, message: StreamPart) -> None:
        """Takes messages, or where a reader begins, from the node that serves the stream."""
        info = self.state.map.fragments.get(message.fragment)
        readers = self.state.streams.get(info.queue) if info is not None else None
        if info is None or readers is None:
            return
        if info.reign != message.reign or info.primary != sender:
            return
        if message.kind != READ_FROM:
            for then in readers.seeks.pop((message.kind, message.value), []):
                then(message.next)
        elif message.value in readers.asked:
            del readers.asked[message.value]
            _write(readers, info, message.value, message.positions, message.messages)
        self.state.marks.queues[info.queue] = None

    def ask_again(self, fragment: FragmentId) -> None:
        """What was asked is void: another node serves the stream, or the link to it is new."""
        info = self.state.map.fragments.get(fragment)
        readers = self.state.streams.get(info.queue) if info is not None else None
        if info is None or readers is None:
            return
        readers.asked = {}
        primary = self.state.primaries.get(fragment)
        seeks = readers.seeks
        if primary is not None:
            readers.seeks = {}
        else:
            readers.reads = {}
        for (kind, value), waiting in seeks.items():
            if primary is None:
                self._ask(info, kind, value, 0)
                continue
            position = self.serving.seek(primary, Beginning(kind, value))
            for then in waiting:
                then(position)
        self.state.marks.queues[info.queue] = None

    def _placed(self, queue: QueueKey) -> FragmentInfo | None:
        """Where the stream is."""
        info = self.state.map.queues.get(queue)
        return self.state.map.fragments[info.fragments[0]] if info is not None else None


def _write(
    readers: StreamReaders, info: FragmentInfo, place: int, positions: list[int],
    messages: list[bytes],
) -> Chunk | None:  # fmt: skip
    """A chunk of what was read, as its readers get it; None if there is nothing."""
    if not positions:
        return None
    base = base_of(info)
    written = [
        with_offset(message, min(max(position - base, 0), _OFFSET_MAX))
        for position, message in zip(positions, messages, strict=True)
    ]
    chunk = Chunk(positions, written)
    readers.put(place, chunk)
    return chunk


def room_of(consumer: Consumer) -> int:
    """How many more messages a reader takes now: a prefetch of its channel does not count."""
    channel = consumer.channel
    client = channel.client
    if not client.writable or not channel.flow:
        return 0
    if client.delivered_bytes >= DELIVERY_BYTES_PER_TURN_MAX:
        return 0
    return consumer.limit - consumer.unacked
