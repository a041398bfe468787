"""What waits behind a channel's request, and what need not wait."""

from collections import deque
from collections.abc import Callable

from fedq.amqp.commands import Publishes, Request, Settles
from fedq.amqp.method_types import ChannelClose
from fedq.core.errors import RESOURCE_ERROR, ChannelViolation
from fedq.node.records.client_state import Channel
from fedq.node.records.state import NodeState

NO_ANSWER = "the cluster has not answered in time; the request may still take effect: ask again"


def needs_no_map(command: Publishes | Settles | Request) -> bool:
    """What a client may do even while this node cannot serve it."""
    if isinstance(command, Settles):
        return True
    return isinstance(command, Request) and isinstance(command.method, ChannelClose)


def backlog_of(channel: Channel) -> deque[Publishes | Settles | Request]:
    """The backlog behind a channel's request; made when first needed."""
    if channel.backlog is None:
        channel.backlog = deque()
    return channel.backlog


def give_up_waiting(state: NodeState, fail: Callable[[Channel, ChannelViolation], None]) -> None:
    """Refuses requests that the cluster has not answered in time."""
    for channel in [c for c in state.waiting if not c.waiting or c.closed]:
        del state.waiting[channel]
    for channel, since_ms in list(state.waiting.items()):
        if state.now_ms - since_ms >= state.settings.request_timeout_ms:
            fail(channel, ChannelViolation(RESOURCE_ERROR, NO_ANSWER))
