"""basic.return: what found no queue goes back to its publisher (AMQP 0-9-1 1.8.3.10)."""

from fedq.amqp.content import Body
from fedq.amqp.rare_contents import return_frames
from fedq.amqp.rewriting import as_stored
from fedq.core.errors import NO_ROUTE
from fedq.node.records.client_state import Channel
from fedq.node.records.state import NodeState


def give_back(state: NodeState, channel: Channel, message: bytes) -> None:
    """Sends basic.return of a mandatory message that found no queue."""
    machine = channel.client.machine
    frames: list[Body] = []
    return_frames(
        frames, channel.number, NO_ROUTE, "NO_ROUTE", as_stored(message), machine.frame_bytes_max
    )
    if state.tracer is not None:
        state.tracer.on_returned(channel, message)
    state.counts.returned += 1
    # All of them at once: nothing half of it goes out, whatever fails.
    machine.parts += frames
    channel.client.delivered_bytes += len(message)
    state.dirty_clients[channel.client] = None
