"""The lane of clients that get one piece of a fan-out in a turn, and nothing else.

Most of ten thousand subscribers are of that kind. They are not marked, and their connections are
not touched: what they get is in `NodeOut.fanned`, by their place there (ADR 0030).

`FanOut` puts pieces there. In: what a client gets besides. Out: the parts of its connection, with
the piece that it had in the lane before them.

Invariant: bytes of one connection keep their order, and are in one lane.
"""

from fedq.amqp.content import Body
from fedq.core.limits import DELIVERY_BYTES_PER_TURN_MAX
from fedq.node.records.client_state import Client
from fedq.node.records.state import NodeState


class Pieces:
    """The lane, as it stands in this turn."""

    __slots__ = ("_fanned_to", "_pieces", "_state")

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._fanned_to = state.out.fanned_to
        self._pieces = state.out.fanned

    def add(self, client: Client, parts: list[Body], size: int) -> None:
        """Parts for a client that gets others in this turn, too; or that are not copied."""
        state = self._state
        if client not in state.fanned_clients:
            self.take_back(client)
            state.fanned_clients[client] = None
        client.machine.parts += parts
        client.delivered_bytes += size
        if client.delivered_bytes >= DELIVERY_BYTES_PER_TURN_MAX:
            state.at_turn_limit[client] = None

    def take_back(self, client: Client) -> None:
        """The client gets more than its one piece: that comes before all else."""
        place, fanned_to, pieces = client.place, self._fanned_to, self._pieces
        if place < len(fanned_to) and fanned_to[place] is client.known_as and pieces[place]:
            client.machine.parts.insert(0, pieces[place])
            client.delivered_bytes += len(pieces[place])
            pieces[place] = b""
