"""How a node introduces itself to its peers, and what their introductions are held against.

In: the configuration, which process this is, the node behind the turns; with whom its log votes.
Out: the desk that decides who of the peers is let in; the same voters in the data directory and in
the node.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from fedq.core.addresses import split_address
from fedq.core.ids import NodeId
from fedq.core.limits import NAME_BYTES_MAX
from fedq.node.node import Node
from fedq.shell.config.values import NodeConfig, is_loopback, is_wildcard
from fedq.shell.identity import Identity, IdentityFile
from fedq.shell.peers.desk import PeerDesk, agreed_settings
from fedq.shell.peers.hello import Hello, Process
from fedq.shell.peers.proof import PeerProof
from fedq.shell.raft.voters import VoterSet
from fedq.shell.turn import Turn


def make_desk(
    config: NodeConfig, identity: Identity, neighbours: Collection[NodeId], node: Node, turn: Turn,
    proof: PeerProof | None,
) -> PeerDesk:  # fmt: skip
    """The desk of this node; `neighbours`: the other nodes, as they are at any time."""
    timing = config.timing
    process = Process(identity.incarnation, identity.start, identity.started_ms)
    voters = node.state.settings.voters
    agreed = agreed_settings(voters, timing.lease_ms, timing.suspect_ms)
    desk = PeerDesk(
        Hello(
            config.node,
            process,
            agreed,
            reached_at=config.peer_address,
            directory=identity.directory,
        ),
        timing.suspect_ms / 1_000,
        asyncio.get_running_loop().time,
        lambda subject, sentence: turn.input(node.on_trouble, subject, sentence),
        identity.past,
        proof,
    )
    desk.known_of = node.state.map.newest_process
    desk.cluster_version = lambda: node.state.map.cluster_version
    desk.is_current = lambda: node.state.serving
    desk.on_foreign = turn.fail
    desk.neighbours = neighbours
    desk.forgotten = partial(_word_to_forgotten, node)
    desk.directory_of = partial(_directory_of, node)
    return desk


def _directory_of(node: Node, other: NodeId) -> str:
    """The data directory with which another node was let in; "": it was there at the beginning."""
    place = node.state.map.roster.get(other)
    return "" if place is None else place.directory


def take_address(
    config: NodeConfig, try_at: Callable[[NodeId, str], None], peer: NodeId, address: str
) -> None:
    """Has a peer that has proven its name dialled where it says it is, too.

    It may have moved, and be needed for the majority that has to note that. Nothing is taken that
    the configuration would refuse.
    """
    try:
        host, _ = split_address(address)
        host.encode("idna")
    except ValueError:
        return
    is_safe = config.certificates is not None or is_loopback(host)
    if is_safe and not is_wildcard(host) and len(address) <= NAME_BYTES_MAX:
        try_at(peer, address)


def _word_to_forgotten(node: Node, other: NodeId) -> str | None:
    """What another node hears if the map says that it was taken out of the cluster."""
    if other not in node.state.map.forgotten:
        return None
    return (
        f"node '{other}' was taken out of this cluster (`fedq cluster forget`): to come back as a "
        "new node it needs an empty data directory, and `join` in its configuration"
    )


def remember_set(file: IdentityFile, node: Node, turn: Turn, voters: VoterSet) -> None:
    """Remembers with whom this node votes, before it promises anything to them or without them."""
    file.remember_voters(voters)
    turn.input(node.on_new_set, voters.names if voters.number else ())
