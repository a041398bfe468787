"""What waits behind a channel's request, and what need not wait."""

from collections import deque

from fedq.amqp.commands import Publishes, Request, Settles
from fedq.amqp.method_types import ChannelClose
from fedq.node.client_state import Channel


def needs_no_map(command: Publishes | Settles | Request) -> bool:
    """What a client may do even while this node cannot serve it."""
    if isinstance(command, Settles):
        return True
    return isinstance(command, Request) and isinstance(command.method, ChannelClose)


def backlog_of(channel: Channel) -> deque[Publishes | Settles | Request]:
    """What waits behind the channel's request; made when first needed."""
    if channel.backlog is None:
        channel.backlog = deque()
    return channel.backlog
