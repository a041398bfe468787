"""Inputs of a node as functions, so that they can wait in an inbox with what they say."""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from fedq.core.ids import ConnectionId, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.node.node import Node
from fedq.node.outbox import ReadWanted, ScratchPiece


def link_up(node: Node, peer: NodeId) -> None:
    """The node's input of that name."""
    node.on_link_up(peer)


def leads(node: Node, leader: NodeId | None) -> None:
    """The node's input of that name."""
    node.on_leader(leader)


def synced(node: Node, number: int) -> None:
    """The node's input of that name."""
    node.on_synced(number)


def has_read(node: Node, wanted: ReadWanted, disk: Mapping[int, bytearray]) -> None:
    """The node's inputs of what was read, if all of it is there, or was not."""
    segment = disk.get(wanted.segment, bytearray())
    data = bytes(segment[wanted.offset : wanted.offset + wanted.length])
    if len(data) == wanted.length:
        node.on_read(wanted.number, data)
    else:
        node.on_read_failed(wanted.number, "the segment is shorter, or gone")


def has_not_read(node: Node, wanted: ReadWanted) -> None:
    """The node hears that the disk failed to read what it wanted."""
    node.on_read_failed(wanted.number, "input/output error")


def wrote(node: Node, piece: ScratchPiece, refusal: str) -> None:
    """The node hears of a piece that was to be written to a scratch file."""
    if refusal:
        node.on_scratch_failed(piece.number, refusal)
    else:
        node.on_scratch_written(piece.number)


def verified(node: Node, number: int, verdict: bool) -> None:
    """The node's input of that name."""
    node.on_verified(number, verdict)


def hears(node: Node, frame: PeerFrame) -> None:
    """The node's input of that name."""
    node.on_peer(frame)


def disconnected(node: Node, connection: ConnectionId) -> None:
    """The node's input of that name."""
    node.on_disconnected(connection)


def place_of(
    name: NodeId, nodes: Iterable[NodeId], joined: Container[NodeId],
    directories: Mapping[NodeId, str],
) -> dict[str, Any]:  # fmt: skip
    """Settings that say whom a node knows from the beginning; `joined`: those that were let in."""
    own = {"directory": directories.get(name, f"disk of {name}")}
    if name in joined:
        return {"peers": {name: f"{name}:7000"}, "joins": True, "neighbours": (*nodes,), **own}
    return {"peers": {each: f"{each}:7000" for each in nodes if each not in joined}, **own}
