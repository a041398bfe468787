"""Where clients should go that a node does not take: to members that take some (ADR 0102, 0109).

Inputs: the map, the heartbeats of other nodes, how many clients there are. Outputs: why this node
takes no new client, in a sentence with the addresses of those that do.

A drained node sends all away. One that is low on memory, or has as many clients as it may, takes no
further ones; those it has stay.
"""

from typing import Final

from fedq.core.errors import CONNECTION_FORCED, NOT_ALLOWED, Refused
from fedq.core.ids import NodeId
from fedq.node.records.state import NodeState

#: What a reply text, a short string, has room for behind the name of its code.
_TEXT_BYTES_MAX: Final = 220


def open_addresses(state: NodeState, with_memory: bool = False) -> list[str]:
    """The AMQP addresses of the other members that are up and take clients, the nearest first.

    Workers of one host have one: the kernel chooses among them. `with_memory`: of those alone that
    have not said that they are low on it.
    """
    members = state.map.members
    found: list[NodeId] = [
        node for node, member in members.items()
        if member.up and node != state.me and node not in state.map.drained and member.amqp_address
    ]  # fmt: skip
    if with_memory:
        found = [node for node in found if not is_low(state, node)]
    found.sort(key=lambda node: (members[node].zone != state.settings.zone, node))
    return list(dict.fromkeys(members[node].amqp_address for node in found))


def is_low(state: NodeState, node: NodeId) -> bool:
    """Whether a node is low on memory, as far as this one has heard."""
    alarm = state.full.get(node)
    return alarm is not None and alarm.memory


def sends_away(state: NodeState) -> bool:
    """Whether this node takes no clients: it is drained, and there is another one for them."""
    return state.me in state.map.drained and len(open_addresses(state)) > 0


def leaves_port_to_others(state: NodeState) -> bool:
    """Whether it takes no clients while others behind its own address do: workers of its host."""
    return state.me in state.map.drained and state.settings.amqp_address in open_addresses(state)


def where_to_go(state: NodeState) -> str:
    """What a client hears that may not be, or stay, at this drained node."""
    return _elsewhere(f"node {state.me} is drained", open_addresses(state))


def has_room(state: NodeState) -> bool:
    """Whether a new client is taken, or would be nowhere else either."""
    return not sends_away(state) and refuse_newcomer(state) is None


def refuse_newcomer(state: NodeState) -> Refused | None:
    """Why this node takes no further client, though it may serve those it has; None: it does.

    While memory is low everywhere it does, as nobody would take it. A bound on clients holds
    whatever others have.
    """
    most = state.settings.connections_max
    if most and state.accounts.opened >= most:
        there = open_addresses(state)
        why = f"node {state.me} has {most} clients, as many as it may (limits.connections)"
        if there:
            return Refused(CONNECTION_FORCED, _elsewhere(why, there))
        return Refused(
            NOT_ALLOWED, f"connection refused: node connection limit ({most}) is reached"
        )
    if state.memory_full:
        there = open_addresses(state, with_memory=True)
        if there:
            why = f"node {state.me} is low on memory"
            return Refused(CONNECTION_FORCED, _elsewhere(why, there))
    return None


def _elsewhere(why: str, addresses: list[str]) -> str:
    """A reason with as many addresses as fit."""
    text = f"{why}: connect to another one"
    for number, address in enumerate(addresses):
        longer = f"{text}{', ' if number else ': '}{address}"
        if len(longer.encode()) > _TEXT_BYTES_MAX:
            break
        text = longer
    return text
