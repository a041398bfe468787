"""What a node is short of, and who waits for that, for the admin floor (ADR 0069).

Input: the node's state. Output: an `AlarmOverview`. A look costs a step for each connection that
waits; what is told of them is bounded.
"""

from dataclasses import dataclass
from typing import Final

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.node.records.state import NodeState

#: What connections wait for that is told one by one: where the most wait.
WAITS_TOLD_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class WaitOverview:
    """Connections of the asked node that are not read, as a node takes in no more."""

    #: The node that is full.
    node: NodeId
    #: The queue that they publish to; None: what the memory of that node would have to take in.
    queue: QueueKey | None
    connections: int


@dataclass(frozen=True, slots=True)
class AlarmOverview:
    """What a node holds beside its bounds, which of these it has reached, and who waits. Bytes."""

    memory: bool = False
    disk: bool = False
    memory_bytes_max: int = 0
    #: Of its process, beyond what it began with.
    resident_bytes: int = 0
    #: None: unknown.
    disk_free_bytes: int | None = None
    disk_free_bytes_min: int = 0
    #: Its connections that wait, for this node or another one.
    connections: int = 0
    #: What for, the most first, at most `WAITS_TOLD_MAX`.
    waits: tuple[WaitOverview, ...] = ()


#: What a node says that has not looked yet.
NO_ALARM: Final = AlarmOverview()


def alarms_of(state: NodeState) -> AlarmOverview:
    """What this node is short of, and which of its connections wait."""
    settings = state.settings
    counts: dict[tuple[NodeId, QueueKey | None], int] = {}
    for awaited in state.held.values():
        found = _awaited(state, awaited)
        if found is not None:
            counts[found] = counts.get(found, 0) + 1
    most = sorted(counts.items(), key=_most_first)[:WAITS_TOLD_MAX]
    return AlarmOverview(
        memory=state.memory_full,
        disk=state.disk_low,
        memory_bytes_max=settings.memory_bytes_max,
        resident_bytes=state.resident,
        disk_free_bytes=state.disk_free if state.disk_free >= 0 else None,
        disk_free_bytes_min=settings.disk_free_bytes_min,
        connections=len(state.held),
        waits=tuple(WaitOverview(node, queue, count) for (node, queue), count in most),
    )


def _awaited(
    state: NodeState, awaited: FragmentId | NodeId
) -> tuple[NodeId, QueueKey | None] | None:
    """The full node that is waited for, and for which queue; None: it has room by now."""
    if isinstance(awaited, str):
        return awaited, None
    info = state.map.fragments.get(awaited)
    if info is None:
        return None
    for node in (info.primary, *info.in_sync):
        if node in state.full:
            return node, info.queue
    return None


def _most_first(
    item: tuple[tuple[NodeId, QueueKey | None], int],
) -> tuple[int, NodeId, QueueKey]:
    (node, queue), count = item
    return -count, node, queue or QueueKey("", "")
