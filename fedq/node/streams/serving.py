"""Streams that this node serves: where a reader begins, and what is read from a position on.

Inputs: questions of this node and of others. Outputs: positions, messages that are committed. A
question for messages that are not there yet waits for them (`StreamReaders.reads`).

Changes the readers' records; sends to peers; marks queues.
"""

from typing import Final

from fedq.amqp.stored import as_published
from fedq.core.ids import NodeId, QueueKey, first_position
from fedq.core.limits import DELIVERY_BATCH_MAX, KIB, MIB
from fedq.core.peer_messages import READ_FROM, ReadStream, StreamPart
from fedq.fragments.streams import read_from
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.stream_readers import StreamReaders
from fedq.node.streams.paging import Paging
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.cluster_map.stream_arguments import FIRST, LAST, OFFSET, TIME, Beginning

#: What is read at once.
_READ_BYTES: Final = 128 * KIB
#: So many messages are handed out for a unit of work, as a shift.
DEAL_SHIFT: Final = 3
#: A node that has so much unacknowledged, of all kinds, gets no more messages for its readers.
_UNACKED_BYTES_MAX: Final = 16 * MIB
#: So many reads of other nodes may wait for messages that are not there yet; those that are
#: furthest ahead are forgotten first.
READS_MAX: Final = 4_096


class Serving:
    """Serves those who read the streams of this node."""

    __slots__ = ("paging", "state")

    def __init__(self, state: NodeState, paging: Paging) -> None:
        self.state = state
        self.paging = paging

    def readers_of(self, queue: QueueKey) -> StreamReaders:
        """The readers of a stream."""
        readers = self.state.streams.get(queue)
        if readers is None:
            readers = self.state.streams[queue] = StreamReaders()
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

    def read(self, primary: Primary, position: int, amount: int) -> tuple[list[int], list[bytes]]:
        """What is committed from a position on: positions and messages, a few at a time.

        Nothing if that has to be read from the disk first: it is asked for.
        """
        commit, fresh = primary.replication.commit, primary.fragment.fresh
        positions: list[int] = []
        messages: list[bytes] = []
        amount = min(amount, DELIVERY_BATCH_MAX)
        pieces = read_from(fresh, position, amount, _READ_BYTES)
        run = fresh.after(position - 1) if not pieces else None
        if run is not None:
            first = max(position, run.first)
            pieces = [(first, self.paging.read(primary, run, first, amount, _READ_BYTES))]
        for first, part in pieces:
            found = part[: max(0, commit - first + 1)]
            positions += range(first, first + len(found))
            messages += found
        return positions, messages

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
        reads = self.readers_of(primary.queue).reads
        reads[sender, message.value] = message.amount
        if len(reads) > READS_MAX:
            self._forget_furthest(primary, reads)
        self.state.marks.queues[primary.queue] = None

    def _forget_furthest(self, primary: Primary, reads: dict[tuple[NodeId, int], int]) -> None:
        """Forgets the read that is furthest ahead of what is there, if any is."""
        self.state.work.spend(len(reads) >> DEAL_SHIFT)
        furthest = max(reads, key=_position_of)
        if furthest[1] > primary.fragment.last:
            del reads[furthest]

    def serve(self, readers: StreamReaders, primary: Primary) -> bool:
        """Answers other nodes, as far as the turn has room for it; false if it had none."""
        commit, fragment = primary.replication.commit, primary.fragment
        self.state.work.spend(len(readers.reads) >> DEAL_SHIFT)
        for (node, position), amount in list(readers.reads.items()):
            if position > commit:
                continue
            link = self.state.peers[node].link
            if link.bytes_unacked + link.bytes_held > _UNACKED_BYTES_MAX:
                # It has enough; looked at again with the next tick.
                self.state.pages.later[fragment.fragment_id] = None
                continue
            positions, messages = self.read(primary, position, amount)
            if positions:
                del readers.reads[node, position]
                self.state.send(
                    node,
                    StreamPart(
                        fragment.fragment_id, fragment.reign, READ_FROM, position,
                        positions[-1] + 1, positions, as_published(messages),
                    ),
                )  # fmt: skip
                if not self.state.work.deal(1 + (len(positions) >> DEAL_SHIFT)):
                    return False
        return True


def position_of(info: FragmentInfo, beginning: Beginning) -> int | None:
    """Where a reader begins that need not ask for it; None for one that must."""
    if beginning.kind == FIRST:
        return 0
    return base_of(info) + beginning.value if beginning.kind == OFFSET else None


def base_of(info: FragmentInfo) -> int:
    """The position of the first message that a stream ever got: the one with offset 0."""
    return first_position(info.created) + 1


def _position_of(read: tuple[NodeId, int]) -> int:
    return read[1]
