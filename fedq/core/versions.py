"""What nodes say to each other, and in which version.

A release speaks a range of versions: of frames, introductions, Raft frames and commands of the
cluster map together. The cluster speaks one of them, which stands in its map and rises when all
members can (docs/adr/0045). So two releases work together if their ranges meet, and a cluster is
updated node by node, from each release to the next.
"""

from typing import Final

#: Raised with every change that an older node would misunderstand.
NEWEST: Final = 15
#: What this release still speaks.
OLDEST: Final = 5
#: From which one on primaries say what was seen (`fedq.fragments.upkeep.seen`).
SEEN: Final = 6
#: From which one on long contents follow their frames in pieces (`fedq.shell.peers.longs`).
PIECES: Final = 7
#: From which one on nodes write checkpoints to their journals (`fedq.journal.checkpoints`).
CHECKPOINTS: Final = 8
#: From which one on there are streams (`fedq.node.streams`).
STREAMS: Final = 9
#: From which one on readers of streams have filters.
FILTERS: Final = 10
#: And names, whose places are kept.
NAMED: Final = 10
#: From which one on copies ask each other for what they cannot read (`fedq.node.copies.mending`).
MENDING: Final = 10
#: From which one on it is noted when messages of streams came (`fedq.fragments.streams.log`).
STREAM_TIMES: Final = 10
#: From which one on streams may be in several fragments (docs/adr/0064).
PARTED: Final = 11
#: From which one on an operator may name the copy that counts (`AdoptCopy`).
ADOPTING: Final = 11
#: From which one on a cluster has a name of its own (docs/adr/0074).
NAMES_OF_CLUSTERS: Final = 12
#: From which one on publishers may have names (docs/adr/0078).
NAMED_PUBLISHERS: Final = 12
#: From which one on there are traces, and every virtual host has the firehose's exchange.
TRACING: Final = 12
#: From which one on a frame carries each content once (docs/adr/0089).
REPEATS: Final = 13
#: From which one on nodes are drained, fragments are moved, and hand-overs are quiet (ADR 0082).
PLANNED_MOVES: Final = 13
#: From which one on who is of the cluster, and votes, is in its map (docs/adr/0084, 0085).
MEMBERSHIP: Final = 13
#: From which one on new copies go where the fewest are (`fedq.wiring.cluster_map.placement`).
EVEN_PLACEMENT: Final = 14
#: From which one on links follow the roster, so that nodes may join (docs/adr/0090).
JOINING: Final = 14
#: From which one on queues and exchanges have policies (docs/adr/0099).
POLICIES: Final = 15
#: From which one on voters that are gone for long are replaced (docs/adr/0101), and processes say
#: of which data directory they are.
VOTERS_REPLACED: Final = 15
DIRECTORIES: Final = 15
#: From which one on there are runtime parameters (docs/adr/0113).
PARAMETERS: Final = 15
#: From which one on fragments without traffic are retired (docs/adr/0100).
RETIRING: Final = 15
#: From which one on operators set how many fragments a queue has (docs/adr/0086).
SHAPES: Final = 15
#: From which one on copies and votes go to different hosts first (docs/adr/0098).
HOSTS: Final = 15
#: From which one on a command may be in order (docs/adr/0110).
IN_ORDER: Final = 15
#: From which one on users may be limited to topics (docs/adr/0112).
TOPIC_PERMISSIONS: Final = 15
#: And have passwords as RabbitMQ keeps them (docs/adr/0112).
RABBIT_HASHES: Final = 15
#: From which one on queues are read by reservation (docs/adr/0107).
QUEUE_READERS: Final = 15

#: What operators get with each of the last ones, once all nodes speak it.
FEATURES: Final[dict[int, tuple[str, ...]]] = {
    12: ("names of clusters", "publishers with names", "traces and the firehose"),
    13: (
        "drained nodes and planned moves", "nodes that are forgotten",
        "contents that cross to a node once",
    ),
    14: ("nodes that join a running cluster", "copies that are placed evenly"),
    15: (
        "voters that are replaced by observers", "names that belong to one data directory",
        "policies", "fragments that are retired", "workers of a host",
        "numbers of fragments that operators set", "declarations that are proposed together",
        "permissions of topics", "passwords as RabbitMQ keeps them", "parameters and shovels",
        "queues that are read by reservation",
    ),
}  # fmt: skip

#: Oldest and newest.
Range = tuple[int, int]
MINE: Final[Range] = (OLDEST, NEWEST)


def shown(versions: Range) -> str:
    """A range in words."""
    oldest, newest = versions
    return f"version {newest}" if oldest == newest else f"versions {oldest} to {newest}"


def misfit(node: str, versions: Range, cluster: int, mine: Range = MINE) -> str | None:
    """Why a node that speaks these does not fit here; None: it does.

    `cluster`: what the cluster speaks, as far as either of them knows; 0: nobody does.
    """
    oldest, newest = versions
    what = "of what nodes say to each other"
    if newest < mine[0] or oldest > mine[1]:
        older = node if newest < mine[0] else "this node"
        return (
            f"{node} speaks {shown(versions)} {what}, this node {shown(mine)}: update {older}, "
            "one release after the other if there are several between"
        )
    if cluster and not oldest <= cluster <= newest:
        return (
            f"{node} speaks {shown(versions)} {what}, the cluster version {cluster}: run a release "
            "on it that speaks that"
        )
    if cluster > mine[1]:
        return (
            f"the cluster of {node} speaks version {cluster} {what}, this node {shown(mine)}: "
            "update this node"
        )
    return None
