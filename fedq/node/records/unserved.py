"""Durable queues that nobody can serve before a node returns: which nodes, and what clients hear.

Input: the node's state, a fragment or a queue. Output: names of nodes, a refusal in RabbitMQ's
manner (404). A copy that is in sync and whose node is up either is served, or begins anew from its
disk within a moment: who asks for it waits. If the nodes of all copies in sync are down, waiting
has no end that anybody here could tell, and a count of 0, or "empty", would not be true.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, Refused
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.node.records.state import NodeState

#: Nodes that one refusal names: a reply text has 255 bytes.
_NAMED_MAX: Final = 5
#: Queues that are named of those that wait for the same nodes.
QUEUES_NAMED_MAX: Final = 20


def homes_down(state: NodeState, fragment: FragmentId) -> list[NodeId]:
    """The nodes with the fragment's copies in sync, if it is durable and all are down; else none.

    One of them has to return before it is served.
    """
    info = state.map.fragments.get(fragment)
    if info is None or not state.map.queues[info.queue].durable:
        return []
    members = state.map.members
    if any((member := members.get(node)) is not None and member.up for node in info.in_sync):
        return []
    return list(info.in_sync)


def begins_soon(state: NodeState, fragment: FragmentId) -> bool:
    """Whether nobody serves it, and a copy in sync is there that is to begin anew from its disk."""
    info = state.map.fragments.get(fragment)
    if info is None or not state.map.queues[info.queue].durable:
        return False
    return state.primary_of(fragment) is None and not homes_down(state, fragment)


def refuse_unserved(state: NodeState, key: QueueKey) -> Refused | None:
    """Why a shared queue cannot be asked: nothing of it can be served before a node returns."""
    queue = state.map.queues.get(key)
    if queue is None or not queue.durable:
        return None
    homes: dict[NodeId, None] = {}
    for fragment in queue.fragments:
        down = homes_down(state, fragment)
        if not down:
            return None
        homes.update(dict.fromkeys(down))
    return Refused(NOT_FOUND, _sentence(key, homes))


def refuse_deletion(state: NodeState, key: QueueKey, if_empty: bool) -> Refused | None:
    """Why a shared queue cannot be deleted: as above; or nobody can tell that it is empty."""
    refused, queue = refuse_unserved(state, key), state.map.queues.get(key)
    if refused is not None or not if_empty:
        return refused
    homes: dict[NodeId, None] = {}
    for fragment in queue.fragments if queue is not None else ():
        homes.update(dict.fromkeys(homes_down(state, fragment)))
    if not homes:
        return None
    return Refused(
        PRECONDITION_FAILED, f"nobody knows whether it is empty: {_sentence(key, homes)}"
    )


def _sentence(key: QueueKey, homes: Iterable[NodeId]) -> str:
    names = list(homes)
    shown = ", ".join(names[:_NAMED_MAX])
    if len(names) > _NAMED_MAX:
        shown += f" and {len(names) - _NAMED_MAX} more"
    whose = f"of durable queue '{key.name}' in vhost '{key.vhost}'"
    if len(names) == 1:
        return f"home node {shown} {whose} is down: start it"
    return f"home nodes {shown} {whose} are down: start one of them"


class Awaited(NamedTuple):
    """Fragments that wait for the same nodes, one of which has to return."""

    #: In order of their names.
    nodes: tuple[NodeId, ...]
    fragments: int
    #: Some of their queues, at most `QUEUES_NAMED_MAX`.
    queues: tuple[QueueKey, ...]


class AwaitedTally:
    """Counts fragments that nobody can serve by the nodes that they wait for."""

    __slots__ = ("_found", "_state")

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._found: dict[tuple[NodeId, ...], tuple[int, dict[QueueKey, None]]] = {}

    def add(self, fragment: FragmentId) -> None:
        """Takes one into account, if it waits."""
        homes = tuple(sorted(homes_down(self._state, fragment)))
        if not homes:
            return
        count, queues = self._found.get(homes, (0, {}))
        if len(queues) < QUEUES_NAMED_MAX:
            queues[self._state.map.fragments[fragment].queue] = None
        self._found[homes] = count + 1, queues

    def found(self) -> tuple[Awaited, ...]:
        """What was counted, by the nodes' names."""
        return tuple(
            Awaited(nodes, count, tuple(queues))
            for nodes, (count, queues) in sorted(self._found.items())
        )
