"""Private queues: what is of this node alone, and what others have to know of it."""

from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.private.registrations import Registrations
from fedq.node.records.state import NodeState


class Private:
    """The parts of this room, each made of those before it."""

    __slots__ = ("flow", "registrations")

    def __init__(self, state: NodeState, cluster: ClusterFlow) -> None:
        self.registrations = Registrations(state, cluster.proposals)
        self.flow = PrivateFlow(state, self.registrations)
