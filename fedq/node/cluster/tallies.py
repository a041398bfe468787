"""How many connections and channels users and virtual hosts have on other nodes (ADR 0050).

RabbitMQ's limits of connections and channels hold in the cluster. So nodes tell each other what
they count: a `Tally` for each name whose numbers have changed, with the next tick; all of them when
a session begins. What a node refuses by is its own numbers and what the others said last.

Inputs: names that have changed (`Accounts.changed`), what peers say, sessions that begin and end.
Outputs: `Tally` to peers, sums.

Invariants: of a peer without a session nothing counts; only names of the map are kept; while a link
is broken nothing piles up in it.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.core.peer_messages import Tally
from fedq.node.records.accounts import Name
from fedq.node.records.state import NodeState

#: So many a peer is told with one tick; the rest with the next ones.
TOLD_AT_ONCE: Final = 200


class Tallies:
    """The connections and channels of other nodes' users and virtual hosts."""

    __slots__ = ("_owed", "_theirs", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Names of which a peer has not been told the numbers of now.
        self._owed: dict[NodeId, dict[Name, None]] = {}
        #: Connections and channels elsewhere, as far as there are any.
        self._theirs: dict[NodeId, dict[Name, tuple[int, int]]] = {}

    def connections(self, name: Name) -> int:
        """How many connections the other nodes have."""
        return sum([theirs[name][0] for theirs in self._theirs.values() if name in theirs])

    def channels(self, name: Name) -> int:
        """How many channels the other nodes have; users have them, virtual hosts do not."""
        return sum([theirs[name][1] for theirs in self._theirs.values() if name in theirs])

    def introduce(self, node: NodeId) -> None:
        """Tells a peer everything, as a session with it begins."""
        accounts = self.state.accounts
        owed: dict[Name, None] = {("user", name): None for name in accounts.users}
        owed.update({("vhost", name): None for name in accounts.vhosts})
        self._owed[node] = owed

    def forget(self, node: NodeId) -> None:
        """Forgets a peer's tallies, as the session with it is over."""
        self._owed.pop(node, None)
        self._theirs.pop(node, None)

    def tick(self) -> None:
        """Tells the peers what has changed."""
        state = self.state
        changed, state.accounts.changed = state.accounts.changed, {}
        for node, owed in self._owed.items():
            owed.update(changed)
            if not owed or not state.peers[node].link.connected:
                continue
            for name in list(owed)[:TOLD_AT_ONCE]:
                del owed[name]
                state.send(node, self._tally(name))

    def _tally(self, name: Name) -> Tally:
        kind, text = name
        accounts = self.state.accounts
        account = (accounts.users if kind == "user" else accounts.vhosts).get(text)
        user, vhost = (text, "") if kind == "user" else ("", text)
        if account is None:
            return Tally(user, vhost, 0, 0)
        return Tally(user, vhost, account.connections, account.channels)

    def on_tally(self, sender: NodeId, message: Tally) -> None:
        """Takes a tally of a peer."""
        known = self.state.map
        name: Name = ("user", message.user) if message.user else ("vhost", message.vhost)
        is_known = message.user in known.users if message.user else message.vhost in known.vhosts
        theirs = self._theirs.setdefault(sender, {})
        if is_known and (message.connections or message.channels):
            theirs[name] = (message.connections, message.channels)
        else:
            theirs.pop(name, None)
