"""How a client's request is answered, now or later.

A request that needs the cluster makes its channel wait: what the client sent after it stays in the
channel's backlog until the answer is there, so a channel's requests take effect in order.
"""

from collections.abc import Callable

from fedq.amqp.deliveries import ack_frame, nack_frame
from fedq.amqp.method_types import Method
from fedq.core.ids import MapVersion
from fedq.node.records.client_state import Channel
from fedq.node.records.state import NodeState


class Answers:
    """Replies and waiting; failures are `fedq.node.endings.channel_ends`."""

    __slots__ = ("state",)

    def __init__(self, state: NodeState) -> None:
        self.state = state

    def reply(self, channel: Channel, method: Method) -> None:
        """Sends a method on an open channel."""
        if not channel.closed and not channel.leaving:
            channel.client.machine.send(channel.number, method)
            self.state.dirty_clients[channel.client] = None

    def wait(self, channel: Channel) -> None:
        """Lets the channel's next requests wait.

        A request that waits for one thing after another is given up when it has waited for too
        long in all.
        """
        channel.waiting = True
        self.state.waiting.setdefault(channel, self.state.now_ms)

    def wait_for_turns(self, channel: Channel) -> None:
        """Lets the channel's next requests wait for what only this node is busy with.

        It ends for sure, so nothing is ever given up.
        """
        channel.waiting = True
        self.state.waiting.pop(channel, None)

    def finish(self, channel: Channel, method: Method | None) -> None:
        """Answers the request that made the channel wait (None: the client wants no answer)."""
        if channel.closed:
            return
        if method is not None:
            self.reply(channel, method)
        notices, channel.notices = channel.notices, None
        for notice in notices or ():
            self.reply(channel, notice)
        self.state.marks.answered[channel] = None

    def when_everywhere(self, action: Callable[[], None], until_ms: int = 0) -> None:
        """Runs the action when every live member has applied the map as it is now (P6).

        `until_ms`: or then at the latest, for who leaves.
        """
        self.state.marks.after_applied.append((self.state.map.version, until_ms, action))

    def flush_confirms(self, channel: Channel) -> None:
        """Sends one cumulative basic.ack for all that became safe; nacks for those refused."""
        window = channel.confirms
        if window is None or channel.closed or channel.leaving or channel.client.gone:
            return
        parts, told = channel.client.machine.parts, window.confirmed
        verdicts = window.flush()
        counts = self.state.counts
        counts.confirmed += window.confirmed - told
        for tag, multiple, safe in verdicts:
            if not safe:
                # It is always one alone.
                counts.confirmed -= 1
            parts.append((ack_frame if safe else nack_frame)(channel.number, tag, multiple))
        if self.state.tracer is not None:
            self.state.tracer.on_confirmed(channel, told, verdicts)
        self.state.dirty_clients[channel.client] = None


def applied_everywhere(state: NodeState) -> MapVersion:
    """The newest map version that this node and every live peer have applied."""
    version = state.map.version
    for node in state.live_peers():
        version = min(version, state.peers[node].applied)
    return version
