"""What a node keeps of a fragment that is being handed over (docs/adr/0083)."""

from fedq.core.ids import NodeId
from fedq.node.records.settling import Settlements


class Quiet:
    """Nothing is sent to a fragment's primary, as it has asked for: this is kept meanwhile.

    Publishes are with their `FragmentPublisher`.
    """

    __slots__ = ("node", "number", "settled")

    def __init__(self, node: NodeId, number: int) -> None:
        #: The primary, and its question.
        self.node = node
        self.number = number
        #: What became of deliveries.
        self.settled = Settlements.none()
