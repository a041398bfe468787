"""The nearest consumers come first only as far as they keep up (ADR 0039).

What each node is handed of a fragment of this node is bounded by its window, once several nodes
have consumers of it. Changes `Primary.windows`; marks fragments whose windows have grown.
"""

from fedq.core.ids import NodeId
from fedq.core.limits import KEEP_UP_MS_MAX
from fedq.fragments.taking.windows import Windows
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.records.roles import Primary
from fedq.node.records.settling import Settlements
from fedq.node.records.state import NodeState
from fedq.proxy.hub import NO_LIMIT


def meet(primary: Primary) -> None:
    """Makes windows when a second node, maybe, has consumers of the fragment.

    Who holds what is looked up, once: the other one may only just have been admitted.
    """
    if primary.windows is None and len(primary.takers.consumers) > 1:
        primary.windows = Windows(primary.fragment.messages.held_by())


def windows_of(state: NodeState, primary: Primary) -> Windows | None:
    """The windows that bound what is handed out now, if any do.

    None do where one consumer, or the best ones, are to have all messages.
    """
    takers = primary.takers
    if primary.windows is None or len(takers.consumers) < 2 or takers.single or takers.levels:
        return None
    hub = state.hubs.get(primary.queue)
    return None if hub is not None and hub.ranked else primary.windows


def room_here(state: NodeState, primary: Primary) -> int:
    """How many messages this node's consumers may be dealt that have to be settled."""
    windows = windows_of(state, primary)
    if windows is None:
        return NO_LIMIT
    consumers = primary.takers.consumers.get(state.me, 0)
    return windows.room(state.me, consumers, primary.fragment.unacked_count)


def rooms_elsewhere(state: NodeState, primary: Primary) -> dict[NodeId, int] | None:
    """How many messages other nodes may be handed; None: whatever they have credit for.

    Credit that was given once is for consumers that are reserved for what is here: it is used.
    """
    windows, takers = windows_of(state, primary), primary.takers
    if windows is None:
        return None
    unacked = primary.fragment.unacked_count
    return {
        node: NO_LIMIT if node in takers.once else windows.room(node, consumers, unacked)
        for node, consumers in takers.consumers.items()
    }


def note_taken(state: NodeState, primary: Primary, node: NodeId, count: int) -> None:
    """Notes that the node was handed messages that it will settle."""
    if primary.windows is not None and count:
        consumers = primary.takers.consumers.get(node, 1)
        primary.windows.took(node, count, consumers, state.now_ms)


def note_back(windows: Windows, node: NodeId, settlements: Settlements, now_ms: int) -> None:
    """Notes that the node has settled messages."""
    windows.came_back(node, sum(len(run) for lane in settlements.lanes() for run in lane), now_ms)


def look_what_waits(state: NodeState, timers: QueueTimers, primary: Primary) -> None:
    """Gives all nodes more where messages wait and nobody is handed any, whatever their pace."""
    windows = windows_of(state, primary)
    if windows is None:
        return
    if not primary.fragment.at_hand:
        windows.nothing_waits()
        return
    step = windows.grow_by(primary.fragment.handed_out, state.now_ms)
    if step:
        for node, consumers in primary.takers.consumers.items():
            windows.widen(node, step * consumers)
        state.marks.primaries[primary.fragment.fragment_id] = None
    timers.look_again(primary, KEEP_UP_MS_MAX)
