"""connection.blocked and unblocked: publishers hear why they are not read (RabbitMQ's extension).

Inputs: causes that come and go, connections that open. Output: methods for those clients that can
hear them. Invariant: a client hears blocked when the first cause comes, or when it opens while
there is one, and unblocked when the last one goes; so the two are always paired.
"""

from fedq.amqp import method_types as m
from fedq.node.answers import capability
from fedq.node.client_state import Client
from fedq.node.state import NodeState


class Blocking:
    """See the module's docstring."""

    __slots__ = ("_causes", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Why publishers are blocked, by cause.
        self._causes: dict[str, str] = {}

    def set_blocked(self, cause: str, reason: str | None) -> None:
        """There is a reason to block publishers, or (None) there is none of that cause any more.

        Those that can hear it get connection.blocked once, and unblocked when no cause is left.
        """
        before = bool(self._causes)
        if reason is None:
            self._causes.pop(cause, None)
        else:
            self._causes[cause] = reason
        if bool(self._causes) == before:
            return
        method: m.Method = m.ConnectionUnblocked()
        if reason is not None:
            method = m.ConnectionBlocked(reason)
        for client in self.state.clients.values():
            self._tell(client, method)

    def on_opened(self, client: Client) -> None:
        """A new connection hears at once what the others were told."""
        for reason in self._causes.values():
            self._tell(client, m.ConnectionBlocked(reason))
            return

    def _tell(self, client: Client, method: m.Method) -> None:
        if client.vhost and not client.gone and capability(client, "connection.blocked"):
            client.machine.send(0, method)
            self.state.dirty_clients[client] = None
