"""Takers of a fragment that are no nodes: its own, for messages that nobody is to be handed.

Names that no node can have.
"""

from typing import Final

from fedq.core.ids import NodeId

#: Who holds messages that wait for their dead-lettering to be committed.
DEAD: Final = NodeId("\0dead")
#: Who holds messages that are not due yet.
DELAYED: Final = NodeId("\0delayed")
