"""What follows when publishes are committed: confirm groups, and room in the windows."""

from collections.abc import Iterable, Sequence

from fedq.channels.confirms import ConfirmGroup
from fedq.core.ids import FragmentId
from fedq.node.records.client_state import Channel, Owner
from fedq.node.records.state import NodeState
from fedq.proxy.publisher import FragmentPublisher


def settle_groups(
    state: NodeState, fragment: FragmentId, groups: Iterable[ConfirmGroup[Owner]]
) -> None:
    """Tells groups that a fragment has what it gets of each; marks those who wait."""
    for group in groups:
        if group.on_safe(fragment):
            mark_settled(state, group.owner)


def settle_relayed(state: NodeState, group: ConfirmGroup[Owner]) -> None:
    """Tells groups that the nodes to which they were relayed have all of them."""
    group.waiting -= 1
    if group.waiting == 0:
        mark_settled(state, group.owner)


def mark_settled(state: NodeState, owner: Owner) -> None:
    """Notes that something of what the owner published is dealt with, wherever it went."""
    if isinstance(owner, Channel):
        state.marks.channels[owner] = None
    else:
        state.marks.committed.append(owner)


def on_publishes_done(
    state: NodeState, fragment: FragmentId, through: int, refused: Sequence[int]
) -> None:
    """Settles publishes to a fragment that are committed up to number `through`, or refused."""
    publisher = state.publishers.get(fragment)
    if publisher is None:
        return
    settle_groups(state, fragment, publisher.on_done(through, refused))
    if publisher.paused and publisher.relaxed:
        release_paused(state, publisher)


def release_paused(state: NodeState, publisher: FragmentPublisher[Owner]) -> None:
    """Reads connections again that waited for room in this window."""
    paused, publisher.paused = publisher.paused, {}
    for connection in paused:
        client = state.clients.get(connection)
        if client is not None:
            state.release_reading(client, window_of(publisher))


def window_of(publisher: FragmentPublisher[Owner]) -> str:
    """The name of the reason for not reading while a publish window is full."""
    return f"fragment {publisher.fragment_id}"
