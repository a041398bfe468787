"""What waits in all exclusive queues of a node together, and in those of each virtual host.

In: an exclusive queue whose turn is over, or that is gone. Out: how much of it has to go, or how
many more messages it may take (docs/adr/0111-the-way-to-millions.md).

Where more waits than a bound allows, each queue that holds something has an equal share of it. Who
is within that loses nothing, whatever others do; who is above it gives up what is too much. Those
that are not full leave the rest to the longest. So nothing has an order, and nobody is looked for.

Invariants: a sum is that of what its queues had when they were noted last; a note, and a question,
cost the same whatever there is. What is beyond a bound is what came since the last turn's end.
"""

from collections.abc import Sequence
from typing import Final

from fedq.node.records.private_queue import PrivateQueue
from fedq.node.settings import NodeSettings

_ANY: Final = 1 << 62


class _Sum:
    """What some queues have waiting, and what they may have; a bound of 0: anything."""

    __slots__ = ("bytes_most", "messages", "messages_most", "queues", "size")

    def __init__(self, messages_most: int, bytes_most: int) -> None:
        self.messages_most = messages_most
        self.bytes_most = bytes_most
        #: How many of these queues have something.
        self.queues = 0
        self.messages = 0
        self.size = 0

    @property
    def is_over(self) -> bool:
        return bool(
            (self.messages_most and self.messages > self.messages_most)
            or (self.bytes_most and self.size > self.bytes_most)
        )

    def excess(self, messages: int, size: int) -> int:
        """How many messages a queue that has so much is to give up."""
        queues, most = max(self.queues, 1), 0
        bound = self.messages_most
        if bound and self.messages > bound:
            most = min(messages - bound // queues, self.messages - bound)
        bound = self.bytes_most
        if bound and self.size > bound:
            over = min(size - bound // queues, self.size - bound)
            if over > 0:
                most = max(most, -(-over * messages // max(size, 1)))
        return min(most, messages)

    def room(self, messages: int, size: int) -> tuple[int, int]:
        """How many more messages, and bytes, a queue that has so much may take."""
        queues = max(self.queues + (not messages), 1)
        return (
            _left(self.messages_most, self.messages, messages, queues),
            _left(self.bytes_most, self.size, size, queues),
        )


def _left(bound: int, there: int, own: int, queues: int) -> int:
    return max(bound - there, bound // queues - own, 0) if bound else _ANY


class ExclusiveWaiting:
    """The sums of one node. See the module's docstring."""

    __slots__ = ("_all", "_by_vhost", "_over", "_vhost_bytes", "_vhost_messages", "bounds")

    def __init__(self, settings: NodeSettings) -> None:
        self._all = _Sum(settings.exclusive_total_messages, settings.exclusive_total_bytes)
        self._vhost_messages = settings.exclusive_vhost_messages
        self._vhost_bytes = settings.exclusive_vhost_bytes
        self._by_vhost: dict[str, _Sum] = {}
        #: Virtual hosts beyond their bounds.
        self._over: dict[str, None] = {}
        #: Whether there are any bounds; otherwise nothing is summed up.
        self.bounds = bool(
            self._all.messages_most or self._all.bytes_most
            or self._vhost_messages or self._vhost_bytes
        )  # fmt: skip

    @property
    def messages(self) -> int:
        """How many messages wait, in all of them."""
        return self._all.messages

    @property
    def is_over(self) -> bool:
        """Whether some of it has to go."""
        return self._all.is_over or bool(self._over)

    def note(self, private: PrivateQueue) -> None:
        """Takes note of what waits in a queue now."""
        fragment = private.fragment
        messages = fragment.ready_count
        if not messages and not private.waiting:
            return
        # Sizes are not kept one by one: what its consumers hold is taken to be like the rest.
        held = fragment.bytes_held
        size = held * messages // max(messages + fragment.unacked_count, 1)
        self._set(private, messages, size)

    def forget(self, private: PrivateQueue) -> None:
        """Takes note that a queue is gone."""
        if private.waiting:
            self._set(private, 0, 0)

    def _set(self, private: PrivateQueue, messages: int, size: int) -> None:
        vhost = private.key.vhost
        found = self._by_vhost.get(vhost)
        if found is None:
            found = self._by_vhost[vhost] = _Sum(self._vhost_messages, self._vhost_bytes)
        more, bytes_more = messages - private.waiting, size - private.waiting_bytes
        queues = (messages > 0) - (private.waiting > 0)
        for each in (self._all, found):
            each.messages += more
            each.size += bytes_more
            each.queues += queues
        private.waiting, private.waiting_bytes = messages, size
        if found.is_over:
            self._over[vhost] = None
        else:
            self._over.pop(vhost, None)
        if not found.queues:
            del self._by_vhost[vhost]

    def excess(self, private: PrivateQueue) -> int:
        """How many messages of a queue, as it was noted, have to go."""
        messages, size = private.waiting, private.waiting_bytes
        most = self._all.excess(messages, size) if self._all.is_over else 0
        if private.key.vhost in self._over:
            most = max(most, self._by_vhost[private.key.vhost].excess(messages, size))
        return max(most, 0)

    def fits(self, private: PrivateQueue, messages: Sequence[bytes]) -> int:
        """For how many of the first of these messages there is room in a queue."""
        own, size = private.waiting, private.waiting_bytes
        room, bytes_room = self._all.room(own, size)
        found = self._by_vhost.get(private.key.vhost)
        if found is not None:
            more = found.room(own, size)
            room, bytes_room = min(room, more[0]), min(bytes_room, more[1])
        room = min(room, len(messages))
        if bytes_room < _ANY:
            for index, message in enumerate(messages[:room]):
                bytes_room -= len(message)
                if bytes_room < 0:
                    room = index
                    break
        # Of an empty queue somebody may take it at once, whatever others have.
        return room if own or room else min(1, len(messages))
