"""Identifiers that every floor shares.

All are plain ints and strings at run time; the names keep them from being mixed up.
"""

from typing import Final, NamedTuple, NewType, TypeAlias

#: A node's own name, unique in the cluster, chosen by its operator (`node.id`).
NodeId = NewType("NodeId", str)

#: How often a node's process has started on its data directory. Memory does not survive a new one.
Incarnation = NewType("Incarnation", int)
#: Of a process that did not say which one it is.
NO_PROCESS: Final = Incarnation(0)

#: A client connection of this process; never reused while the process lives.
ConnectionId = NewType("ConnectionId", int)

#: A fragment. Shared fragments get theirs from the cluster map (> 0), private ones locally (< 0).
FragmentId = NewType("FragmentId", int)

#: A number in a fragment's log. The position of a message is the number of its enqueue event,
#: so (fragment, position) names one message for ever. The high bits are the reign in which
#: it was assigned (see `first_position`), so two primaries never assign the same one.
Position = NewType("Position", int)

#: Changes with every change of a fragment's primary or in-sync set.
Epoch = NewType("Epoch", int)

#: The number of applied commands of the cluster map.
MapVersion = NewType("MapVersion", int)

POSITION_BITS = 40


def first_position(reign: int) -> Position:
    """The number before the first one that the primary of `reign` may assign."""
    return Position(reign << POSITION_BITS)


def reign_of(position: int) -> int:
    """The reign in which a position was assigned."""
    return position >> POSITION_BITS


class QueueKey(NamedTuple):
    """A queue or exchange by name within its virtual host."""

    vhost: str
    name: str


#: What a publish goes to: a queue, any fragment of it; or the one that it belongs to.
Target: TypeAlias = QueueKey | FragmentId


class Origin(NamedTuple):
    """Where publishes entered the cluster: numbers of one origin are never repeated."""

    node: NodeId
    incarnation: Incarnation
