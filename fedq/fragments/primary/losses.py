"""Messages that leave a queue otherwise than by acknowledgement, for who wants to hear of it.

All fragments of a node share one list of them. It is empty, and stays so, unless `wanted`.
"""

from typing import Final, TypeAlias

from fedq.core.ids import FragmentId
from fedq.core.policy import DEATHS
from fedq.core.ranges import Range

#: Why messages left that did not die: somebody emptied the queue, or a stream keeps no more.
PURGED: Final = -1
RETENTION: Final = -2
#: It can be read nowhere any more.
UNREADABLE: Final = -3
#: As traces say it.
REASONS: Final = {**DEATHS, PURGED: "purged", RETENTION: "retention", UNREADABLE: "unreadable"}

#: Which fragment, why, and where the messages stood.
Loss: TypeAlias = tuple[FragmentId, int, list[Range]]


class Losses:
    """The messages that left the fragments of a node since somebody looked."""

    __slots__ = ("left", "wanted")

    def __init__(self) -> None:
        self.wanted = False
        self.left: list[Loss] = []

    def take(self) -> list[Loss]:
        """Takes what has gathered."""
        left, self.left = self.left, []
        return left
