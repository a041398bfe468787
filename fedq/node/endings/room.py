"""Endings: what goes when a consumer, a channel, a connection or an exclusive queue ends."""

from fedq.node.consuming.room import Consuming
from fedq.node.copies.room import Copies
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.endings.consumer_ends import ConsumerEnds
from fedq.node.endings.private_ends import PrivateEnds
from fedq.node.private.room import Private
from fedq.node.records.answers import Answers
from fedq.node.records.state import NodeState


class Endings:
    """The parts of this room, each made of those before it."""

    __slots__ = ("channels", "consumers", "private")

    def __init__(
        self, state: NodeState, answers: Answers, consuming: Consuming, private: Private,
        copies: Copies,
    ) -> None:  # fmt: skip
        self.private = PrivateEnds(state, private.flow, private.registrations)
        self.consumers = ConsumerEnds(
            state, answers, consuming.flow, copies.asking, copies.dispatching, self.private
        )
        self.channels = ChannelEnds(state, answers, consuming.settling, self.consumers)
