"""Queues as those see them that read them by reservation (docs/adr/0107).

Reads only, between two turns.
"""

from typing import NamedTuple

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.journal.records import NOTE_RESERVED
from fedq.node.streams.serving import base_of
from fedq.node.views.stream_view import StreamView


class QueueFragment(NamedTuple):
    """A fragment of a queue."""

    fragment: FragmentId
    #: Who serves it; None: nobody does.
    home: NodeId | None
    #: How many messages are ready and reserved; None: this node does not serve it at present.
    ready: int | None
    reserved: int


class QueueReaderView(StreamView):
    """What a node says of its queues; every call reads the present state."""

    __slots__ = ()

    def is_exclusive(self, key: QueueKey) -> bool:
        """Whether this node knows a queue of that name as one of a connection alone."""
        return key in self._node.state.private

    def is_stream(self, key: QueueKey) -> bool:
        """Whether the queue is a stream."""
        return self._node.state.is_stream(key)

    def queue_fragments(self, key: QueueKey) -> list[QueueFragment]:
        """The fragments of a queue that is there, in order."""
        state = self._node.state
        found: list[QueueFragment] = []
        for number in state.map.queues[key].fragments:
            primary = state.primaries.get(number)
            ready, reserved = None, 0
            if primary is not None and state.serving:
                ready = primary.fragment.ready_count
                reserved = len(primary.fragment.notes.get(NOTE_RESERVED, {}))
            found.append(QueueFragment(number, state.primary_of(number), ready, reserved))
        return found

    def base(self, key: QueueKey, number: int) -> int | None:
        """The position of a fragment's offset 0; None: the queue has no such fragment."""
        state = self._node.state
        queue = state.map.queues.get(key)
        if queue is None or number not in queue.fragments:
            return None
        return base_of(state.map.fragments[FragmentId(number)])
