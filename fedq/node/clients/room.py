"""Clients: connections, who they are, and what this node has to tell all of them."""

from fedq.node.clients.access import Access, connection_settings
from fedq.node.clients.client_flow import ClientFlow
from fedq.node.clients.evictions import Evictions
from fedq.node.clients.fencing import Fencing
from fedq.node.clients.memory import Memory
from fedq.node.clients.permissions import Permissions
from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.consuming.room import Consuming
from fedq.node.copies.room import Copies
from fedq.node.endings.room import Endings
from fedq.node.publishing.room import Publishing
from fedq.node.records.answers import Answers
from fedq.node.records.state import NodeState
from fedq.node.requests.room import Requests


class Clients:
    """The parts of this room, each made of those before it."""

    __slots__ = ("access", "evictions", "fencing", "flow", "memory")

    def __init__(
        self, state: NodeState, answers: Answers, permissions: Permissions, cluster: ClusterFlow,
        publishing: Publishing, consuming: Consuming, copies: Copies, endings: Endings,
        requests: Requests,
    ) -> None:  # fmt: skip
        self.access = Access(state, cluster.proposals, cluster.tallies)
        self.flow = ClientFlow(
            state, answers, connection_settings(state, self.access), self.access, permissions,
            publishing.flow, consuming, endings.channels, requests,
        )  # fmt: skip
        self.evictions = Evictions(state, self.flow, endings.private)
        self.fencing = Fencing(state, self.flow)
        self.memory = Memory(state, self.flow, publishing.blocking, copies.stowing)
