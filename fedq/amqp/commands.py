"""What a connection asks of the node: commands, in the order in which the client sent them.

Publishes and settlements come as runs, so that the node handles each run in one go; everything
else comes singly. A batch belongs to whoever received the command.
"""

from typing import NamedTuple, TypeAlias

from fedq.amqp.method_types import ClientRequest
from fedq.amqp.publishes import PublishRun
from fedq.amqp.settlements import Settle


class Opened(NamedTuple):
    """The client authenticated and opened a virtual host; connection.open-ok is sent."""

    vhost: str
    user: str


class ChannelOpened(NamedTuple):
    """A channel exists; channel.open-ok is sent."""

    channel: int


class ChannelClosed(NamedTuple):
    """A channel ended, by its client or for a violation found here; its state can go."""

    channel: int


class Publishes(NamedTuple):
    """Consecutive messages of one channel, in order; neighbouring runs differ in route or bits."""

    channel: int
    batch: list[PublishRun]


class Settles(NamedTuple):
    """Consecutive acknowledgements and rejections of one channel, in order."""

    channel: int
    batch: list[Settle]


class Request(NamedTuple):
    """Any other method on an open channel; the node answers it."""

    channel: int
    method: ClientRequest


class Closed(NamedTuple):
    """The connection ended at the level of the protocol: all its state can go.

    Comes at most once, and not after the node itself called `close`. The last bytes may still be
    on their way: the socket goes when `Connection.closed` is true.
    """

    reason: str


Command: TypeAlias = Opened | ChannelOpened | ChannelClosed | Publishes | Settles | Request | Closed
