"""Inputs of a node as functions, so that they can wait in an inbox with what they say."""

from fedq.core.ids import ConnectionId, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.node.node import Node


def link_up(node: Node, peer: NodeId) -> None:
    """The node's input of that name."""
    node.on_link_up(peer)


def leads(node: Node, leader: NodeId | None) -> None:
    """The node's input of that name."""
    node.on_leader(leader)


def synced(node: Node, number: int) -> None:
    """The node's input of that name."""
    node.on_synced(number)


def verified(node: Node, number: int, verdict: bool) -> None:
    """The node's input of that name."""
    node.on_verified(number, verdict)


def hears(node: Node, frame: PeerFrame) -> None:
    """The node's input of that name."""
    node.on_peer(frame)


def disconnected(node: Node, connection: ConnectionId) -> None:
    """The node's input of that name."""
    node.on_disconnected(connection)
