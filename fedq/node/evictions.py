"""Who has to leave when a virtual host or a user goes.

Inputs: changes of the map; snapshots, after which all is compared. Outputs: connection.close 320
with RabbitMQ's words, and the end of the private queues that belonged to nobody.

Done at the end of the turn, not in the middle of the map's change.
"""

from functools import partial

from fedq.node.client_flow import ClientFlow
from fedq.node.client_state import Client
from fedq.node.queue_requests import QueueRequests
from fedq.node.state import NodeState


class Evictions:
    """See the module's docstring."""

    __slots__ = ("_users", "_vhosts", "clients", "queues", "state")

    def __init__(self, state: NodeState, clients: ClientFlow, queues: QueueRequests) -> None:
        self.state = state
        self.clients = clients
        self.queues = queues
        self._vhosts: dict[str, None] = {}
        self._users: dict[str, None] = {}

    def on_vhost_removed(self, vhost: str) -> None:
        """The virtual host is gone; should it come back at once, it is another one."""
        self._vhosts[vhost] = None

    def on_user_changed(self, user: str) -> None:
        """The user came, changed, or went."""
        if user not in self.state.map.users:
            self._users[user] = None

    def on_snapshot(self) -> None:
        """The whole map was replaced."""
        known = self.state.map
        for client in self.state.clients.values():
            if client.vhost and client.vhost not in known.vhosts:
                self._vhosts[client.vhost] = None
            if client.vhost and client.user not in known.users:
                self._users[client.user] = None
        for key in self.state.private:
            if key.vhost not in known.vhosts:
                self._vhosts[key.vhost] = None

    def work_off(self) -> None:
        """At the end of a turn: closes what has to be closed."""
        if not self._vhosts and not self._users:
            return
        vhosts, self._vhosts = self._vhosts, {}
        users, self._users = self._users, {}
        for vhost in vhosts:
            self._close_vhost(vhost)
        for user in users:
            self.clients.close_where(partial(_is_of_user, user=user), f"user '{user}' is deleted")

    def _close_vhost(self, vhost: str) -> None:
        self.clients.close_where(partial(_is_in_vhost, vhost=vhost), f"vhost '{vhost}' is deleted")
        private = [queue for queue in self.state.private.values() if queue.key.vhost == vhost]
        self.queues.drop_private(private)


def _is_in_vhost(client: Client, vhost: str) -> bool:
    return client.vhost == vhost


def _is_of_user(client: Client, user: str) -> bool:
    return client.user == user
