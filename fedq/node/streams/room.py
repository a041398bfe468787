"""Streams: readers with places of their own, and what they get."""

from fedq.node.consuming.room import Consuming
from fedq.node.records.state import NodeState
from fedq.node.streams.naming import Naming
from fedq.node.streams.paging import Paging
from fedq.node.streams.queue_reading import QueueReading
from fedq.node.streams.reading import Reading
from fedq.node.streams.scanning import Scanning
from fedq.node.streams.serving import Serving


class Streams:
    """The parts of this room, each made of those before it."""

    __slots__ = ("naming", "paging", "queue_reading", "reading", "scanning", "serving")

    def __init__(self, state: NodeState, consuming: Consuming) -> None:
        self.paging = Paging(state)
        self.serving = Serving(state, self.paging)
        self.naming = Naming(state, self.serving)
        self.scanning = Scanning(state, self.serving)
        self.queue_reading = QueueReading(state, consuming.timers)
        self.reading = Reading(state, consuming.flow, self.serving, self.naming, self.scanning)

    def tick(self) -> None:
        """Goes on with what waits for a time."""
        self.paging.tick()
        self.naming.tick()
        self.queue_reading.tick()
