"""Streams that this node serves: where a reader begins, and what is read from a position on.

Inputs: questions of this node and of others. Outputs: positions, messages that are committed. A
question for messages that are not there yet waits for them (`StreamReaders.reads`).

Changes the readers' records; sends to peers; marks queues.
"""

from typing import Final, NamedTuple

from fedq.amqp.filtering import Sieve, StreamFilter
from fedq.amqp.route_filtering import RouteSieve
from fedq.amqp.stored import as_published
from fedq.core.ids import FragmentId, NodeId, QueueKey, first_position
from fedq.core.limits import DELIVERY_BATCH_MAX, KIB, MIB
from fedq.core.peer_messages import READ_FROM, ReadStream, StreamPart
from fedq.core.ranges import Range
from fedq.fragments.streams.log import read_from
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.streams.stream_readers import Read, ReadKey, StreamReaders
from fedq.node.streams.paging import Paging
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.cluster_map.stream_arguments import FIRST, LAST, OFFSET, TIME, Beginning

#: What is read at once.
_READ_BYTES: Final = 128 * KIB
#: So many messages are handed out for a unit of work, as a shift.
DEAL_SHIFT: Final = 3
#: How far a filter walks at once: messages, and their bytes, of which only some are looked at. And
#: after how many positions without any that is wanted a node is told so.
_WALK_MAX: Final = 1_024
_WALK_BYTES: Final = 4 * MIB
_TOLD_EVERY: Final = 16_384
#: A node that has so much unacknowledged, of all kinds, gets no more messages for its readers.
_UNACKED_BYTES_MAX: Final = 16 * MIB
#: So many reads of other nodes may wait for messages that are not there yet; those that are
#: furthest ahead are forgotten first, and their nodes hear that there is nothing yet.
READS_MAX: Final = 4_096


class Found(NamedTuple):
    """What was read: positions, messages, where to go on, and what a filter cost."""

    positions: list[int]
    messages: list[bytes]
    next: int
    work: int
    #: What a filter has looked at, in ascending ranges.
    looked: list[Range]


class Serving:
    """Serves those who read the streams of this node."""

    __slots__ = ("paging", "state")

    def __init__(self, state: NodeState, paging: Paging) -> None:
        self.state = state
        self.paging = paging

    def readers_of(self, queue: QueueKey, fragment: FragmentId) -> StreamReaders:
        """The readers of a fragment of a stream."""
        parts = self.state.streams.setdefault(queue, {})
        readers = parts.get(fragment)
        if readers is None:
            readers = parts[fragment] = StreamReaders()
        return readers

    def seek(self, primary: Primary, beginning: Beginning) -> int:
        """The position from which on such a reader gets messages."""
        fragment, (kind, value) = primary.fragment, beginning
        log = fragment.log
        assert log is not None, "the fragment is one of a stream"
        if kind == LAST:
            return log.batch
        since = log.since(value) if kind == TIME else None
        return fragment.last + 1 if since is None else since

    def read(
        self, primary: Primary, position: int, amount: int, wanted: StreamFilter | None
    ) -> Found:
        """What is committed from a position on, a few messages at a time.

        Nothing if that has to be read from the disk first: it is asked for.
        """
        amount = min(amount, DELIVERY_BATCH_MAX)
        if wanted is not None:
            return self.sift(primary, position, amount, Sieve(wanted))
        positions: list[int] = []
        messages: list[bytes] = []
        for first, part in self._pieces(primary, position, amount, _READ_BYTES):
            positions += range(first, first + len(part))
            messages += part
        return Found(positions, messages, positions[-1] + 1 if positions else position, 0, [])

    def sift(
        self, primary: Primary, position: int, amount: int, sieve: Sieve | RouteSieve
    ) -> Found:
        """As `read`, of messages that a filter wants: as far as one walk goes."""
        left, size, work = _WALK_MAX, _READ_BYTES, sieve.work
        looked: list[Range] = []
        positions: list[int] = []
        messages: list[bytes] = []
        while left > 0 and len(positions) < amount and size > 0:
            pieces = self._pieces(primary, position, left, _WALK_BYTES)
            for first, part in pieces:
                count, found = sieve.pick(part, amount - len(positions), size)
                positions += [first + index for index in found]
                messages += [part[index] for index in found]
                size -= sum([len(part[index]) for index in found])
                looked.append((first, first + count - 1))
                left, position = left - count, first + count
                if count < len(part) or len(positions) >= amount or size <= 0:
                    break
            if not pieces:
                break
        return Found(positions, messages, position, sieve.work - work, looked)

    def _pieces(
        self, primary: Primary, position: int, amount: int, size: int
    ) -> list[tuple[int, list[bytes]]]:
        """What is committed from a position on, with the positions at which pieces begin."""
        commit, fresh = primary.replication.commit, primary.fragment.fresh
        pieces = read_from(fresh, position, amount, size)
        run = fresh.after(position - 1) if not pieces else None
        if run is not None and run.stowed and amount > 0:
            first = max(position, run.first)
            pieces = [(first, self.paging.read(primary, run, first, amount, size))]
        cut = [(first, part[: max(0, commit - first + 1)]) for first, part in pieces]
        return [(first, part) for first, part in cut if part]

    # --- other nodes -------------------------------------------------------------------------

    def on_read(self, sender: NodeId, message: ReadStream) -> None:
        """Another node wants to know where its reader begins, or to read from there on."""
        primary = self.state.primaries.get(message.fragment)
        if primary is None or primary.fragment.reign != message.reign:
            return
        if primary.fragment.log is None:
            return
        if message.kind != READ_FROM:
            position = self.seek(primary, Beginning(message.kind, message.value))
            self.state.send(
                sender,
                StreamPart(
                    message.fragment, message.reign, message.kind, message.value, position, [], []
                ),
            )
            return
        key = (sender, message.value, message.request)
        if not message.amount:
            self._take_back(primary, key)
            return
        wanted = StreamFilter(message.values, message.unfiltered) if message.request else None
        reads = self.readers_of(primary.queue, message.fragment).reads
        reads[key] = Read(message.value, message.amount, wanted)
        if len(reads) > READS_MAX:
            self._forget_furthest(primary, reads)
        self.state.marks.queues[primary.queue] = None

    def _take_back(self, primary: Primary, key: ReadKey) -> None:
        """Forgets a question that nobody is there for any more."""
        readers = self.state.readers_of(primary.queue, primary.fragment.fragment_id)
        if readers is not None:
            readers.reads.pop(key, None)
            self.state.marks.queues[primary.queue] = None

    def forget(self, primary: Primary, node: NodeId) -> None:
        """Forgets what a node asked of a stream whose session has ended: it asks again."""
        readers = self.state.readers_of(primary.queue, primary.fragment.fragment_id)
        if readers is None:
            return
        self.state.work.spend(len(readers.reads) >> DEAL_SHIFT)
        for key in [key for key in readers.reads if key[0] == node]:
            del readers.reads[key]
        self.state.marks.queues[primary.queue] = None

    def _forget_furthest(self, primary: Primary, reads: dict[ReadKey, Read]) -> None:
        """Forgets the read that is furthest ahead of what is there, if any is, and says so."""
        self.state.work.spend(len(reads) >> DEAL_SHIFT)
        furthest, read = max(reads.items(), key=_place_of)
        if read.at > primary.fragment.last:
            del reads[furthest]
            (node, position, number), fragment = furthest, primary.fragment
            self.state.send(
                node,
                StreamPart(
                    fragment.fragment_id, fragment.reign, READ_FROM, position, read.at, [], [],
                    number,
                ),
            )  # fmt: skip

    def serve(self, readers: StreamReaders, primary: Primary) -> bool:
        """Answers other nodes, a piece each, as far as the turn has room for it.

        False if somebody is to get more: the turn had no room, or a walk has found nothing yet.
        """
        commit, fragment = primary.replication.commit, primary.fragment
        self.state.work.spend(len(readers.reads) >> DEAL_SHIFT)
        is_done = True
        for key, read in list(readers.reads.items()):
            if read.at > commit:
                continue
            node, position, number = key
            link = self.state.peers[node].link
            if link.bytes_unacked + link.bytes_held > _UNACKED_BYTES_MAX:
                # It has enough; looked at again with the next tick.
                self.state.pages.later[fragment.fragment_id] = None
                continue
            found = self.read(primary, read.at, read.amount, read.wanted)
            begun = max(position, fragment.fresh.first if fragment.fresh.count else position)
            if found.positions or found.next - begun >= _TOLD_EVERY:
                del readers.reads[key]
                self.state.send(
                    node,
                    StreamPart(
                        fragment.fragment_id, fragment.reign, READ_FROM, position, found.next,
                        found.positions, as_published(found.messages), number,
                    ),
                )  # fmt: skip
            elif found.next > read.at:
                # A walk goes on behind what others asked.
                read.at = found.next
                del readers.reads[key]
                readers.reads[key] = read
                is_done = is_done and read.at > commit
            else:
                continue
            if not self.state.work.deal(1 + (len(found.positions) >> DEAL_SHIFT) + found.work):
                return False
        return is_done


def position_of(info: FragmentInfo, beginning: Beginning) -> int | None:
    """Where a reader begins that need not ask for it; None for one that must."""
    if beginning.kind == FIRST:
        return 0
    return base_of(info) + beginning.value if beginning.kind == OFFSET else None


def base_of(info: FragmentInfo) -> int:
    """The position of the first message that a fragment ever got: the one with offset 0."""
    return first_position(info.created) + 1


def _place_of(item: tuple[ReadKey, Read]) -> int:
    return item[1].at
