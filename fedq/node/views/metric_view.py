"""What monitoring reads of a node beside its overview: figures of the queues that it serves.

Inputs: a living node, and which queues. Outputs: copies of numbers that are kept anyhow. There may
be tens of thousands, so whoever asks takes the names first, and then figures of some at a time.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fedq.core.ids import FragmentId, QueueKey
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep import footprint
from fedq.node.node import Node


class QueueFigures(NamedTuple):
    """A fragment of a shared queue that this node serves, or an exclusive queue."""

    queue: QueueKey
    ready: int
    unacknowledged: int
    #: Of all its messages; of those whose bodies are on disk alone; and what it takes in memory.
    size: int
    stowed: int
    stowed_bytes: int
    memory_bytes: int
    #: Consumers of this node's own clients: of an exclusive queue alone, as those of a shared one
    #: are not the fragment's.
    consumers: int
    #: Events that the copies have not all got.
    uncommitted: int
    #: Fewer copies are in sync than there should be.
    is_short: bool


class MetricOverview(Protocol):
    """The questions of monitoring."""

    def fragments(self) -> list[FragmentId]:
        """The fragments that this node serves."""

    def fragment_figures(self, fragments: Sequence[FragmentId]) -> list[QueueFigures]:
        """Figures of those among them that it still serves."""

    def private_queues(self) -> list[QueueKey]:
        """The exclusive queues of this node."""

    def private_figures(self, keys: Sequence[QueueKey]) -> list[QueueFigures]:
        """Figures of those among them that are still there."""

    def consumed(self) -> list[QueueKey]:
        """The shared queues of which clients of this node are consumers."""

    def consumers(self, keys: Sequence[QueueKey]) -> list[tuple[QueueKey, int]]:
        """How many consumers of these queues are clients of this node."""

    def backups(self) -> int:
        """How many copies this node holds of fragments that others serve."""

    def members_up(self) -> tuple[int, int]:
        """How many members are up, and how many there are."""


class MetricView:
    """The `MetricOverview` of one node; every call reads the present state."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def fragments(self) -> list[FragmentId]:
        """The fragments that this node serves."""
        return list(self._node.state.primaries)

    def fragment_figures(self, fragments: Sequence[FragmentId]) -> list[QueueFigures]:
        """Figures of those among them that it still serves."""
        state, found = self._node.state, []
        up = len(state.map.members_up())
        for identity in fragments:
            primary, info = state.primaries.get(identity), state.map.fragments.get(identity)
            if primary is None or info is None:
                continue
            wanted = min(state.map.queues[info.queue].replicas, up)
            waiting = max(0, primary.fragment.last - primary.replication.commit)
            is_short = len(state.map.hot_copies(info)) < wanted
            found.append(_figures(info.queue, primary.fragment, 0, waiting, is_short))
        return found

    def private_queues(self) -> list[QueueKey]:
        """The exclusive queues of this node."""
        return list(self._node.state.private)

    def private_figures(self, keys: Sequence[QueueKey]) -> list[QueueFigures]:
        """Figures of those among them that are still there."""
        known = self._node.state.private
        there = [queue for key in keys if (queue := known.get(key)) is not None]
        return [_figures(each.key, each.fragment, each.hub.size, 0, False) for each in there]

    def consumed(self) -> list[QueueKey]:
        """The shared queues of which clients of this node are consumers."""
        return list(self._node.state.hubs)

    def consumers(self, keys: Sequence[QueueKey]) -> list[tuple[QueueKey, int]]:
        """How many consumers of these queues are clients of this node."""
        known = self._node.state.hubs
        return [(key, hub.size) for key in keys if (hub := known.get(key)) is not None]

    def backups(self) -> int:
        """How many copies this node holds of fragments that others serve."""
        return len(self._node.state.backups)

    def members_up(self) -> tuple[int, int]:
        """How many members are up, and how many there are."""
        members = self._node.state.map.members.values()
        return sum(member.up for member in members), len(members)


def _figures(
    key: QueueKey, fragment: Fragment, consumers: int, uncommitted: int, is_short: bool
) -> QueueFigures:
    return QueueFigures(
        queue=key,
        ready=fragment.ready_count,
        unacknowledged=fragment.unacked_count,
        size=fragment.bytes_held,
        stowed=fragment.stowed_count,
        stowed_bytes=fragment.stowed_bytes,
        memory_bytes=footprint.of_fragment(fragment),
        consumers=consumers,
        uncommitted=uncommitted,
        is_short=is_short,
    )
