"""Takers of a fragment that are no nodes: its own, for messages that nobody is to be handed.

Names that no node can have.
"""

from collections.abc import Mapping
from typing import Final

from fedq.core.ids import NodeId
from fedq.core.policy import REJECTED, RETURNED_TOO_OFTEN

#: Who holds messages that wait for their dead-lettering to be committed.
DEAD: Final = NodeId("\0dead")
#: Who holds messages that are not due yet.
DELAYED: Final = NodeId("\0delayed")
#: Who holds messages that are reserved for readers of the queue (docs/adr/0107).
RESERVED: Final = NodeId("\0reserved")
#: Who holds messages on disk alone that are to die as soon as they can be read, by why they die.
DYING: Final[Mapping[int, NodeId]] = {
    REJECTED: NodeId("\0rejected"),
    RETURNED_TOO_OFTEN: NodeId("\0returned"),
}
