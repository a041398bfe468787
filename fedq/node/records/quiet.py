"""What a node keeps of a fragment that is being handed over, or retired (docs/adr/0083, 0100)."""

from fedq.core.ids import NodeId
from fedq.node.records.settling import Settlements


class Quiet:
    """Nothing is sent to a fragment's primary, as it has asked for: this is kept meanwhile.

    Publishes are with their `FragmentPublisher`.
    """

    __slots__ = ("node", "number", "reign", "retires", "session", "settled")

    def __init__(
        self, node: NodeId, number: int, reign: int, session: tuple[int, int], retires: bool
    ) -> None:
        #: The primary, and its question.
        self.node = node
        self.number = number
        #: Its reign, and the session with it: with another one the quiet ends.
        self.reign = reign
        self.session = session
        #: The fragment is not handed over, but retired (docs/adr/0100).
        self.retires = retires
        #: What became of deliveries.
        self.settled = Settlements.none()
