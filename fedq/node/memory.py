"""The bound on what a node holds in memory (P8).

Above `memory_bytes_max` of messages the node takes in no more: connections that publish are not
read and hear connection.blocked; publishes of other nodes are stored but not acknowledged, so
that their windows fill and their publishers pause there. Consumers go on, so it ends by itself,
below nine tenths of the bound.
"""

from fedq.node.client_flow import ClientFlow
from fedq.node.state import NodeState

LOOK_EVERY_MS = 500
REASON = "low on memory: messages are consumed more slowly than they are published"
HOLD = "memory"


class Memory:
    """See the module's docstring."""

    __slots__ = ("_looked_ms", "clients", "state")

    def __init__(self, state: NodeState, clients: ClientFlow) -> None:
        self.state = state
        self.clients = clients
        self._looked_ms = 0

    def tick(self) -> None:
        """Compares what is held with the bound."""
        state = self.state
        if state.now_ms - self._looked_ms < LOOK_EVERY_MS:
            return
        self._looked_ms = state.now_ms
        bound = state.settings.memory_bytes_max
        held = held_bytes(state)
        if held > bound and not state.memory_full:
            state.memory_full = True
            state.out.story.append(f"{held} bytes of messages, more than {bound}: publishers wait")
            self.clients.set_blocked(HOLD, REASON)
            for client in state.clients.values():
                if client.publishes:
                    state.hold_reading(client, HOLD)
        elif state.memory_full and held < bound // 10 * 9:
            state.memory_full = False
            state.out.story.append(f"{held} bytes of messages: publishers go on")
            self.clients.set_blocked(HOLD, None)
            for client in state.clients.values():
                state.release_reading(client, HOLD)
            state.dirty_primaries.update(dict.fromkeys(state.primaries))
            done, state.relays_done = state.relays_done, []
            for node, message in done:
                state.send(node, message)


def held_bytes(state: NodeState) -> int:
    """What the messages of all fragments, copies and private queues take."""
    return (
        sum(primary.fragment.bytes_held for primary in state.primaries.values())
        + sum(private.fragment.bytes_held for private in state.holding.values())
        + sum(backup.replica.bytes_held for backup in state.backups.values())
    )
