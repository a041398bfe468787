"""Clients that have to leave: when a virtual host or a user goes, or an operator wants it.

So they do, if an operator wants that, when their node is drained (`fedq.node.clients.departing`).

Inputs: changes of the map; snapshots, after which all is compared; what an operator asks for.
Outputs: connection.close 320 with RabbitMQ's words, or the operator's, and the end of the private
queues that belonged to nobody.

Begun at the end of the turn, not in the middle of the map's change; then, as chores, piece by
piece.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from fedq.core.ids import ConnectionId
from fedq.node.clients.client_flow import ClientFlow
from fedq.node.clients.departing import Departing
from fedq.node.endings.private_ends import PrivateEnds
from fedq.node.records.chores import Each
from fedq.node.records.client_state import Client
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.state import NodeState

#: What the end of a client costs, in units of work.
END_WORK: Final = 50


def end_all(flow: ClientFlow, owner: object, clients: Iterable[Client], text: str) -> None:
    """Sends connection.close 320 to these clients, piece by piece, as a chore of this owner."""
    state = flow.state
    state.chores.begin(owner, Each(state.work, clients, partial(flow.end, text=text), END_WORK))


class Evictions:
    """Ends the clients that have to leave."""

    __slots__ = ("_asked", "_departing", "_users", "_vhosts", "clients", "private_ends", "state")

    def __init__(self, state: NodeState, clients: ClientFlow, private_ends: PrivateEnds) -> None:
        self.state = state
        self.clients = clients
        self._departing = Departing(state, clients)
        self.private_ends = private_ends
        self._vhosts: dict[str, None] = {}
        self._users: dict[str, None] = {}
        #: Clients that an operator wants to leave, and what they hear.
        self._asked: list[tuple[list[Client], str]] = []

    def on_vhost_removed(self, vhost: str) -> None:
        """Notes that the virtual host is gone; should it come back at once, it is another one."""
        self._vhosts[vhost] = None

    def on_user_changed(self, user: str) -> None:
        """Notes that the user came, changed, or went."""
        if user not in self.state.map.users:
            self._users[user] = None

    def on_snapshot(self) -> None:
        """Notes that the whole map was replaced."""
        known = self.state.map
        for client in self.state.clients.values():
            if client.vhost and client.vhost not in known.vhosts:
                self._vhosts[client.vhost] = None
            if client.vhost and client.user not in known.users:
                self._users[client.user] = None
        for key in self.state.private:
            if key.vhost not in known.vhosts:
                self._vhosts[key.vhost] = None

    def on_asked(
        self, number: ConnectionId | None, user: str | None, vhost: str | None, text: str,
        answer: Callable[[int], None],
    ) -> None:  # fmt: skip
        """An operator ends the connection with this number, those of a user, or in a virtual host.

        How many that are is answered at once; they end from the end of this turn on.
        """
        clients = self.state.clients
        if number is not None:
            found = [clients[number]] if number in clients else []
        else:
            found = [
                client for client in clients.values()
                if (user is None or client.user == user)
                and (vhost is None or client.vhost == vhost)
            ]  # fmt: skip
        # Some may be leaving already.
        found = [client for client in found if not client.gone]
        if found:
            self._asked.append((found, text))
        answer(len(found))

    def work_off(self) -> None:
        """Closes what has to be closed; at the end of a turn."""
        if self.state.overrun:
            self._end_overrun()
        if self.state.map.drained or self._departing.is_under_way:
            self._departing.look()
        if not self._vhosts and not self._users and not self._asked:
            return
        vhosts, self._vhosts = self._vhosts, {}
        users, self._users = self._users, {}
        asked, self._asked = self._asked, []
        state = self.state
        for leaving, text in asked:
            end_all(self.clients, self, leaving, text)
        for vhost in vhosts:
            clients = [client for client in state.clients.values() if client.vhost == vhost]
            private = [queue for queue in state.private.values() if queue.key.vhost == vhost]
            state.chores.begin(
                self, _Closing(self, clients, private, f"vhost '{vhost}' is deleted")
            )
        for user in users:
            clients = [client for client in state.clients.values() if client.user == user]
            state.chores.begin(self, _Closing(self, clients, [], f"user '{user}' is deleted"))

    def _end_overrun(self) -> None:
        """Ends clients for whom too much waits; many in several turns."""
        state = self.state
        overrun, state.overrun = state.overrun, {}
        state.chores.begin(self, Each(state.work, overrun.items(), self._end_one, END_WORK))

    def _end_one(self, overrun: tuple[Client, str]) -> None:
        client, queue = overrun
        if client.gone:
            return
        self.state.slow_closed += 1
        self.clients.cut_off(
            client,
            f"more waits in exclusive queue '{queue}' than this node allows "
            "(limits.exclusive_queue_messages and the other bounds of exclusive queues): read "
            "faster",
        )


class _Closing:
    """A chore: clients end, one after the other, and then what else goes with them."""

    __slots__ = ("_evictions", "_left", "_private", "_text")

    def __init__(
        self, evictions: Evictions, clients: list[Client], private: list[PrivateQueue], text: str
    ) -> None:
        self._evictions = evictions
        self._left = clients
        self._private = private
        self._text = text
        self._left.reverse()

    def go_on(self) -> bool:
        """Ends the next clients."""
        evictions = self._evictions
        work = evictions.state.work
        while self._left:
            evictions.clients.end(self._left.pop(), self._text)
            work.spend(END_WORK)
            if work.is_spent and self._left:
                return False
        for private in self._private:
            evictions.private_ends.end(private)
        return True
