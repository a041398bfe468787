"""Where the clients of a drained node should go: to the members that take some (docs/adr/0082)."""

from typing import Final

from fedq.core.ids import NodeId
from fedq.node.records.state import NodeState

#: What a reply text, a short string, has room for behind the name of its code.
_TEXT_BYTES_MAX: Final = 220


def open_addresses(state: NodeState) -> list[str]:
    """The AMQP addresses of the other members that are up and take clients, the nearest first.

    Workers of one host have one: the kernel chooses among them.
    """
    members = state.map.members
    found: list[NodeId] = [
        node for node, member in members.items()
        if member.up and node != state.me and node not in state.map.drained and member.amqp_address
    ]  # fmt: skip
    found.sort(key=lambda node: (members[node].zone != state.settings.zone, node))
    return list(dict.fromkeys(members[node].amqp_address for node in found))


def sends_away(state: NodeState) -> bool:
    """Whether this node takes no clients: it is drained, and there is another one for them."""
    return state.me in state.map.drained and len(open_addresses(state)) > 0


def leaves_port_to_others(state: NodeState) -> bool:
    """Whether it takes no clients while others behind its own address do: workers of its host."""
    return state.me in state.map.drained and state.settings.amqp_address in open_addresses(state)


def where_to_go(state: NodeState) -> str:
    """What a client hears that may not be, or stay, at this node: as many addresses as fit."""
    text = f"node {state.me} is drained: connect to another one"
    for number, address in enumerate(open_addresses(state)):
        longer = f"{text}{', ' if number else ': '}{address}"
        if len(longer.encode()) > _TEXT_BYTES_MAX:
            break
        text = longer
    return text
