"""What a node bounds of its exclusive queues, besides what their clients asked for.

In: the node's settings, and the policy that a client's declaration means. Out: the policy that the
queue's fragment obeys (docs/adr/0093-what-waits-for-a-subscriber-is-bounded.md).
"""

from fedq.core.policy import PLAIN, QueuePolicy
from fedq.node.settings import NodeSettings


class Bounding:
    """The bounds of one node."""

    __slots__ = ("_bytes", "_closes", "_length", "_plain")

    def __init__(self, settings: NodeSettings) -> None:
        self._length = settings.exclusive_queue_messages or None
        self._bytes = settings.exclusive_queue_bytes or None
        self._closes = settings.exclusive_queue_disconnects
        #: Of nearly all queues: one for all of them.
        self._plain = self._bounded(PLAIN)

    def bounded(self, policy: QueuePolicy) -> QueuePolicy:
        """The policy with the lesser bounds, the client's or the node's."""
        return self._plain if policy == PLAIN else self._bounded(policy)

    def closes(self, policy: QueuePolicy) -> bool:
        """Whether the owner of such a queue is to leave when it is too long.

        Not if its client has said how long it may be.
        """
        return self._closes and policy.max_length is None and policy.max_bytes is None

    def _bounded(self, policy: QueuePolicy) -> QueuePolicy:
        return policy._replace(
            max_length=_lesser(policy.max_length, self._length),
            max_bytes=_lesser(policy.max_bytes, self._bytes),
        )


def _lesser(asked: int | None, bound: int | None) -> int | None:
    if asked is None or bound is None:
        return bound if asked is None else asked
    return min(asked, bound)
