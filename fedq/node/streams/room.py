"""Streams: readers with places of their own, and what they get."""

from fedq.node.consuming.room import Consuming
from fedq.node.records.state import NodeState
from fedq.node.streams.reading import Reading


class Streams:
    """The parts of this room."""

    __slots__ = ("reading",)

    def __init__(self, state: NodeState, consuming: Consuming) -> None:
        self.reading = Reading(state, consuming.flow)
