"""What a connection asks of the node: commands, in the order in which the client sent them.

Publishes and settlements come as runs, so that the node handles each run in one go; everything
else comes singly. A batch belongs to whoever received the command. What comes with every turn is a
plain class: compiled, it is made ten times as fast as a named tuple.
"""

from typing import NamedTuple, TypeAlias

from fedq.amqp.method_types import ClientRequest
from fedq.amqp.publishes import Publish, PublishRun, add_publish
from fedq.amqp.settlements import Settle


class Opened(NamedTuple):
    """The client authenticated and opened a virtual host; connection.open-ok is sent."""

    vhost: str
    user: str


class ChannelOpened(NamedTuple):
    """A channel exists; channel.open-ok is sent."""

    channel: int


class ChannelClosed(NamedTuple):
    """A channel ended for a violation found here; its state can go."""

    channel: int


class Publishes:
    """Consecutive messages of one channel, in order; neighbouring runs differ in route or bits."""

    __slots__ = ("batch", "channel")

    def __init__(self, channel: int, batch: list[PublishRun]) -> None:
        self.channel = channel
        self.batch = batch

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Publishes):
            return False
        return self.channel == other.channel and self.batch == other.batch

    def __repr__(self) -> str:
        return f"Publishes({self.channel}, {self.batch})"


class Settles:
    """Consecutive acknowledgements and rejections of one channel, in order."""

    __slots__ = ("batch", "channel")

    def __init__(self, channel: int, batch: list[Settle]) -> None:
        self.channel = channel
        self.batch = batch

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settles):
            return False
        return self.channel == other.channel and self.batch == other.batch

    def __repr__(self) -> str:
        return f"Settles({self.channel}, {self.batch})"


class Begun(NamedTuple):
    """A publish whose content is still to come: its exchange and key, as the frame has them.

    Comes at the end of a read, and only for what that read has left unfinished.
    """

    channel: int
    route: bytes


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


Command: TypeAlias = (
    Opened | ChannelOpened | ChannelClosed | Publishes | Settles | Begun | Request | Closed
)


def append_publish(commands: list[Command], channel: int, publish: Publish | None) -> None:
    """Appends a publish, if there is one: to the last command, or as the first of a new one."""
    if publish is None:
        return
    last = commands[-1] if commands else None
    if not isinstance(last, Publishes) or last.channel != channel:
        last = Publishes(channel, [])
        commands.append(last)
    add_publish(last.batch, publish)
