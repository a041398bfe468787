"""Clients of a drained node that are to leave: each as soon as nothing of it is under way.

Inputs: the map's word that this node is drained and its clients are to leave, turns, the clock.
Outputs: connection.close 320 with where to go (`fedq.node.clients.elsewhere`).

From then on none of them gets deliveries. Whoever has nothing unsettled, unconfirmed or unanswered
leaves at once, the others when that is so, or after `drain_grace_ms`: what they still hold then
goes back to its queues. It is called off if the node is undrained meanwhile, or no other one takes
clients any more: then their deliveries go on.
"""

from typing import Final

from fedq.node.clients.client_flow import ClientFlow
from fedq.node.clients.elsewhere import sends_away, where_to_go
from fedq.node.consuming.waking import wake_consumers
from fedq.node.records.chores import Each
from fedq.node.records.client_state import Channel, Client
from fedq.node.records.state import NodeState

#: How often all of them are looked at.
_LOOK_MS: Final = 200
#: What it costs to look at one, or to end it, in units of work.
_LOOK_WORK: Final = 50


class Departing:
    """Has the clients of a drained node leave."""

    __slots__ = ("_flow", "_held", "_looked_ms", "_text", "_until_ms", "state")

    def __init__(self, state: NodeState, flow: ClientFlow) -> None:
        self.state = state
        self._flow = flow
        #: When the last ones leave; None: nobody is to leave.
        self._until_ms: int | None = None
        self._looked_ms = -_LOOK_MS
        #: What they hear.
        self._text = ""
        #: Channels whose deliveries this node has stopped.
        self._held: dict[Channel, None] = {}

    @property
    def is_under_way(self) -> bool:
        """Whether clients are to leave."""
        return self._until_ms is not None

    def look(self) -> None:
        """Looks whether clients are to leave, and which may by now; in any turn."""
        state = self.state
        now_ms = state.now_ms
        if now_ms - self._looked_ms < _LOOK_MS:
            return
        self._looked_ms = now_ms
        if not state.map.drained.get(state.me, False) or not sends_away(state):
            self._call_off()
            return
        if state.chores.are_under_way(self):
            return
        if self._until_ms is None:
            grace_ms = state.settings.drain_grace_ms
            self._until_ms = now_ms + grace_ms
            state.out.story.append(
                f"this node is drained: its clients leave, within {grace_ms / 1_000:g} s"
            )
        self._text = where_to_go(state)
        here = [client for client in state.clients.values() if client.vhost and not client.gone]
        if not here:
            self._held = {}
        else:
            state.chores.begin(self, Each(state.work, here, self._look_at, _LOOK_WORK))

    def _look_at(self, client: Client) -> None:
        """Has a client leave if it may; else it gets nothing new."""
        until_ms = self._until_ms
        if client.gone or until_ms is None:
            return
        self.state.work.spend(len(client.channels))
        if self.state.now_ms >= until_ms or not has_under_way(client):
            for channel in client.channels.values():
                self._held.pop(channel, None)
            self._flow.end(client, self._text)
            return
        for channel in client.channels.values():
            if channel.flow and not channel.leaving:
                channel.flow = False
                self._held[channel] = None
                wake_consumers(self.state, channel)

    def _call_off(self) -> None:
        """Lets those who are still there stay."""
        if self._until_ms is None:
            return
        self._until_ms = None
        self.state.out.story.append("clients need not leave this node any more")
        held, self._held = self._held, {}
        for channel in held:
            if not channel.closed and not channel.leaving:
                channel.flow = True
                wake_consumers(self.state, channel)


def has_under_way(client: Client) -> bool:
    """Whether anything of a client's is unsettled, unconfirmed, uncommitted or unanswered."""
    if client.machine.contents_unfinished():
        return True
    for channel in client.channels.values():
        confirms, transaction = channel.confirms, channel.transaction
        if channel.waiting or channel.backlog or len(channel.unacked) > 0:
            return True
        if confirms is not None and confirms.last_tag != confirms.confirmed:
            return True
        if transaction is not None and (transaction.publishes or transaction.settles):
            return True
    return False
