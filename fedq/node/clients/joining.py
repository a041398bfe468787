"""Requests that go together with the one their channel waits for (docs/adr/0110).

In: a command behind a request that waits. Out: whether it has joined that one's train; if not, it
is for the backlog, and is answered or refused in its place.
"""

from collections.abc import Callable

from fedq.amqp.commands import Command, Publishes, Request, Settles
from fedq.core.errors import ChannelViolation
from fedq.node.clients.permissions import Permissions
from fedq.node.consuming.readers import has_enough
from fedq.node.publishing.outlets import Outlets
from fedq.node.records.client_state import Channel, Client
from fedq.node.records.line_ends import stripped
from fedq.node.records.state import NodeState
from fedq.node.requests.trains import Trains

#: Ends the connection for an exception that changed nothing but what is its own.
Contain = Callable[[Client, Command | None, Exception], None]


class Joining:
    """Lets requests join the trains of their channels."""

    __slots__ = ("_contain", "outlets", "permissions", "state", "trains")

    def __init__(
        self, state: NodeState, trains: Trains, permissions: Permissions, outlets: Outlets,
        contain: Contain,
    ) -> None:  # fmt: skip
        self.state = state
        self.trains = trains
        self.permissions = permissions
        self.outlets = outlets
        self._contain = contain

    def takes(self, channel: Channel, command: Publishes | Settles | Request, cost: int) -> bool:
        """Whether the command went with those that the channel waits for; `cost`: in work."""
        if not isinstance(command, Request) or not self.trains.is_open(channel):
            return False
        state = self.state
        if state.work.is_spent or not state.serving or has_enough(channel.client):
            return False
        state.risk.close()
        state.at, state.at_what = channel, command
        try:
            joined = self._joins(channel, command)
        except ChannelViolation:
            # It is refused in its place, behind the answers of those before it.
            joined = False
        except Exception as error:
            if state.risk.is_open:
                raise
            # The connection has ended: nothing waits there.
            self._contain(channel.client, command, error)
            joined = True
        state.at = state.at_what = None
        if joined:
            state.work.spend(cost)
        return joined

    def _joins(self, channel: Channel, command: Request) -> bool:
        method = stripped(command.method)
        self.permissions.check(channel, method)
        if self.state.marks.publishers:
            self.outlets.flush_all()
        return self.trains.takes(channel, method)
