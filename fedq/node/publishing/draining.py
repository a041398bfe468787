"""The end of a turn for clients: the bytes of each connection, as one write.

In: clients that are marked, with the parts of their connections; pieces of fan-outs. Out: the lanes
`writes`, `fanned` and `closes`.

Invariant: bytes of one connection keep their order, and are in one lane.
"""

from fedq.core.limits import UNREAD_BYTES_MAX
from fedq.node.publishing.pieces import Pieces
from fedq.node.records.client_state import Client
from fedq.node.records.state import NodeState


def drain_clients(state: NodeState) -> None:
    """Moves everybody's bytes into the lanes.

    Those that hear nothing but a fan-out come last: they are many, and the others get answers.
    Most of them got one piece, and are in a lane of their own already.
    """
    out = state.out
    if state.dirty_clients:
        clients, state.dirty_clients = state.dirty_clients, {}
        pieces = Pieces(state)
        for client in clients:
            pieces.take_back(client)
            _drain(state, client)
            if client.machine.closed:
                out.closes[client.connection] = client.machine.was_left
        out.urgent = len(out.writes)
    if state.fanned_clients:
        clients, state.fanned_clients = state.fanned_clients, {}
        for client in clients:
            _drain(state, client)


def _drain(state: NodeState, client: Client) -> None:
    machine = client.machine
    if client.delivered_bytes >= UNREAD_BYTES_MAX:
        state.written_much[client] = client.delivered_bytes
    client.delivered_bytes = 0
    if machine.parts:
        state.out.writes[client.connection] = machine.parts
        machine.parts = []
