"""The way from streams to their readers: each has a place of its own, and takes nothing away.

    fragment here --read--> a chunk for all readers at a place --> channel's tags --> frames
    fragment elsewhere --ReadStream, StreamPart--> the same

A reader gets what is committed, from its place on, as long as it has credit: its prefetch, less
what it has not acknowledged. As much is read as it takes. Who is served goes behind the others.
What is written for one reader (the header `x-stream-offset`) is written once for all at its place
that have the same filter. What a filter does not want moves cursors, and is all the same a piece in
turn: who wants little waits for no more than the others.

Changes cursors and chunks; channels' unacked windows, by way of `ConsumeFlow`; sends to peers.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from fedq.amqp.offsets import with_offsets
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import DELIVERY_BATCH_MAX, DELIVERY_BYTES_PER_TURN_MAX
from fedq.core.peer_messages import READ_FROM, ReadStream, StreamPart
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.records.client_state import Consumer, Cursor, Place
from fedq.node.records.named_readers import Member
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.streams.stream_readers import (
    Begun,
    Chunk,
    Starts,
    StreamReaders,
    Then,
    as_read,
)
from fedq.node.streams.naming import Naming
from fedq.node.streams.scanning import Scanning
from fedq.node.streams.serving import DEAL_SHIFT, Found, Serving, base_of, position_of
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.cluster_map.stream_arguments import Beginning

#: So many readers are looked at in a unit of work, as a shift.
_LOOK_SHIFT: Final = 3
#: After how long it is asked again what the node that serves a stream had no room to wait for.
_AGAIN_MS: Final = 1_000
#: What was written for readers that have no room for it may take a part of what pages may, all
#: streams together: one in so many.
_CHUNKS_PART: Final = 4
#: The highest offset that a header can say.
_OFFSET_MAX: Final = (1 << 63) - 1


class Reading:
    """Serves the readers of streams that are on this node."""

    __slots__ = ("_questions", "consuming", "naming", "scanning", "serving", "state")

    def __init__(
        self, state: NodeState, consuming: ConsumeFlow, serving: Serving, naming: Naming,
        scanning: Scanning,
    ) -> None:  # fmt: skip
        self.state = state
        self.scanning = scanning
        self.naming = naming
        self.consuming = consuming
        self.serving = serving
        #: Counts questions with a filter.
        self._questions = 0

    # --- readers begin -----------------------------------------------------------------------

    def find(self, queue: QueueKey, beginning: Beginning, begun: Begun) -> None:
        """Finds out where a reader begins; `begun` hears it once, at once if the stream is here."""
        fragments = list(self.state.map.queues[queue].fragments)
        starts = Starts(len(fragments), begun)
        for fragment in fragments:
            info = self.state.map.fragments[fragment]
            self._find(info, beginning, partial(starts.take, fragment))

    def _find(self, info: FragmentInfo, beginning: Beginning, then: Then) -> None:
        """Finds out where a reader begins in a fragment."""
        position = position_of(info, beginning)
        primary = self.state.primaries.get(info.id)
        if position is None and primary is not None:
            position = self.serving.seek(primary, beginning)
        if position is not None:
            then(position)
            return
        seeks = self.serving.readers_of(info.queue, info.id).seeks
        waiting = seeks.setdefault((beginning.kind, beginning.value), [])
        waiting.append(then)
        if len(waiting) == 1:
            self._ask(info, beginning.kind, beginning.value, 0)

    def find_named(self, members: Mapping[FragmentId, Member], begun: Begun) -> None:
        """As `find`, for a reader with a name, which may have to wait for its turns."""
        starts = Starts(len(members), begun)
        for fragment, member in members.items():
            info = self.state.map.fragments[fragment]
            self.naming.begin(info, member, partial(starts.take, fragment))

    def add(self, consumer: Consumer) -> None:
        """A reader begins, at its cursors."""
        consumer.channel.consumers[consumer.tag] = consumer
        self.state.accounts.count_consumers(consumer.channel.client, 1)
        for fragment, cursor in (consumer.cursors or {}).items():
            self.serving.readers_of(consumer.queue, fragment).add(cursor)
        self.state.marks.queues[consumer.queue] = None

    # --- deliveries --------------------------------------------------------------------------

    def dispatch(self, queue: QueueKey) -> None:
        """Gives the readers of a stream what they take now, as far as the turn has room for it.

        A fragment that gave messages goes behind the others: all have one credit.
        """
        state = self.state
        parts = state.streams.get(queue, {})
        is_full = False
        for fragment in list(parts):
            info = state.map.fragments.get(fragment)
            readers = parts.get(fragment)
            if info is None or readers is None:
                continue
            if is_full:
                # In the next turn it is among the first.
                state.marks.unfinished[fragment] = None
            elif not state.serving:
                state.pages.later[fragment] = None
            elif not self._dispatch(readers, info):
                is_full = True
                if fragment in parts:
                    parts[fragment] = parts.pop(fragment)

    def _dispatch(self, readers: StreamReaders, info: FragmentInfo) -> bool:
        """Gives the readers of a fragment what they take now; false if the turn had no room."""
        state = self.state
        primary = state.primaries.get(info.id)
        if readers.has_left:
            self._take_back(readers, info)
        self.naming.look(readers, info, primary)
        # Whoever comes second gets nothing in a turn that others have used up.
        is_first = state.work.turn & 1 == 0
        is_done = not is_first or self._serve(readers, info, primary)
        is_served = self._serve_others(readers, primary)
        if not is_served:
            state.marks.unfinished[info.id] = None
        if not is_first:
            is_done = self._serve(readers, info, primary)
        if is_done:
            self.serving.paging.had_a_look(info.id)
        # What was written and not given yet, as the turn had no room, is given in the next one.
        count = len(state.streams) - 1 + len(state.streams[info.queue])
        readers.keep(self.serving.paging.bound // (_CHUNKS_PART * count), 0 if is_done else 1)
        if readers.is_idle:
            state.forget_readers(info.queue, info.id)
        return is_done and is_served

    def _serve_others(self, readers: StreamReaders, primary: Primary | None) -> bool:
        """Answers other nodes, then scans; a piece of each, whatever the turn has room for."""
        if primary is None:
            readers.refuse_scans()
            return True
        is_served = self.serving.serve(readers, primary)
        return self.scanning.serve(readers, primary) and is_served

    def _serve(self, readers: StreamReaders, info: FragmentInfo, primary: Primary | None) -> bool:
        """Serves readers in turns, a chunk each, until they have enough or all there is.

        False if the turn had no room for all of that.
        """
        state, places = self.state, readers.places()
        waiting = list(readers.cursors)
        state.work.spend(len(waiting) >> _LOOK_SHIFT)
        while waiting:
            hungry: list[Cursor] = []
            for cursor in waiting:
                room = room_of(cursor)
                if room <= 0:
                    continue
                chunk = self._chunk_for(readers, info, primary, cursor, room)
                if chunk is None:
                    continue
                count = self._give(readers, info, places, cursor, chunk, room)
                work, chunk.work = chunk.work, 0
                if not state.work.deal(1 + (count >> DEAL_SHIFT) + work):
                    state.marks.unfinished[info.id] = None
                    return False
                hungry.append(cursor)
            waiting = hungry
        return True

    def _chunk_for(
        self, readers: StreamReaders, info: FragmentInfo, primary: Primary | None,
        cursor: Cursor, room: int,
    ) -> Chunk | None:  # fmt: skip
        """What the reader gets next; None if it is not here, and then it is asked for."""
        place = cursor.place
        chunk = readers.chunks.get(place)
        if chunk is not None:
            return chunk
        if primary is None:
            if place not in readers.asked:
                if readers.again.get(place, 0) > self.state.now_ms:
                    self.state.pages.later[info.id] = None
                    return None
                readers.again.pop(place, None)
                self._ask_for(readers, info, place, min(room, DELIVERY_BATCH_MAX))
            return None
        if cursor.next > primary.replication.commit:
            return None
        found = self.serving.read(primary, cursor.next, room, cursor.wanted)
        return self._write(readers, info, place, found)

    def _give(
        self, readers: StreamReaders, info: FragmentInfo, places: dict[Place, int],
        cursor: Cursor, chunk: Chunk, room: int,
    ) -> int:  # fmt: skip
        """Gives a reader what it takes of a chunk, which goes with the last reader there.

        One in which there is nothing for it moves its cursor alone.
        """
        positions, messages = chunk.part(room)
        place = cursor.place
        cursor.next = chunk.next if len(positions) == len(chunk.positions) else positions[-1] + 1
        following = cursor.place
        places[following] = places.get(following, 0) + 1
        places[place] -= 1
        if not places[place]:
            del places[place]
            readers.drop(place)
        if cursor.named is not None:
            cursor.named.deliver(positions, cursor.next)
            readers.moved[cursor.named] = None
        if positions:
            consumer = cursor.consumer
            consumer.channel.got += len(positions)
            self.state.at, self.state.at_what = consumer, None
            self.consuming.deliver_run(consumer, as_read(info.id), positions, messages, [])
            self.state.streams[info.queue][info.id] = self.state.streams[info.queue].pop(info.id)
        readers.turn(cursor)
        return len(positions)

    # --- streams that other nodes serve ------------------------------------------------------

    def _ask(self, info: FragmentInfo, kind: int, value: int, amount: int) -> None:
        """Asks the node that serves the stream; if nobody does, whoever is next."""
        self._say(info, ReadStream(info.id, info.reign, kind, value, amount))

    def _say(self, info: FragmentInfo, message: ReadStream) -> None:
        primary = self.state.primary_of(info.id)
        if primary is not None and primary != self.state.me:
            self.state.send(primary, message)

    def _ask_for(
        self, readers: StreamReaders, info: FragmentInfo, place: Place, amount: int
    ) -> None:
        """Asks the node that serves the stream for what is at a place."""
        position, wanted = place
        if wanted is None:
            readers.ask(place, 0)
            self._ask(info, READ_FROM, position, amount)
            return
        self._questions += 1
        readers.ask(place, self._questions)
        self._say(
            info,
            ReadStream(
                info.id, info.reign, READ_FROM, position, amount, self._questions, wanted.values,
                wanted.unfiltered,
            ),
        )  # fmt: skip

    def _take_back(self, readers: StreamReaders, info: FragmentInfo) -> None:
        """Takes back what was asked for readers that have left: somebody would walk in vain."""
        places = readers.places()
        self.state.work.deal((len(readers.cursors) + len(readers.awaited)) >> _LOOK_SHIFT)
        for position, number in readers.take_back(places):
            self._say(info, ReadStream(info.id, info.reign, READ_FROM, position, 0, number))

    def on_part(self, sender: NodeId, message: StreamPart) -> None:
        """Takes messages, or where a reader begins, from the node that serves the stream."""
        info = self.state.map.fragments.get(message.fragment)
        readers = self.state.readers_of(info.queue, info.id) if info is not None else None
        if info is None or readers is None:
            return
        if info.reign != message.reign or info.primary != sender:
            return
        if message.kind != READ_FROM:
            for then in readers.seeks.pop((message.kind, message.value), []):
                then(message.next)
        else:
            place = readers.answered(message.value, message.request)
            if place is not None:
                found = Found(message.positions, message.messages, message.next, 0, [])
                if self._write(readers, info, place, found) is None:
                    # It had no room for the question.
                    self.state.work.spend(len(readers.cursors) >> _LOOK_SHIFT)
                    readers.put_off(place, self.state.now_ms + _AGAIN_MS)
        self.state.marks.queues[info.queue] = None

    def ask_again(self, fragment: FragmentId) -> None:
        """What was asked is void: another node serves the stream, or the link to it is new."""
        info = self.state.map.fragments.get(fragment)
        readers = self.state.readers_of(info.queue, fragment) if info is not None else None
        if info is None or readers is None:
            return
        readers.asked, readers.awaited, readers.again = {}, {}, {}
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
        self.naming.say_again(readers, info)
        self.state.marks.queues[info.queue] = None

    def _write(
        self, readers: StreamReaders, info: FragmentInfo, place: Place, found: Found
    ) -> Chunk | None:
        """A chunk of what was read, as its readers get it; None if nothing was."""
        if found.next <= place[0]:
            return None
        base, parts = base_of(info), self.state.parted.get(info.queue)
        number = parts.index(info.id) if parts is not None else None
        offsets = [min(max(position - base, 0), _OFFSET_MAX) for position in found.positions]
        written = with_offsets(found.messages, offsets, number)
        chunk = Chunk(found.positions, written, found.next, found.work)
        readers.put(place, chunk)
        return chunk


def room_of(cursor: Cursor) -> int:
    """How many more messages a reader takes now: a prefetch of its channel does not count."""
    consumer = cursor.consumer
    channel = consumer.channel
    client = channel.client
    if cursor.waits:
        return 0
    if not client.writable or not channel.flow:
        return 0
    if client.delivered_bytes >= DELIVERY_BYTES_PER_TURN_MAX:
        return 0
    return consumer.limit - consumer.unacked
