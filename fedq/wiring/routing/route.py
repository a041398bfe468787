"""The answer to where a publish goes: its destinations, by kind."""

from typing import Final, NamedTuple

from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.routing.exchanges import Found


class Route(NamedTuple):
    """The destinations of a publish."""

    queues: tuple[QueueKey, ...]
    #: Private queues of this node.
    private: tuple[int, ...]
    #: Nodes that may have private queues for it. One may be no member any more.
    nodes: tuple[NodeId, ...]
    #: It passed an exchange that delays: the header `x-delay` says for how long it is held back.
    delayed: bool = False
    #: Every publish with this route goes this way, whatever its headers are.
    by_route_alone: bool = False


_NOWHERE: Final = Route((), (), ())


def sorted_out(found: Found, delayed: bool = False, by_route_alone: bool = False) -> Route:
    """The destinations by kind. There may be none because of the headers, whoever finds it."""
    if not found:
        return _NOWHERE
    queues: list[QueueKey] = []
    private: list[int] = []
    nodes: list[NodeId] = []
    for destination in found:
        if isinstance(destination, int):
            private.append(destination)
        elif isinstance(destination, QueueKey):
            queues.append(destination)
        elif isinstance(destination, str):
            nodes.append(destination)
    return Route(tuple(queues), tuple(private), tuple(nodes), delayed, by_route_alone)
