"""Copies: the fragments of shared queues that this node serves or copies, and who asks them."""

from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.consuming.room import Consuming
from fedq.node.copies.ageing import Ageing
from fedq.node.copies.asking import Asking
from fedq.node.copies.checkpointing import Checkpointing
from fedq.node.copies.copying_from_disk import CopyingFromDisk
from fedq.node.copies.dispatching import Dispatching
from fedq.node.copies.forgetting import Forgetting
from fedq.node.copies.fragment_flow import FragmentFlow
from fedq.node.copies.fragment_roles import FragmentRoles
from fedq.node.copies.lending import Lending
from fedq.node.copies.mending import Mending
from fedq.node.copies.moving import Moving
from fedq.node.copies.questions import Questions
from fedq.node.copies.quieting import Quieting
from fedq.node.copies.reading_back import ReadingBack
from fedq.node.copies.reading_private import ReadingPrivate
from fedq.node.copies.replica_flow import ReplicaFlow
from fedq.node.copies.scratching import Scratching
from fedq.node.copies.scrubbing import Scrubbing
from fedq.node.copies.stowing import Stowing
from fedq.node.publishing.room import Publishing
from fedq.node.records.state import NodeState


class Copies:
    """The parts of this room, each made of those before it."""

    __slots__ = (
        "ageing",
        "asking",
        "checkpointing",
        "copying",
        "dispatching",
        "forgetting",
        "fragments",
        "lending",
        "mending",
        "moving",
        "questions",
        "quieting",
        "reading",
        "reading_private",
        "replicas",
        "roles",
        "scratching",
        "scrubbing",
        "stowing",
    )

    def __init__(
        self, state: NodeState, cluster: ClusterFlow, publishing: Publishing, consuming: Consuming
    ) -> None:
        self.questions = Questions(state, cluster.abandoned)
        self.dispatching = Dispatching(state, consuming.flow, self.questions, consuming.timers)
        self.fragments = FragmentFlow(state, publishing.admission, self.questions, self.dispatching)
        self.replicas = ReplicaFlow(state)
        self.roles = FragmentRoles(state, self.fragments, self.replicas)
        self.quieting = Quieting(state, publishing.outlets, consuming)
        self.asking = Asking(state, self.questions)
        self.checkpointing = Checkpointing(state, self.roles)
        self.mending = Mending(state)
        self.lending = Lending(state)
        self.reading = ReadingBack(state, self.mending)
        self.moving = Moving(state, self.mending, self.reading)
        self.reading_private = ReadingPrivate(state)
        self.scratching = Scratching(state, self.reading, self.reading_private)
        self.stowing = Stowing(state, self.reading, self.scratching)
        self.scrubbing = Scrubbing(state)
        self.ageing = Ageing(state)
        self.forgetting = Forgetting(state)
        self.copying = CopyingFromDisk(state, self.reading)

    def tick(self) -> None:
        """Goes on with what waits for a time."""
        self.asking.tick()
        self.checkpointing.tick()
        self.moving.tick()
        self.mending.tick()
        self.lending.tick()
        self.scrubbing.tick()
        self.ageing.tick()
        self.forgetting.tick()
        self.reading.tick()
        self.reading_private.tick()
