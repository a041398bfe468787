"""Consuming: from what is ready to consumers and gets, and back by settlements and time."""

from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.consuming.getting import Getting
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.consuming.readers import Readers
from fedq.node.consuming.settle_flow import SettleFlow
from fedq.node.publishing.room import Publishing
from fedq.node.records.state import NodeState


class Consuming:
    """The parts of this room, each made of those before it."""

    __slots__ = ("flow", "getting", "readers", "settling", "timers")

    def __init__(self, state: NodeState, publishing: Publishing) -> None:
        self.timers = QueueTimers(state, publishing.letters)
        self.readers = Readers(state)
        self.settling = SettleFlow(state)
        self.getting = Getting(state, self.timers, self.readers, self.settling)
        self.flow = ConsumeFlow(state, self.settling, self.getting, self.timers)
