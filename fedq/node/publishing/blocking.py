"""Publishers that wait: they are not read, and hear why (connection.blocked, RabbitMQ's extension).

Inputs: causes that come and go, connections that open. Output: methods for those clients that can
hear them. Invariant: a client hears blocked while there is a cause, and unblocked if it has heard
that and there is none any more; so the two are always paired.

Clients may be very many, so each change is a round of them, in pieces. A round that is overtaken by
the next change begins again: each client hears what is so when the round comes to it, and nothing
if that is what it knows. Who publishes meanwhile is stopped by that
(`fedq.node.publishing.publish_flow`).
"""

from collections import deque
from typing import Final

from fedq.amqp import method_types as m
from fedq.node.records.client_state import Client, capability
from fedq.node.records.state import NodeState

#: Why connections are not read while this node, or another one, takes in no more.
ALARM: Final = "alarm"
#: What it costs to look at a client, and to tell it something, in units of work.
_LOOK_WORK: Final = 1
_TELL_WORK: Final = 10


class Blocking:
    """Tells publishers that they have to wait. Is the chore of its own rounds, too."""

    __slots__ = ("_causes", "_left", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Why publishers are blocked, by cause.
        self._causes: dict[str, str] = {}
        #: Clients to which the round under way is still to come.
        self._left: deque[Client] = deque()

    def set_blocked(self, cause: str, reason: str | None) -> None:
        """Sets a reason to block publishers, or (None) takes away the one of that cause.

        Those that can hear it get connection.blocked once, and unblocked when no cause is left.
        """
        before = bool(self._causes)
        if reason is None:
            self._causes.pop(cause, None)
        else:
            self._causes[cause] = reason
        if bool(self._causes) != before:
            self._begin_round()

    def set_waiting(self, waits: bool) -> None:
        """Sets whether clients that publish are not read."""
        if waits != self.state.publishers_wait:
            self.state.publishers_wait = waits
            self._begin_round()

    def on_opened(self, client: Client) -> None:
        """Tells a new connection at once what the others were told."""
        if self._causes:
            self._tell(client)

    def _begin_round(self) -> None:
        chores = self.state.chores
        self._left = deque(self.state.clients.values())
        if not chores.are_under_way(self):
            chores.begin(self, self)

    def go_on(self) -> bool:
        """Tells the next connections."""
        state, left = self.state, self._left
        clients, work = state.clients, state.work
        while left:
            client = left.popleft()
            if clients.get(client.connection) is client:
                self._hold(client)
                self._tell(client)
            work.spend(_LOOK_WORK)
            if work.is_spent:
                break
        return not left

    def _hold(self, client: Client) -> None:
        state = self.state
        if not state.publishers_wait:
            state.release_reading(client, ALARM)
        elif client.publishes or client.machine.contents_unfinished() or client.bytes_waiting:
            state.hold_reading(client, ALARM)

    def _tell(self, client: Client) -> None:
        blocked = bool(self._causes)
        if client.is_blocked == blocked or not client.vhost or client.gone:
            return
        if not capability(client, "connection.blocked"):
            return
        client.is_blocked = blocked
        method: m.Method = m.ConnectionUnblocked()
        if blocked:
            method = m.ConnectionBlocked(next(iter(self._causes.values())))
        client.machine.send(0, method)
        self.state.dirty_clients[client] = None
        self.state.work.spend(_TELL_WORK)
