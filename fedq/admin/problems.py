"""What is wrong with the cluster, one sentence for each thing; none: all is well.

Each sentence names who, says what it means for clients, and what to do where something can be done.
"""

from collections.abc import Iterable, Sequence

from fedq.admin.bounds import NAMES_IN_SENTENCE_MAX
from fedq.node.cluster.awaiting import sentence_of
from fedq.node.views.overview_types import ClusterOverview, NodeOverview
from fedq.shell.pb import admin_pb2 as pb


def find_problems(
    node: NodeOverview, cluster: ClusterOverview, members: Sequence[pb.Member]
) -> list[str]:
    """Sentences about the cluster as `node` sees it; `members` with their own figures."""
    return [*_of_the_node(node), *_of_members(node, members), *_of_fragments(cluster)]


def stale_sentence(node: NodeOverview) -> str | None:
    """Why what the node shows may be old; None: it is not."""
    if node.lease_held:
        return None
    return (
        f"{node.node} has no contact with a majority of the nodes (fenced): it confirms and "
        "delivers nothing, and what it shows may be old; ask another node"
    )


def _of_the_node(node: NodeOverview) -> Iterable[str]:
    stale = stale_sentence(node)
    if stale is not None:
        yield stale
    if node.leader is None:
        yield (
            "no leader is known: queues and bindings cannot be changed until a majority of the "
            "nodes is up"
        )
    if node.stopping:
        yield f"{node.node} is stopping"


def _of_members(node: NodeOverview, members: Sequence[pb.Member]) -> Iterable[str]:
    down = [m.node for m in members if m.state == pb.MEMBER_STATE_DOWN]
    # The one that answers is up, whatever its copy of the map says yet.
    absent = [m.node for m in members if m.state == pb.MEMBER_STATE_ABSENT and m.node != node.node]
    up = [m for m in members if m.state == pb.MEMBER_STATE_UP]
    silent = [m.node for m in up if not m.HasField("figures")]
    fenced = [
        m.node
        for m in up
        if m.HasField("figures") and not m.figures.lease_held and m.node != node.node
    ]
    if down:
        yield f"{names(down)} {_is(down)} down: start {_it(down)} again to have all copies back"
    if absent:
        yield f"{names(absent)} {_has(absent)} never come up: start {_it(absent)}"
    if silent:
        yield f"{names(silent)} {_does(silent)} not answer: figures of {_it(silent)} are unknown"
    for member in up:
        for trouble in member.figures.troubles if member.HasField("figures") else ():
            yield f"{member.node} {trouble}"
    if fenced:
        yield (
            f"{names(fenced)} {_has(fenced)} no contact with a majority of the nodes (fenced) and "
            f"{_does(fenced)} not serve clients"
        )


def _of_fragments(cluster: ClusterOverview) -> Iterable[str]:
    if cluster.fragments_unavailable:
        yield (
            f"{cluster.fragments_unavailable} of {cluster.fragments} queue fragments are not "
            "served: no copy that holds everything confirmed is up; start the nodes that hold one"
        )
    for awaited in cluster.awaited:
        yield sentence_of(awaited)
    if cluster.fragments_short:
        yield (
            f"{cluster.fragments_short} of {cluster.fragments} queue fragments have fewer copies "
            "in sync than they should: they serve, and are being copied where a node is free"
        )
    if cluster.alone:
        holders = [node for node, _ in cluster.alone]
        yield (
            f"{sum(count for _, count in cluster.alone)} of {cluster.fragments} queue fragments "
            f"have one copy only, on {names(holders)}: if its disk is lost, so are they; do not "
            f"stop {_it(holders)} before there are more, and start the nodes that are down"
        )


def names(nodes: Sequence[str]) -> str:
    """`n1, n2 and n3`; beyond a bound, how many more there are."""
    if len(nodes) > NAMES_IN_SENTENCE_MAX:
        shown = ", ".join(nodes[:NAMES_IN_SENTENCE_MAX])
        return f"{shown} and {len(nodes) - NAMES_IN_SENTENCE_MAX} more"
    if len(nodes) < 2:
        return "".join(nodes)
    return f"{', '.join(nodes[:-1])} and {nodes[-1]}"


def _is(nodes: Sequence[str]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _has(nodes: Sequence[str]) -> str:
    return "has" if len(nodes) == 1 else "have"


def _does(nodes: Sequence[str]) -> str:
    return "does" if len(nodes) == 1 else "do"


def _it(nodes: Sequence[str]) -> str:
    return "it" if len(nodes) == 1 else "them"
