"""What follows when publishes are committed: confirm groups, and room in the windows."""

from fedq.core.ids import FragmentId
from fedq.node.state import Channel, NodeState
from fedq.proxy.publisher import FragmentPublisher
from fedq.sessions.confirms import ConfirmGroup


def settle_groups(state: NodeState, groups: list[ConfirmGroup[Channel]]) -> None:
    """One more target of each group has everything; channels with news are marked."""
    for group in groups:
        group.waiting -= 1
        if group.waiting == 0:
            state.dirty_channels[group.owner] = None


def on_publishes_done(state: NodeState, fragment: FragmentId, through: int) -> None:
    """This node's publishes to a fragment are committed up to number `through`."""
    publisher = state.publishers.get(fragment)
    if publisher is None:
        return
    settle_groups(state, publisher.on_done(through))
    if publisher.paused and publisher.relaxed:
        release_paused(state, publisher)


def release_paused(state: NodeState, publisher: FragmentPublisher[Channel]) -> None:
    """Connections that waited for room in this window are read again."""
    paused, publisher.paused = publisher.paused, {}
    for connection in paused:
        client = state.clients.get(connection)
        if client is not None:
            state.release_reading(client, window_of(publisher))


def window_of(publisher: FragmentPublisher[Channel]) -> str:
    """The name of the reason for not reading while a publish window is full."""
    return f"fragment {publisher.fragment_id}"
