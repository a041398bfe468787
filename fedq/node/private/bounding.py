"""What a node bounds of its exclusive queues, besides what their clients asked for.

In: the node's settings, and the policy that a client's declaration means. Out: the policy that the
queue's fragment obeys (docs/adr/0093-what-waits-for-a-subscriber-is-bounded.md).
"""

from typing import Final

from fedq.core.policy import PLAIN, REJECT_PUBLISH, REJECT_PUBLISH_DLX, QueuePolicy
from fedq.node.settings import NodeSettings

#: A length that no queue has: what a queue may hold is asked for elsewhere.
_ANY_LENGTH: Final = 1 << 62


class Bounding:
    """The bounds of one node."""

    __slots__ = ("_bytes", "_closes", "_keeps_oldest", "_length", "_plain")

    def __init__(self, settings: NodeSettings) -> None:
        self._length = settings.exclusive_queue_messages or None
        self._bytes = settings.exclusive_queue_bytes or None
        self._closes = settings.exclusive_queue_disconnects
        self._keeps_oldest = settings.exclusive_queue_keeps_oldest
        #: Of nearly all queues: one for all of them.
        self._plain = self._bounded(PLAIN)

    def bounded(self, policy: QueuePolicy) -> QueuePolicy:
        """The policy with the lesser bounds, the client's or the node's."""
        return self._plain if policy == PLAIN else self._bounded(policy)

    def closes(self, policy: QueuePolicy) -> bool:
        """Whether the owner of such a queue is to leave when it is too long.

        Not if its client has said how long it may be.
        """
        return self._closes and not policy.is_bounded

    def keeps_oldest(self, policy: QueuePolicy) -> bool:
        """Whether what comes to such a queue is dropped when it is full; likewise."""
        return self._keeps_oldest and not policy.is_bounded

    def _bounded(self, policy: QueuePolicy) -> QueuePolicy:
        bounded = policy._replace(
            max_length=_lesser(policy.max_length, self._length),
            max_bytes=_lesser(policy.max_bytes, self._bytes),
        )
        if not self.keeps_oldest(policy):
            return bounded
        # It refuses what comes when it is full; whoever publishes does not hear of it
        # (`fedq.node.publishing.admission`).
        dies = policy.dead_letter_exchange is not None
        return bounded._replace(
            max_length=_ANY_LENGTH if bounded.max_length is None else bounded.max_length,
            overflow=REJECT_PUBLISH_DLX if dies else REJECT_PUBLISH,
        )


def _lesser(asked: int | None, bound: int | None) -> int | None:
    if asked is None or bound is None:
        return bound if asked is None else asked
    return min(asked, bound)
